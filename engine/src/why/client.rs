// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions under which the client opens no second subflow, or opens one that is not used.

use mpwatch_model::kernel::lifecycle::CarriedBy;
use std::net::IpAddr;

use mpwatch_model::why::facts::{Endpoint, Interface, Subflow};

use super::case::{Case, Found};

/// A limit that is enough for the endpoints of this host, at least 2.
pub(super) fn enough(case: &Case<'_>) -> usize {
    case.endpoints().count().clamp(2, 8)
}

pub(super) fn userspace_manager(case: &Case<'_>) -> Option<Found> {
    let by_name = case.here.sysctl("path_manager") == Some("userspace");
    // Kernels before 6.15 have only the number.
    let by_number = case.here.sysctl("path_manager").is_none() && case.here.sysctl("pm_type") == Some("1");
    let (setting, kernel) = match (by_name, by_number) {
        (true, _) => ("net.mptcp.path_manager = userspace", "path_manager=kernel"),
        (_, true) => ("net.mptcp.pm_type = 1", "pm_type=0"),
        _ => return None,
    };
    case.lacks_path().then(|| Found::certain(vec![setting.to_owned()]).with("kernel", kernel))
}

pub(super) fn subflow_limit(case: &Case<'_>) -> Option<Found> {
    let is_zero = case.here.limits.is_some_and(|limits| limits.subflows == 0);
    let found = || Found::certain(vec!["limits: subflows 0".to_owned()]).with("limit", enough(case));
    (case.client_lacks_path() && is_zero).then(found)
}

/// Whether the peers of this namespace announced addresses.
fn were_addresses_announced(case: &Case<'_>) -> bool {
    case.counter("AddAddr") > 0
}

pub(super) fn announcement_not_accepted(case: &Case<'_>) -> Option<Found> {
    let is_zero = case.here.limits.is_some_and(|limits| limits.add_addr_accepted == 0);
    let joins_itself = case.joining().any(|endpoint| case.is_usable(endpoint));
    if !case.client_lacks_path()
        || case.is_new()
        || !is_zero
        || joins_itself
        || !were_addresses_announced(case)
    {
        return None;
    }
    let mut evidence = vec!["limits: add_addr_accepted 0".to_owned()];
    evidence.extend(case.counters(&["MPTcpExtAddAddr"]));
    let is_only = case.counter("MPCapableSYNTX") == 1;
    Some(if is_only { Found::certain(evidence) } else { Found::likely(evidence) }.with("limit", 2))
}

/// Flags in the notation of `ip mptcp endpoint`.
fn flags(flags: u32) -> String {
    const FLAGS: [(u32, &str); 6] = [
        (Endpoint::SIGNAL, "signal"),
        (Endpoint::SUBFLOW, "subflow"),
        (Endpoint::BACKUP, "backup"),
        (Endpoint::FULLMESH, "fullmesh"),
        (Endpoint::IMPLICIT, "implicit"),
        (Endpoint::LAMINAR, "laminar"),
    ];
    let set = FLAGS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name);
    set.collect::<Vec<_>>().join(" ")
}

/// An endpoint in the notation of `ip mptcp endpoint`.
pub(super) fn shown(endpoint: &Endpoint) -> String {
    let device = endpoint.device.as_ref().map(|device| format!(" dev {device}")).unwrap_or_default();
    format!("endpoint {} id {} {}{device}", endpoint.address, endpoint.id, options(endpoint, endpoint.flags))
}

/// The port and the flags of an endpoint, in the notation of `ip mptcp endpoint`.
fn options(endpoint: &Endpoint, set: u32) -> String {
    endpoint.port.map(|port| format!("port {port} ")).unwrap_or_default() + &flags(set)
}

/// As [`of_endpoint`], if the endpoint must be added again: with its flags and `more` flags.
pub(super) fn of_new_endpoint(
    endpoint: &Endpoint,
    more: u32,
    device: &str,
    evidence: Option<String>,
) -> Found {
    of_endpoint(endpoint, device, evidence).with("flags", options(endpoint, endpoint.flags | more))
}

