// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding as one sentence.

use std::net::IpAddr;

use crate::endpoint::printable;
use crate::energy::FlowEnergy;
use crate::metric::{Unit, display};
use crate::timeline::Offset;
use crate::unit::Micros;

use super::fact::{Certainty, Fact, FailedPath, Finding, MainOutage, OtherPairs, SharedBottleneck};

/// How a sentence writes what users can choose or hide.
pub struct Format<'a> {
    /// Writes joules.
    pub energy: &'a dyn Fn(f64) -> String,
    /// Writes an address.
    pub address: &'a dyn Fn(IpAddr) -> String,
}

impl Default for Format<'_> {
    fn default() -> Self {
        Self { energy: &|joules| display(Unit::Joules, Some(joules)), address: &|ip| ip.to_string() }
    }
}

impl Format<'_> {
    /// Energy above idle; `~` marks an estimate. `None`: unknown.
    pub fn cost(&self, energy: &FlowEnergy) -> Option<String> {
        let mark = if energy.source.is_measured() { "" } else { "~" };
        energy.active.map(|active| format!("{mark}{}", (self.energy)(active.joules())))
    }
}

impl Finding {
    /// The sentence after the short id of its connection.
    pub fn line(&self, format: &Format<'_>) -> String {
        let name = self.connection.map(|id| format!("{}: ", id.short())).unwrap_or_default();
        format!("{name}{}", self.sentence(format))
    }

