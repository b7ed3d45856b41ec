// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding as one sentence.

use std::net::IpAddr;

use crate::flow::timeline::CLOCK;
use crate::host::energy::FlowEnergy;
use crate::kernel::endpoint::{Name, printable};
use crate::kernel::lifecycle::CloseReason;
use crate::metric::{Unit, count, display};
use crate::unit::Micros;
use crate::why::answer::{self, Cause, Place};

use super::fact::{
    Certainty, DownTime, Fact, FailedJoin, FailedPath, Finding, MainOutage, OtherPairs, SharedBottleneck,
};

/// Formats the values of a sentence: energy in a unit that the user chooses, and addresses that the user may hide.
pub struct Format<'a> {
    /// Formats joules.
    pub energy: &'a dyn Fn(f64) -> String,
    /// Formats an address.
    pub address: &'a dyn Fn(IpAddr) -> String,
    /// Whether names may be shown. If not, a cause is only named.
    pub names: bool,
}

impl Default for Format<'_> {
    fn default() -> Self {
        Self {
            energy: &|joules| display(Unit::Joules, Some(joules)),
            address: &|ip| ip.to_string(),
            names: true,
        }
    }
}

impl Format<'_> {
    /// Energy above idle; `~` marks an estimate. `None`: unknown.
    pub fn cost(&self, energy: &FlowEnergy) -> Option<String> {
        let mark = energy.source.mark();
        energy.active.map(|active| format!("{mark}{}", (self.energy)(active.joules())))
    }
}

impl Finding {
    /// The finding as one sentence.
    pub fn sentence(&self, format: &Format<'_>) -> String {
        match &self.fact {
            Fact::DataLost(what) => what.clone(),
            Fact::InvalidMappings(count) => {
                format!("invalid DSS mappings on this host, their subflows were reset: {count}")
            }
            Fact::ChecksumFailures(count) => {
                format!("DSS checksum failures on this host, something on a path changes data: {count}")
            }
            Fact::PathFailed(path) => path_failed(path, format),
            Fact::ClosedLate { subflow, reason, at } => format!(
                "subflow {subflow} did not close with the others: {} at {at:#}; its path may have failed, which only the sender notices",
                reason.description()
            ),
            Fact::NotConnected(reason) => format!("not connected: {}", reason.description()),
            Fact::JoinFailed(join) => join_failed(join, format),
            Fact::LimitedByReceiver { since } => {
                let since = since.map(|at| format!(" since {at}")).unwrap_or_default();
                format!("limited by the receiver's window{since}: the program there does not read")
            }
            Fact::Aborted { by_this_host: true } => "aborted by this host (reset)".to_owned(),
            Fact::Aborted { by_this_host: false } => "aborted by the peer (reset)".to_owned(),
            Fact::Outage(main) => outage(main),
            Fact::FellBack(reason, None) => format!("fell back to plain TCP: {}", reason.description()),
            Fact::FellBack(_, Some(found)) => format!("fell back to plain TCP: {}", cause(found, format)),
            Fact::SharedBottleneck(shared) => shared_bottleneck(shared, format),
            Fact::SharedCap { subflows, sum, since } => format!(
                "subflows {} share a cap of {} since {}, without a common queue: what one gains the others lose",
                joined(subflows),
                display(Unit::BitsPerSecond, Some(sum.0 as f64)),
                since_opening(*since)
            ),
            Fact::SlowPath { subflow, rtt, best, best_rtt } => format!(
                "path {subflow} is slow: median RTT {}, path {best} has {}; it can hold up the others (larger buffers, or make it a backup)",
                seconds(*rtt),
                seconds(*best_rtt)
            ),
            Fact::SinglePath { is_long, cause } => {
                let what = if *is_long { "long flow over one path only" } else { "one path only" };
                format!("{what}: {}", no_second_path(cause.as_deref(), format))
            }
            Fact::DetectedBy(method) => {
                format!("bottlenecks are judged by {}, not by mpwatch's own method", method.as_str())
            }
            Fact::OtherPairs(pairs) => other_pairs(pairs),
            Fact::Closed { at, lasted, reason: Some(reason @ CloseReason::Unobserved) } => {
                let lasted = display(Unit::Seconds, Some(*lasted));
                format!("last observed at {} after {lasted}: {}", at.strftime(CLOCK), reason.description())
            }
            Fact::Closed { at, lasted, reason } => {
                let reason = reason.map(|reason| format!(": {}", reason.description())).unwrap_or_default();
                let lasted = display(Unit::Seconds, Some(*lasted));
                format!("closed at {} after {lasted}{reason}", at.strftime(CLOCK))
            }
        }
    }
}

