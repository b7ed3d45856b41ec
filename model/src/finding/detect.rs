// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds problems and facts in a report or a connection.

use jiff::{SignedDuration, Timestamp};

use crate::flow::class::FlowClass;
use crate::flow::connection::Connection;
use crate::flow::outage::{self, PathFailure};
use crate::flow::progress::Progress;
use crate::flow::subflow::Subflow;
use crate::kernel::lifecycle::{CarriedBy, CloseReason, TcpState};
use crate::snapshot::Report;
use crate::unit::Micros;

use super::bottleneck;
use super::fact::{DownTime, Fact, FailedJoin, FailedPath, Finding, MainOutage};

/// Maximum time that a connection may wait for the answer to a SYN, or for its second subflow, seconds.
const JOIN_DEADLINE: f64 = 3.0;

/// The kernel's first timeout of a SYN.
const SYN_TIMEOUT: SignedDuration = SignedDuration::from_secs(1);

/// A path is slow if its median RTT is at least `SLOW_RTT`, and at least `SLOW_FACTOR` times the shortest median RTT. A slow path can slow
/// the connection down: the receiver buffers data of the other paths until the slow path has delivered its data, and the buffer fills.
const SLOW_RTT: Micros = Micros(100_000);
const SLOW_FACTOR: u64 = 5;
/// Minimum number of RTT samples on which such a median rests. Data whose ACKs an outage delayed gives a few samples as long as the outage.
const SLOW_SAMPLES: u64 = 20;

/// Findings about the host: lost data and mapping errors.
pub(super) fn of_host(report: &Report) -> Vec<Finding> {
    let problems = if report.is_of_namespace { <_>::default() } else { report.counters.mapping_problems };
    let mut facts: Vec<Fact> = report.losses.phrases().into_iter().map(Fact::DataLost).collect();
    facts.extend((problems.invalid > 0).then_some(Fact::InvalidMappings(problems.invalid)));
    facts.extend((problems.bad_checksum > 0).then_some(Fact::ChecksumFailures(problems.bad_checksum)));
    facts.into_iter().map(|fact| Finding { connection: None, fact }).collect()
}

/// All findings of a connection, most important first.
pub fn of_connection(connection: &Connection) -> Vec<Finding> {
    let subflows = || connection.subflows.iter().zip(1..);
    let failed = subflows().filter_map(|(subflow, number)| path_failed(connection, subflow, number));
    let late = subflows().filter_map(|(subflow, number)| closed_late(connection, subflow, number));
    let mut facts: Vec<Fact> = failed.chain(late).collect();
    facts.extend(abrupt_end(connection));
    facts.extend(outage(connection));
    facts.extend(fell_back(connection));
    facts.extend(bottleneck::facts(connection));
    facts.extend(failed_joins(connection));
    facts.extend(slow_path(connection));
    facts.extend(single_path(connection));
    facts.extend(limited_by_receiver(connection));
    facts.extend(closed(connection));
    let of_connection = facts.into_iter().map(|fact| Finding { connection: Some(connection.id), fact });
    let mut findings: Vec<Finding> = of_connection.collect();
    findings.sort_by_key(Finding::rank);
    findings
}

fn path_failed(connection: &Connection, subflow: &Subflow, number: usize) -> Option<Fact> {
    let failure = outage::path_failure(connection, subflow);
    if failure.is_none() && !outage::has_failed(connection, subflow) {
        return None;
    }
    let ended = subflow.closed.filter(|closed| closed.reason.is_failure());
    Some(Fact::PathFailed(FailedPath {
        subflow: number,
        local: subflow.local.ip(),
        remote: subflow.remote.ip(),
        interface: subflow.interface,
        at: failure.map(|failure| connection.offset(failure.at)),
        noticed: failure.map(|failure| connection.offset(failure.noticed)),
        recovered: failure.and_then(|failure| failure.recovered).map(|at| connection.offset(at)),
        intervals: failure.map_or(0, |failure| failure.intervals),
        down: failure.and_then(|failure| down_time(connection, failure)),
        ended: ended.map(|closed| (closed.reason, connection.offset(closed.at))),
    }))
}