    /// The sentence.
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
            Fact::Refused => "refused: the peer answered the SYN with a reset".to_owned(),
            Fact::Aborted { by_this_host: true } => "aborted by this host (reset)".to_owned(),
            Fact::Aborted { by_this_host: false } => "aborted by the peer (reset)".to_owned(),
            Fact::Outage(main) => outage(main),
            Fact::FellBack(reason) => format!("fell back to plain TCP: {}", reason.description()),
            Fact::SharedBottleneck(shared) => shared_bottleneck(shared, format),
            Fact::SharedCap { subflows, sum, since } => format!(
                "subflows {} share a cap of {} since {}, without a common queue: what one gains the others lose",
                joined(subflows),
                display(Unit::BitsPerSecond, Some(sum.0 as f64)),
                since_opening(*since)
            ),
            Fact::SinglePath { is_long } => {
                let what = if *is_long { "long flow over one path only" } else { "one path only" };
                format!("{what}: no second subflow joined (see ip mptcp endpoint show; ip mptcp limits)")
            }
            Fact::DetectedBy(method) => {
                format!("bottlenecks are judged by {}, not by mpwatch's own method", method.as_str())
            }
            Fact::OtherPairs(pairs) => other_pairs(pairs),
            Fact::Closed { at, lasted, reason } => {
                let reason = reason.map(|reason| format!(": {}", reason.description())).unwrap_or_default();
                let lasted = display(Unit::Seconds, Some(*lasted));
                format!("closed at {} after {lasted}{reason}", at.strftime("%H:%M:%S"))
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

fn path_failed(path: &FailedPath, format: &Format<'_>) -> String {
    let over = path.interface.map(|name| format!(" over {}", printable(&name.text()))).unwrap_or_default();
    let [local, remote] = [path.local, path.remote].map(|ip| (format.address)(ip));
    let how = match (path.ended, path.noticed) {
        (Some((reason, end)), _) if path.at == Some(end) => reason.description().to_owned(),
        (Some((reason, end)), _) => format!("{} at {end}", reason.description()),
        (None, Some(noticed)) => format!("{NO_ACKS} (noticed at {noticed})"),
        (None, None) => NO_ACKS.to_owned(),
    };
    // Without a stall, the sample that noticed the failure is all that is known of its time.
    let known = path.at.filter(|at| path.ended.is_some() || path.noticed != Some(*at));
    let at = known.map(|at| format!(" at {at}")).unwrap_or_default();
    format!("path {} ({local} -> {remote}{over}) failed{at}: {how}", path.subflow)
}

const NO_ACKS: &str = "no acknowledgements";

fn outage(main: &MainOutage) -> String {
    let stalls = match main.stalls {
        1 => String::new(),
        several => format!(" for {} of it ({several} stalls)", seconds(main.stalled)),
    };
    let all = if main.outages > 1 { format!("; {} outages in total", main.outages) } else { String::new() };
    let longest =
        main.longest.map(|(from, duration)| format!(", the longest {} from {from}", seconds(duration)));
    let (duration, longest) = (seconds(main.duration), longest.unwrap_or_default());
    format!("{duration} outage from {}: no path made progress{stalls}{all}{longest}", main.from)
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
    let count = |number: usize| format!("{number} pair{}", if number == 1 { "" } else { "s" });
    let certainty = certainty(pairs.certainty, "probability of sharing");
    let (separate, undecided) = (count(pairs.separate), count(pairs.undecided));
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

/// ` since +1.75 s (probability 0.98)`.
fn certainty(Certainty { since, probability }: Certainty, word: &str) -> String {
    let since = since.map(|since| format!(" since {}", since_opening(since))).unwrap_or_default();
    let probability = probability.map(|p| format!(" ({word} {p:.2})")).unwrap_or_default();
    format!("{since}{probability}")
}

fn since_opening(since: Micros) -> String {
    format!("{:.2}", Offset(i64::try_from(since.0).unwrap_or(i64::MAX)))
}

fn seconds(micros: Micros) -> String {
    display(Unit::Seconds, Some(micros.0 as f64 / 1e6))
}

#[cfg(all(test, feature = "fixtures"))]
mod tests {
    use crate::bottleneck::{DetectionMethod, Verdict};
    use crate::connection::Connection;
    use crate::fixture;
    use crate::flow_class::FlowClass;
    use crate::timeline::{ObservedBy, TimelineEntry, TimelineEvent};

    use super::super::detect::of_connection;
    use super::super::fact::Severity;
    use super::*;

    fn texts(connection: &Connection) -> Vec<String> {
        let mark = |finding: &Finding| match finding.severity() {
            Severity::Failure => '✗',
            Severity::Warning => '!',
            Severity::Good => '✓',
            Severity::Note => '·',
        };
        let findings = of_connection(connection);
        findings.iter().map(|one| format!("{} {}", mark(one), one.sentence(&Format::default()))).collect()
    }

    fn stall(micros: i64, gap: u64) -> TimelineEntry {
        let event = TimelineEvent::Stalled { gap: Micros(gap) };
        TimelineEntry { at: fixture::at(micros), source: ObservedBy::Tracepoint, event }
    }

    #[test]
    fn a_failed_path_comes_first_then_its_outage() {
        assert_eq!(
            texts(&fixture::failover(1))[..4],
            [
                "✗ path 1 (10.0.1.1 -> 10.0.1.2 over eth1) failed at +5.600200 s: timed out at +9.412000 s",
                "✗ path 2 (10.0.2.1 -> 10.0.2.2 over eth2) failed: no acknowledgements",
                "✗ 412 ms outage from +5.600200 s: no path made progress",
                "· no two subflows share a bottleneck since +1.75 s (probability of sharing 0.00)",
            ]
        );
    }

    #[test]
    fn a_stale_path_says_when_it_was_noticed() {
        let mut connection = fixture::failover(1);
        (connection.subflows[0].closed, connection.subflows[0].stale) = (None, true);
        let why = "no acknowledgements (noticed at +6.000000 s)";
        assert!(texts(&connection)[0].ends_with(&format!("failed at +5.600200 s: {why}")));
        connection.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::Stalled { .. }));
        assert!(texts(&connection)[0].ends_with(&format!("over eth1) failed: {why}")));
    }

    #[test]
    fn several_stalls_are_one_outage_and_a_longer_outage_is_named() {
        let mut connection = fixture::failover(1);
        connection.timeline.extend([stall(6_050_200, 162_000), stall(6_260_200, 163_000)]);
        connection.timeline.push(stall(14_600_200, 900_000));
        assert_eq!(
            texts(&connection)[2],
            "✗ 823 ms outage from +5.600200 s: no path made progress for 737 ms of it (3 stalls); 2 outages in total, \
             the longest 900 ms from +14.600200 s"
        );
    }

    #[test]
    fn subflows_behind_one_bottleneck_are_named_with_what_they_cost() {
        let mut connection = fixture::connection(1, 3);
        connection.bottlenecks = Some(fixture::bottleneck::shared(&connection.subflows));
        let head = "! subflows 1, 2 and 3 share one bottleneck since +1.75 s (probability 0.98): 2 extra subflows add no throughput, \
                    carried 45 % of what was sent and cost";
        assert_eq!(texts(&connection), [format!("{head} 5.20 J")]);
        connection.subflows.iter_mut().for_each(|subflow| subflow.energy = None);
        assert_eq!(texts(&connection), [format!("{head} 1.09 s of CPU time")]);
        connection.bottlenecks = Some(fixture::bottleneck::capped(&connection.subflows[..2]));
        assert_eq!(
            texts(&connection),
            [
                "! subflows 1 and 2 share a cap of 48.1 Mbit/s since +4.25 s, without a common queue: what one gains the others lose"
            ]
        );
    }

    #[test]
    fn pairs_without_a_verdict_are_undecided() {
        let mut connection = fixture::connection(1, 3);
        let set = |connection: &mut Connection, verdicts: [Verdict; 3]| {
            let found = connection.bottlenecks.as_mut().unwrap();
            found.pairs.iter_mut().zip(verdicts).for_each(|(pair, verdict)| pair.verdict = verdict);
        };
        set(&mut connection, [Verdict::Disjoint, Verdict::Disjoint, Verdict::Unknown]);
        assert_eq!(
            texts(&connection),
            [
                "· 2 pairs of subflows with separate bottlenecks since +1.75 s (probability of sharing 0.00), 1 pair undecided"
            ]
        );
        set(&mut connection, [Verdict::Unknown; 3]);
        assert!(texts(&connection)[0].ends_with(": not enough samples from this sender yet"));
        (connection.bytes_sent, connection.bytes_received) =
            (connection.bytes_received, connection.bytes_sent);
        assert!(texts(&connection)[0].ends_with(": this end mostly receives, and only the sender can judge"));
        set(&mut connection, [Verdict::NoBottleneck; 3]);
        connection.bottlenecks.as_mut().unwrap().method = DetectionMethod::Dcw;
        assert_eq!(
            texts(&connection),
            ["✓ no subflow is congested", "· bottlenecks are judged by dcw, not by mpwatch's own method"]
        );
    }

    #[test]
    fn a_healthy_connection_says_so_and_a_single_path_is_a_problem_only_for_a_long_flow() {
        let healthy = "✓ no two subflows share a bottleneck since +1.75 s (probability of sharing 0.00): each adds throughput";
        assert_eq!(texts(&fixture::connection(1, 2)), [healthy]);
        let mut single = fixture::connection(1, 1);
        assert!(texts(&single)[0].starts_with("! long flow over one path only: no second subflow joined"));
        single.flow_class = FlowClass::Short;
        assert!(texts(&single)[0].starts_with("· one path only"));
        assert_eq!(texts(&fixture::closed(1))[1], "· closed at 12:00:12 after 12.0 s: closed normally (FIN)");
        assert_eq!(
            texts(&fixture::fallen_back(1))[0],
            "! fell back to plain TCP: no MP_CAPABLE in the SYN-ACK"
        );
    }
}