/// `1`, `1 and 2`, `1, 2 and 3`.
pub fn joined(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Why no second path joined.
pub(super) fn no_second_path(found: Option<&Cause>, format: &Format<'_>) -> String {
    let unknown = || "no second subflow joined (`mpwatch why` explains it)".to_owned();
    found.map_or_else(unknown, |found| cause(found, format))
}

/// A cause with its certainty and its first command.
fn cause(found: &Cause, format: &Format<'_>) -> String {
    if !format.names {
        return found.id.to_string();
    }
    let certainty = if found.certainty == answer::Certainty::Likely { " (likely)" } else { "" };
    let fix = found.fix.first().map(|fix| match fix.on {
        Place::Here => format!("; fix: {}", fix.command),
        Place::Peer => format!("; fix, at the peer: {}", fix.command),
    });
    // The owner of a namespace chooses the names of its interfaces.
    printable(&format!("{}{certainty}{}", found.sentence, fix.unwrap_or_default())).into_owned()
}

fn path_failed(path: &FailedPath, format: &Format<'_>) -> String {
    let how = match (path.ended, path.noticed) {
        (Some((reason, end)), Some(noticed)) if noticed < end => {
            format!("{NO_ACKS} (noticed at {noticed}), {} at {end}", reason.description())
        }
        (Some((reason, end)), _) if path.at == Some(end) => reason.description().to_owned(),
        (Some((reason, end)), _) => format!("{} at {end}", reason.description()),
        (None, Some(noticed)) if path.at == Some(noticed) => format!("{NO_ACKS}, noticed at {noticed:#}"),
        (None, Some(noticed)) => format!("{NO_ACKS} (noticed at {noticed})"),
        (None, None) => NO_ACKS.to_owned(),
    };
    // If no stall gives the start of the failure, `at` is the time of the sample that showed the failure.
    let known = path.at.filter(|at| path.ended.is_some() || path.noticed != Some(*at));
    let at = known.map(|at| format!(" at {at:#}")).unwrap_or_default();
    let down = down_time(path);
    let name = path_name(path.local, Some(path.remote), path.interface, format);
    format!("path {} ({name}) failed{at}: {how}{down}", path.subflow)
}

/// `10.0.1.1 -> 10.0.1.2 over eth1`; without a remote address, `from 10.0.1.1 over eth1`.
pub(super) fn path_name(
    local: IpAddr,
    remote: Option<IpAddr>,
    interface: Option<Name>,
    format: &Format<'_>,
) -> String {
    let over = interface.map(|name| format!(" over {}", printable(&name.text()))).unwrap_or_default();
    let local = (format.address)(local);
    match remote {
        Some(remote) => format!("{local} -> {}{over}", (format.address)(remote)),
        None => format!("from {local}{over}"),
    }
}

fn join_failed(join: &FailedJoin, format: &Format<'_>) -> String {
    let name = path_name(join.local, Some(join.remote), join.interface, format);
    let others =
        if join.others > 0 { format!("; nor did {}", count(join.others, "other")) } else { String::new() };
    format!("subflow {} ({name}) did not join: {}{others}", join.subflow, join.reason.description())
}

/// The cause of the failure, without times.
pub(super) fn path_cause(path: &FailedPath) -> &'static str {
    match (path.ended, path.noticed) {
        (Some((_, end)), Some(noticed)) if noticed < end => NO_ACKS,
        (Some((reason, _)), _) => reason.description(),
        (None, _) => NO_ACKS,
    }
}

/// How long the path did not work, and in how many intervals.
fn down_time(path: &FailedPath) -> String {
    let several = (path.intervals > 1).then(|| format!(" in {} intervals", path.intervals));
    let time = path.duration().map(seconds).unwrap_or_default() + several.as_deref().unwrap_or_default();
    match (path.down, path.recovered) {
        (Some(DownTime::UntilRecovery(_)), Some(end)) => format!("; works again since {end}, after {time}"),
        (Some(DownTime::UntilRestart(_)), Some(end)) => {
            format!("; works again, at the latest since mpwatch was restarted at {end}, after at most {time}")
        }
        (Some(DownTime::UntilLastObserved(_)), _) => {
            format!("; down for {time} until mpwatch last observed it")
        }
        (Some(DownTime::UntilClose(_)), _) => {
            let was = if several.is_some() { "down for" } else { "did not work again in the" };
            format!("; {was} {time} until the connection closed")
        }
        (Some(DownTime::SoFar(_, now)), _) => format!("; down for {time} so far, at {now:.1}"),
        _ => String::new(),
    }
}

