// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions under which joins fail: on the path, at the peer, or in the routing of this host. Most counters are of the whole namespace, so most
//! of these causes are only likely.

use std::net::IpAddr;

use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::metric::count;
use mpwatch_model::why::facts::{Endpoint, Subflow};

use super::case::{Case, Found};

/// Whether the client sent joins and none of them is still without its first retransmission.
fn joins_failed(case: &Case<'_>) -> bool {
    let is_asked = case.client_lacks_path() && !case.is_new();
    // Kernels before 6.12 do not count joins.
    let has_tried =
        case.counter("MPJoinSynTx") > 0 || case.pending_join().is_some() || case.failed_join().is_some();
    is_asked && has_tried && case.pending_join() != Some(false)
}

/// Whether a join of the connection ended for this reason, if it was traced; else what the counters of the namespace suggest.
fn has_ended(case: &Case<'_>, reason: CloseReason, suggested: bool) -> bool {
    case.failed_join().map_or(suggested, |end| end == reason)
}

/// Whether a SYN of a join got no answer at all.
fn is_unanswered(case: &Case<'_>) -> bool {
    let is_over = case.here.counter("TcpExtTCPSynRetrans") > 0 && case.counter("MPJoinSynAckRx") == 0;
    case.pending_join() == Some(true) || has_ended(case, CloseReason::Unanswered, is_over)
}

/// Messages of ICMP about unreachable hosts. If ARP or neighbour discovery get no answer, this host sends one to itself.
const UNREACHABLE: [[&str; 2]; 2] =
    [["IcmpInDestUnreachs", "IcmpOutDestUnreachs"], ["Icmp6InDestUnreachs", "Icmp6OutDestUnreachs"]];

pub(super) fn join_unreachable(case: &Case<'_>) -> Option<Found> {
    let count = |name: &str| case.here.counter(name);
    let to_itself = UNREACHABLE.iter().find(|family| family.iter().all(|name| count(name) > 0));
    let is_suggested =
        to_itself.is_some() && count("TcpAttemptFails") > 0 && case.counter("MPJoinSynAckRx") == 0;
    let is_cause =
        has_ended(case, CloseReason::HostUnreachable, is_suggested) && case.pending_join().is_none();
    let mut evidence = vec!["MPTcpExtMPJoinSynTx", "TcpAttemptFails"];
    evidence.extend(to_itself.into_iter().flatten());
    join_failed(case, is_cause, &evidence)
}

pub(super) fn reverse_path_filter(case: &Case<'_>) -> Option<Found> {
    if case.is_new() {
        return filtered_endpoint(case);
    }
    let strict =
        case.here.interfaces.iter().filter(|interface| interface.rp_filter == 1 && !interface.loopback);
    let mut evidence: Vec<String> =
        strict.map(|interface| format!("{}: rp_filter 1 (strict)", interface.name)).collect();
    let is_asked = case.lacks_path() && (!case.is_client() || joins_failed(case));
    if !is_asked || evidence.is_empty() || case.here.counter("TcpExtIPReversePathFilter") == 0 {
        return None;
    }
    evidence.extend(case.counters(&["TcpExtIPReversePathFilter"]));
    let found = Found::certain(evidence);
    Some(if case.pending_joins().any(|join| is_filtered(case, join)) { found } else { found.but_likely() })
}

/// Whether the strict filter drops the answer to a SYN.
fn is_filtered(case: &Case<'_>, join: &Subflow) -> bool {
    join.retransmits > 0 && filter(case, join.local.ip(), join.remote.ip()).is_some()
}

/// The evidence that the strict filter drops packets from `peer` to `address`: the route back to their source is over another interface.
fn filter(case: &Case<'_>, address: IpAddr, peer: IpAddr) -> Option<String> {
    let own = case.here.interface_with(address).filter(|own| own.rp_filter == 1 && address.is_ipv4())?;
    let expected = case.here.expected(peer, address).filter(|expected| *expected != own.name)?;
    Some(format!("{}: rp_filter 1 (strict); packets from {peer} are expected on {expected}", own.name))
}

/// An endpoint that answers could not reach.
fn filtered_endpoint(case: &Case<'_>) -> Option<Found> {
    let evidence = |endpoint: &Endpoint| filter(case, endpoint.address, case.peer?);
    let is_fine = |endpoint: &Endpoint| case.is_usable(endpoint) && evidence(endpoint).is_none();
    let is_filtered =
        |endpoint: &Endpoint| Some(Found::likely(vec![evidence(endpoint)?]).with("id", endpoint.id));
    if let Some(only) = case.only {
        return is_filtered(only);
    }
    case.joining().find_map(is_filtered).filter(|_| !case.joining().any(is_fine))
}