/// How long a path did not work. `None`: unknown.
fn down_time(connection: &Connection, failure: PathFailure) -> Option<DownTime> {
    if let Some(recovered) = failure.recovered {
        let is_found = connection.was_found_at(recovered);
        let until = if is_found { DownTime::UntilRestart } else { DownTime::UntilRecovery };
        return Some(until(failure.down(recovered)));
    }
    let since = |end: Timestamp| (end > failure.noticed).then(|| failure.down(end));
    if let Some(closed) = connection.closed_at {
        let is_unobserved = connection.has_unobserved_end();
        let until = if is_unobserved { DownTime::UntilLastObserved } else { DownTime::UntilClose };
        return since(closed).map(until);
    }
    let now = connection.read_at()?;
    since(now).map(|time| DownTime::SoFar(time, connection.offset(now)))
}

fn closed_late(connection: &Connection, subflow: &Subflow, number: usize) -> Option<Fact> {
    let closed = subflow.closed.filter(|_| outage::closed_late(connection, subflow))?;
    Some(Fact::ClosedLate { subflow: number, reason: closed.reason, at: connection.offset(closed.at) })
}

fn abrupt_end(connection: &Connection) -> Option<Fact> {
    if outage::closed_normally(connection) {
        return None;
    }
    let mut subflows = connection.subflows.iter();
    let initial = subflows.clone().find(|subflow| subflow.initial);
    let failure = initial.and_then(|subflow| handshake_failure(connection, subflow));
    // The kernel gave up before it opened a subflow.
    let is_unsent = connection.subflows.is_empty() && connection.remote.is_none() && connection.seen_open;
    let failure = failure.or((is_unsent && !connection.is_open()).then_some(CloseReason::NotSent));
    if let Some(reason) = failure.filter(|reason| reason.is_failed_handshake()) {
        return Some(Fact::NotConnected(reason));
    }
    let reset = subflows.find(|subflow| {
        // After a fallback, the end of the connection says nothing about the data.
        (connection.fallback.is_some() || !outage::is_reset_late(connection, subflow))
            && (outage::closed_with_connection(connection, subflow)
                || outage::removed_with_connection(connection, subflow))
    })?;
    Some(Fact::Aborted { by_this_host: reset.closed?.reason != CloseReason::ResetReceived })
}

/// The reason for which the handshake of a subflow failed. `None`: it succeeded, or may still succeed.
fn handshake_failure(connection: &Connection, subflow: &Subflow) -> Option<CloseReason> {
    let waits_since = subflow.created_at.filter(|_| subflow.state == TcpState::SynSent);
    let is_late = waits_since
        .zip(connection.read_at())
        .is_some_and(|(since, now)| now.duration_since(since).as_secs_f64() > JOIN_DEADLINE);
    let reason = subflow.closed.map(|closed| closed.reason).filter(|_| !subflow.is_path());
    reason.or(is_late.then_some(CloseReason::Unanswered))
}

/// One fact per reason for which subflows did not join.
fn failed_joins(connection: &Connection) -> Vec<Fact> {
    let mut found: Vec<FailedJoin> = Vec::new();
    for (subflow, number) in connection.subflows.iter().zip(1..) {
        let Some(reason) = handshake_failure(connection, subflow).filter(|_| !subflow.initial) else {
            continue;
        };
        // The connection closed before the answer was due.
        let lasted = subflow.created_at.zip(subflow.closed).map(|(since, end)| end.at.duration_since(since));
        if reason == CloseReason::Unanswered && lasted.is_some_and(|lasted| lasted < SYN_TIMEOUT) {
            continue;
        }
        if let Some(earlier) = found.iter_mut().find(|earlier| earlier.reason == reason) {
            earlier.others += 1;
            continue;
        }
        let (local, remote) = (subflow.local.ip(), subflow.remote.ip());
        let interface = subflow.interface;
        found.push(FailedJoin { subflow: number, local, remote, interface, reason, others: 0 });
    }
    found.into_iter().map(Fact::JoinFailed).collect()
}