/// A problem of an endpoint. `device`: its interface.
pub(super) fn of_endpoint(endpoint: &Endpoint, device: &str, evidence: Option<String>) -> Found {
    let evidence = [shown(endpoint)].into_iter().chain(evidence).collect();
    let found = Found::certain(evidence).with("address", endpoint.address).with("id", endpoint.id);
    found.with("device", device)
}

pub(super) fn endpoint_without_subflow(case: &Case<'_>) -> Option<Found> {
    if !case.client_lacks_path() || case.joining().next().is_some() || were_addresses_announced(case) {
        return None;
    }
    // A signal endpoint of a client is announced to the server, which opens no subflows.
    let is_asked = |endpoint: &&Endpoint| case.only.is_none_or(|only| only == *endpoint);
    let endpoint = case.endpoints().filter(is_asked).find(|endpoint| !endpoint.has(Endpoint::LAMINAR))?;
    let interface = case.here.interface_with(endpoint.address)?;
    Some(of_new_endpoint(endpoint, Endpoint::SUBFLOW, &interface.name, None))
}

pub(super) fn interface_down(case: &Case<'_>) -> Option<Found> {
    let is_down = |endpoint: &Endpoint| {
        case.here
            .interface_with(endpoint.address)
            .filter(|interface| !interface.up)
            .map(|interface| &interface.name)
    };
    let mut endpoints = case.joining_if_all_broken().filter(|_| case.client_lacks_path());
    let (endpoint, device) = endpoints.find_map(|endpoint| Some((endpoint, is_down(endpoint)?)))?;
    Some(of_endpoint(endpoint, device, Some(format!("link {device}: down"))))
}

pub(super) fn no_carrier(case: &Case<'_>) -> Option<Found> {
    let mut endpoints = case.joining_if_all_broken().filter(|_| case.client_lacks_path());
    let dead = |endpoint: &Endpoint| {
        case.here.interface_with(endpoint.address).filter(|interface| interface.up && !interface.running)
    };
    let (endpoint, interface) = endpoints.find_map(|endpoint| Some((endpoint, dead(endpoint)?)))?;
    Some(of_endpoint(endpoint, &interface.name, Some(format!("link {}: no carrier", interface.name))))
}

/// An endpoint whose address no interface has.
fn without_address<'a>(case: &Case<'a>) -> Option<&'a Endpoint> {
    let mut endpoints = case.joining_if_all_broken().filter(|_| case.client_lacks_path());
    endpoints.find(|endpoint| case.here.interface_with(endpoint.address).is_none())
}

pub(super) fn address_changed(case: &Case<'_>) -> Option<Found> {
    let endpoint = without_address(case)?;
    let is_own = |(interface, _): &(&Interface, IpAddr)| {
        endpoint.device.as_ref().is_none_or(|device| *device == interface.name)
    };
    let (interface, address) = case.candidates().filter(is_own).last()?;
    let evidence = format!("{} has the address {address}", interface.name);
    let found = of_new_endpoint(endpoint, 0, &interface.name, Some(evidence)).with("new", address);
    // Without a device, the address can have moved to any interface.
    Some(if endpoint.device.is_some() { found } else { found.but_likely() })
}

pub(super) fn address_missing(case: &Case<'_>) -> Option<Found> {
    let endpoint = without_address(case).filter(|_| address_changed(case).is_none())?;
    Some(of_endpoint(endpoint, "", None))
}

/// Whether a join from the endpoint waits for its answer, after a retransmission.
fn is_unanswered(case: &Case<'_>, endpoint: &Endpoint) -> bool {
    case.pending_joins().any(|join| join.local.ip() == endpoint.address && join.retransmits > 0)
}

pub(super) fn no_route(case: &Case<'_>) -> Option<Found> {
    let mut endpoints = case.joining_if_all_broken().filter(|_| case.client_lacks_path());
    endpoints.find_map(|endpoint| {
        let interface = case.here.interface_with(endpoint.address).filter(|interface| interface.up)?;
        let (error, is_certain) = match &case.route(endpoint)?.next_hop {
            Err(error) => (error.as_str(), true),
            // A neighbour may have the address.
            Ok(next_hop) if next_hop.assumed => {
                ("none; the kernel assumes a neighbour", is_unanswered(case, endpoint))
            }
            Ok(_) => return None,
        };
        let evidence = format!("route from {} to {}: {error}", endpoint.address, case.peer?);
        let found = of_endpoint(endpoint, &interface.name, Some(evidence)).with("peer", case.peer?);
        Some(if is_certain { found } else { found.but_likely() })
    })
}