pub(super) fn join_unanswered(case: &Case<'_>) -> Option<Found> {
    let peer = case.peer.filter(|_| joins_failed(case) && is_unanswered(case))?;
    let pending = case.pending_joins().find(|join| join.retransmits > 0);
    let mut evidence =
        case.counters(&["MPTcpExtMPJoinSynTx", "MPTcpExtMPJoinSynAckRx", "TcpExtTCPSynRetrans"]);
    evidence.extend(pending.map(|join| {
        let retransmissions = count(join.retransmits.into(), "retransmission");
        format!("{} -> {}: SYN with {retransmissions}", join.local, join.remote)
    }));
    let found = Found::certain(evidence);
    let found = if pending.is_some() { found } else { found.but_likely() };
    let from = pending
        .map(|join| join.local.ip())
        .or_else(|| case.joining().next().map(|endpoint| endpoint.address));
    let from = from.map_or_else(|| "this host".to_owned(), |address| address.to_string());
    Some(found.with("from", from).with("peer", pending.map_or(peer, |join| join.remote.ip())))
}

/// A failed join that the counters `evidence` explain.
fn join_failed(case: &Case<'_>, is_cause: bool, evidence: &[&str]) -> Option<Found> {
    let peer = case.peer.filter(|_| joins_failed(case) && is_cause)?;
    let found = Found::likely(case.counters(evidence)).with("peer", peer);
    Some(match case.failed_join() {
        Some(end) => Found { evidence: vec![format!("the join ended: {}", end.description())], ..found },
        None => found,
    })
}

pub(super) fn join_hmac(case: &Case<'_>) -> Option<Found> {
    const FAILURES: [&str; 2] = ["MPTcpExtMPJoinSynAckHMacFailure", "MPTcpExtMPJoinAckHMacFailure"];
    let is_cause = FAILURES.iter().any(|name| case.here.counter(name) > 0);
    (case.lacks_path() && !case.is_new() && is_cause).then(|| Found::likely(case.counters(&FAILURES)))
}

pub(super) fn join_refused(case: &Case<'_>) -> Option<Found> {
    let is_cause = case.counter("MPJoinSynAckRx") > 0
        && case.counter("MPJoinSynAckHMacFailure") == 0
        && case.counter("MPRstTx") > 0;
    join_failed(
        case,
        is_cause && has_ended(case, CloseReason::Refused, true) && case.pending_join().is_none(),
        &["MPTcpExtMPJoinSynTx", "MPTcpExtMPJoinSynAckRx", "MPTcpExtMPRstTx"],
    )
}

/// Whether joins were answered without MP_JOIN.
fn has_no_join_answer(case: &Case<'_>) -> bool {
    case.counter("MPJoinSynAckRx") == 0 && !is_unanswered(case)
}

pub(super) fn join_reset(case: &Case<'_>) -> Option<Found> {
    let is_suggested = has_no_join_answer(case) && case.here.counter("TcpAttemptFails") > 0;
    let is_cause = case.counter("MPJoinSynAckRx") == 0 && has_ended(case, CloseReason::Refused, is_suggested);
    join_failed(case, is_cause, &["MPTcpExtMPJoinSynTx", "MPTcpExtMPJoinSynAckRx", "TcpAttemptFails"])
}

pub(super) fn join_option_removed(case: &Case<'_>) -> Option<Found> {
    let is_reset = case.here.counter("TcpAttemptFails") > 0;
    let is_suggested = has_no_join_answer(case) && !is_reset && case.counter("MPRstTx") > 0;
    let is_cause = has_ended(case, CloseReason::OptionRemoved, is_suggested);
    join_failed(case, is_cause, &["MPTcpExtMPJoinSynTx", "MPTcpExtMPJoinSynAckRx", "MPTcpExtMPRstTx"])
}

pub(super) fn join_not_sent(case: &Case<'_>) -> Option<Found> {
    const ERRORS: [&str; 3] =
        ["MPTcpExtMPJoinSynTxCreatSkErr", "MPTcpExtMPJoinSynTxBindErr", "MPTcpExtMPJoinSynTxConnectErr"];
    let is_cause =
        has_ended(case, CloseReason::NotSent, ERRORS.iter().any(|name| case.here.counter(name) > 0));
    (case.client_lacks_path() && !case.is_new() && is_cause).then(|| Found::likely(case.counters(&ERRORS)))
}