fn limited_by_receiver(connection: &Connection) -> Option<Fact> {
    let is_limited = |subflow: &&Subflow| subflow.progress == Progress::LimitedByReceiver;
    let limited = connection.subflows.iter().filter(|subflow| subflow.closed.is_none()).find(is_limited)?;
    Some(Fact::LimitedByReceiver { since: limited.progress_since.map(|at| connection.offset(at)) })
}

fn outage(connection: &Connection) -> Option<Fact> {
    let outages = outage::outages(connection);
    let main = outage::longest(&outages)?;
    let lasting = outages.iter().find(|outage| outage.lasts && *outage != main);
    Some(Fact::Outage(MainOutage {
        from: connection.offset(main.from),
        duration: main.duration,
        stalled: main.stalled,
        stalls: main.stalls,
        lasts: main.lasts,
        is_bound: connection.was_found_at(main.until()),
        outages: outages.len(),
        shorter_lasts_since: lasting.map(|outage| connection.offset(outage.from)),
    }))
}

fn slow_path(connection: &Connection) -> Option<Fact> {
    let carries = |subflow: &Subflow| !subflow.backup && subflow.bytes_sent.0 + subflow.bytes_received.0 > 0;
    let is_used = |subflow: &Subflow| {
        carries(subflow) && subflow.rtt_samples >= SLOW_SAMPLES && !outage::has_failed(connection, subflow)
    };
    let used = connection.subflows.iter().zip(1..).filter(|(subflow, _)| is_used(subflow));
    let mut rtts: Vec<(Micros, usize)> =
        used.filter_map(|(subflow, number)| Some((subflow.rtt_p50?, number))).collect();
    rtts.sort_unstable();
    let ((best_rtt, best), (rtt, subflow)) = (*rtts.first()?, *rtts.last()?);
    let is_slow = rtt >= SLOW_RTT && rtt.0 >= best_rtt.0.saturating_mul(SLOW_FACTOR);
    (is_slow && connection.flow_class == FlowClass::Long).then_some(Fact::SlowPath {
        subflow,
        rtt,
        best,
        best_rtt,
    })
}

fn single_path(connection: &Connection) -> Option<Fact> {
    // After an end has closed its direction (DATA_FIN), no subflow can join.
    let can_join = connection.state == TcpState::Established || !connection.is_open();
    if connection.carried_by() != CarriedBy::Mptcp
        || !can_join
        || connection.subflows.iter().filter(|subflow| subflow.is_path()).count() != 1
    {
        return None;
    }
    let has_peer = connection.subflows.iter().any(Subflow::was_answered);
    let is_long = connection.seen_open && has_peer && connection.flow_class == FlowClass::Long;
    let is_late = connection.is_open() && connection.age_s > JOIN_DEADLINE;
    (is_long || is_late).then(|| Fact::SinglePath { is_long, cause: connection.cause.clone() })
}

fn fell_back(connection: &Connection) -> Option<Fact> {
    Some(Fact::FellBack(connection.fallback?.reason, connection.cause.clone()))
}

fn closed(connection: &Connection) -> Option<Fact> {
    let at = connection.closed_at?;
    let ends = connection.subflows.iter().filter_map(|subflow| subflow.closed);
    let last = ends.map(|end| end.reason).next_back();
    let reason = if connection.has_unobserved_end() { Some(CloseReason::Unobserved) } else { last };
    Some(Fact::Closed { at, lasted: connection.age_s, reason })
}

/// Problems that cannot be found in a connection, one phrase each, so that "no problem found" does not hide "not measured". Empty: everything
/// is measured.
pub fn unmeasured(connection: &Connection) -> Vec<&'static str> {
    let has_several = connection.carried_by() == CarriedBy::Mptcp && connection.subflows.len() > 1;
    let detects_nothing = has_several && connection.bottlenecks.is_none();
    let cases = [
        (detects_nothing, "shared bottlenecks, because detection is disabled or this kernel lacks its hook"),
        (!connection.seen_open, "failures and outages before mpwatch started"),
        (
            connection.unobserved_gap().is_some() || connection.has_unobserved_end(),
            "failures and outages while mpwatch was not running",
        ),
    ];
    cases.into_iter().filter(|(applies, _)| *applies).map(|(_, what)| what).collect()
}