pub(super) fn route_over_other_interface(case: &Case<'_>) -> Option<Found> {
    let is_asked = case.is_client() && (case.is_new() || case.carried_by() == Some(CarriedBy::Mptcp));
    let mut endpoints = case.joining().filter(|endpoint| is_asked && endpoint.device.is_none());
    endpoints.find_map(|endpoint| {
        let own = case.here.interface_with(endpoint.address)?;
        let chosen = &case.route(endpoint)?.next_hop.as_ref().ok()?.interface;
        let evidence = format!("route from {} to {}: dev {chosen}", endpoint.address, case.peer?);
        let found = of_new_endpoint(endpoint, 0, &own.name, Some(evidence)).with("other", chosen);
        (*chosen != own.name).then_some(found)
    })
}

pub(super) fn no_endpoint(case: &Case<'_>) -> Option<Found> {
    let has_other_way = case.endpoints().next().is_some() || were_addresses_announced(case);
    let (interface, address) = case.candidate().filter(|_| case.client_lacks_path() && !has_other_way)?;
    let evidence = match &case.here.endpoints[..] {
        [] => "endpoints: none".to_owned(),
        all => all.iter().map(shown).collect::<Vec<_>>().join("; "),
    };
    let unused = format!("{} has the address {address}", interface.name);
    // Whether the interface leads to the peer is not known.
    Some(Found::likely(vec![evidence, unused]).with("address", address).with("device", &interface.name))
}

pub(super) fn single_address(case: &Case<'_>) -> Option<Found> {
    let has_other_way = case.endpoints().next().is_some() || were_addresses_announced(case);
    let first = case.first_address().filter(|_| case.client_lacks_path() && !has_other_way)?;
    let found = Found::certain(case.counters(&["MPTcpExtAddAddr"])).with("address", first);
    let found = if case.is_new() { found.but_likely() } else { found };
    case.candidate().is_none().then_some(found)
}

pub(super) fn no_join_attempted(case: &Case<'_>) -> Option<Found> {
    let endpoint = case.joining().find(|endpoint| case.is_usable(endpoint))?;
    let is_silent = case.known_counter("MPJoinSynTx") == Some(0)
        && case.here.limits.is_some_and(|limits| limits.subflows > 0);
    let is_asked = case.client_lacks_path() && !case.is_new() && is_silent;
    let evidence = [vec![shown(endpoint)], case.counters(&["MPTcpExtMPJoinSynTx"])].concat();
    is_asked.then(|| Found::likely(evidence).with("address", endpoint.address))
}

/// All subflows but one are backups, by a decision of this host if `here`.
fn backup(case: &Case<'_>, here: bool) -> Option<Found> {
    let connection =
        case.connection.filter(|_| case.carried_by() == Some(CarriedBy::Mptcp) && case.paths() > 1)?;
    let (backups, others): (Vec<&Subflow>, Vec<&Subflow>) =
        connection.established().partition(|subflow| subflow.is_backup());
    let backup = backups.iter().find(|subflow| subflow.backup_here == here).filter(|_| others.len() == 1)?;
    let evidence = format!("subflow {} -> {}: backup", backup.local, backup.remote);
    let found =
        Found::certain(vec![evidence]).with("address", backup.local.ip()).with("peer", backup.remote.ip());
    // The initial subflow has address id 0, whatever the id of its endpoint is.
    let endpoint = case.here.endpoints.iter().find(|endpoint| endpoint.address == backup.local.ip());
    Some(found.with("id", endpoint.map_or(backup.local_id, |endpoint| endpoint.id)))
}

pub(super) fn backup_here(case: &Case<'_>) -> Option<Found> {
    backup(case, true)
}

pub(super) fn backup_there(case: &Case<'_>) -> Option<Found> {
    backup(case, false)
}