const NO_ACKS: &str = "no acknowledgements";

fn outage(main: &MainOutage) -> String {
    let stalls = match main.stalls {
        1 => String::new(),
        several => format!(" for {} of it ({several} stalls)", seconds(main.stalled)),
    };
    let duration = seconds(main.duration);
    let mut all = match main.outages {
        0 | 1 => String::new(),
        several => format!("; the longest of {several} outages"),
    };
    all.extend(main.shorter_lasts_since.map(|from| format!("; the latest, since {from}, has not ended")));
    // "At least", because a connection in a database was read at its last change.
    if main.lasts {
        return format!(
            "outage since {:#}, at least {duration}: no path makes progress{stalls}{all}",
            main.from
        );
    }
    let most = if main.is_bound { "at most " } else { "" };
    format!("{most}{duration} outage from {:#}: no path made progress{stalls}{all}", main.from)
}

fn shared_bottleneck(shared: &SharedBottleneck, format: &Format<'_>) -> String {
    let mut phrases = vec![match shared.subflows.len().saturating_sub(1) {
        1 => "1 extra subflow adds no throughput".to_owned(),
        several => format!("{several} extra subflows add no throughput"),
    }];
    phrases
        .extend(shared.extra_share.map(|share| format!("carried {:.0} % of what was sent", share * 100.0)));
    let energy = shared.extra_energy.as_ref().and_then(|energy| format.cost(energy));
    let cpu = || Some(format!("{} of CPU time", display(Unit::Seconds, Some(shared.extra_cpu?.seconds()))));
    phrases.extend(energy.or_else(cpu).map(|cost| format!("cost {cost}")));
    let certainty = certainty(shared.certainty, "probability");
    format!("subflows {} share one bottleneck{certainty}: {}", joined(&shared.subflows), joined(&phrases))
}

fn other_pairs(pairs: &OtherPairs) -> String {
    let certainty = certainty(pairs.certainty, "probability of sharing");
    let (separate, undecided) = (count(pairs.separate, "pair"), count(pairs.undecided, "pair"));
    match pairs {
        OtherPairs { all, separate, add_throughput, .. } if separate == all => {
            let gain = if *add_throughput { ": each adds throughput" } else { "" };
            format!("no two subflows share a bottleneck{certainty}{gain}")
        }
        OtherPairs { all, not_congested, .. } if not_congested == all => "no subflow is congested".to_owned(),
        OtherPairs { all, undecided, mostly_receives, .. } if undecided == all => {
            let why = if *mostly_receives {
                "this end mostly receives, and only the sender can judge"
            } else {
                "not enough samples from this sender yet"
            };
            format!("undecided whether subflows share a bottleneck: {why}")
        }
        OtherPairs { separate: 0, .. } => format!("{undecided} of subflows undecided"),
        OtherPairs { undecided: 0, .. } => {
            format!("{separate} of subflows with separate bottlenecks{certainty}")
        }
        _ => format!("{separate} of subflows with separate bottlenecks{certainty}, {undecided} undecided"),
    }
}

/// ` since +1.75 s (probability 0.98)`, ` since +1.75 s (probability 0.98; 47 connections over these paths together carry 94.1 Mbit/s)`.
fn certainty(Certainty { since, probability, pooled }: Certainty, word: &str) -> String {
    let since = since.map(|since| format!(" since {}", since_opening(since))).unwrap_or_default();
    let probability = probability.map(|p| format!("{word} {p:.2}"));
    let pooled = pooled.map(|(connections, rate)| match rate {
        Some(rate) => {
            let rate = display(Unit::BitsPerSecond, Some(rate.0 as f64));
            format!("{connections} connections over these paths together carry {rate}")
        }
        None => format!("from the rates of {connections} connections"),
    });
    let reasons: Vec<String> = probability.into_iter().chain(pooled).collect();
    if reasons.is_empty() { since } else { format!("{since} ({})", reasons.join("; ")) }
}

fn since_opening(since: Micros) -> String {
    format!("{:+.2} s", since.seconds())
}

fn seconds(micros: Micros) -> String {
    display(Unit::Seconds, Some(micros.seconds()))
}
