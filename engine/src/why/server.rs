// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions under which the server prevents a second path.

use mpwatch_model::why::facts::Endpoint;

use super::case::{Case, Found};
use super::client::{enough, of_new_endpoint};

pub(super) fn refuses_joins(case: &Case<'_>) -> Option<Found> {
    let is_zero = case.here.limits.is_some_and(|limits| limits.subflows == 0);
    let evidence =
        [vec!["limits: subflows 0".to_owned()], case.counters(&["MPTcpExtMPJoinRejected"])].concat();
    let found =
        if case.counter("MPJoinRejected") > 0 { Found::certain(evidence) } else { Found::likely(evidence) };
    (case.server_lacks_path() && is_zero).then(|| found.with("limit", enough(case)))
}

pub(super) fn denies_initial_address(case: &Case<'_>) -> Option<Found> {
    let denies = case.here.sysctl("allow_join_initial_addr_port") == Some("0");
    let announces = case.here.endpoints.iter().any(|endpoint| endpoint.has(Endpoint::SIGNAL));
    let found = || Found::certain(vec!["net.mptcp.allow_join_initial_addr_port = 0".to_owned()]);
    (case.server_lacks_path() && denies && !announces).then(found)
}

pub(super) fn joins_without_connection(case: &Case<'_>) -> Option<Found> {
    let is_cause = case.server_lacks_path() && case.counter("MPJoinNoTokenFound") > 0;
    is_cause.then(|| Found::likely(case.counters(&["MPTcpExtMPJoinNoTokenFound", "MPTcpExtMPJoinSynRx"])))
}

pub(super) fn subflow_endpoint(case: &Case<'_>) -> Option<Found> {
    let announces = case.here.endpoints.iter().any(|endpoint| endpoint.has(Endpoint::SIGNAL));
    let endpoint = case.joining().next().filter(|_| case.server_lacks_path() && !announces)?;
    let interface = case.here.interface_with(endpoint.address)?;
    // The host can be a client of other servers, too.
    Some(of_new_endpoint(endpoint, Endpoint::SIGNAL, &interface.name, None).but_likely())
}

pub(super) fn announcement_not_echoed(case: &Case<'_>) -> Option<Found> {
    let is_cause = case.counter("AddAddrTx") > 0 && case.counter("EchoAdd") == 0;
    let found = || Found::likely(case.counters(&["MPTcpExtAddAddrTx", "MPTcpExtEchoAdd"]));
    (case.server_lacks_path() && is_cause).then(found)
}

pub(super) fn announced_but_not_joined(case: &Case<'_>) -> Option<Found> {
    let is_cause = case.counter("EchoAdd") > 0 && case.counter("MPJoinSynRx") == 0;
    let found = || Found::likely(case.counters(&["MPTcpExtEchoAdd", "MPTcpExtMPJoinSynRx"]));
    (case.server_lacks_path() && is_cause).then(found)
}

pub(super) fn not_announced(case: &Case<'_>) -> Option<Found> {
    let is_asked = case.server_lacks_path() && case.endpoints().next().is_none();
    let (interface, address) = case.candidate().filter(|_| is_asked && case.counter("MPJoinSynRx") == 0)?;
    let evidence = ["endpoints: none".to_owned(), format!("{} has the address {address}", interface.name)];
    let evidence = [evidence.to_vec(), case.counters(&["MPTcpExtMPJoinSynRx"])].concat();
    Some(Found::likely(evidence).with("address", address).with("device", &interface.name))
}
