// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be said of a connection in plain words, most serious first: who has never seen mpwatch must understand these lines.

use jiff::Timestamp;
use mpwatch_model::bottleneck::{Bottlenecks, PairVerdict, SharedCap, Verdict};
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::id::SubflowId;
use mpwatch_model::lifecycle::Protocol;
use mpwatch_model::metric::{Unit, display};
use mpwatch_model::outage;
use mpwatch_model::unit::Micros;

use super::theme::Ink;

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// How serious it is.
    pub(crate) ink: Ink,
    /// The sentence.
    pub(crate) text: String,
}

impl Finding {
    fn new(ink: Ink, text: String) -> Self {
        Self { ink, text }
    }

    /// A letter that says the same as the colour.
    pub(crate) fn mark(&self) -> &'static str {
        match self.ink {
            Ink::Alarm => "✗",
            Ink::Warning => "!",
            Ink::Good => "✓",
            _ => "·",
        }
    }
}

/// Everything that is to be said; `joules` writes energy as the user wants it.
pub(crate) fn of(connection: &Connection, joules: &dyn Fn(f64) -> String) -> Vec<Finding> {
    let mut found = failures(connection);
    found.extend(outages(connection));
    if let Some(fallback) = connection.fallback {
        let why = fallback.reason.description();
        found.push(Finding::new(Ink::Warning, format!("runs as plain TCP, one path only: {why}")));
    }
    found.extend(connection.bottlenecks.iter().flat_map(|known| bottlenecks(connection, known, joules)));
    found.extend(single(connection));
    found.extend(ending(connection));
    found
}

/// Seconds from the opening; from the first thing known where that was not seen.
pub(crate) fn offset(connection: &Connection, at: Timestamp) -> String {
    let from =
        connection.opened_at.or_else(|| connection.timeline.first().map(|entry| entry.at)).unwrap_or(at);
    let seconds = (at.as_nanosecond() - from.as_nanosecond()) as f64 / 1e9;
    format!("{seconds:+.2} s")
}

/// `1`, `1 and 2`, `1, 2 and 3`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn place(connection: &Connection, id: SubflowId) -> String {
    connection.subflow_number(id).map_or_else(|| id.to_string(), |place| place.to_string())
}

fn duration(micros: Micros) -> String {
    display(Unit::Seconds, Some(micros.0 as f64 / 1e6))
}

fn failures(connection: &Connection) -> Vec<Finding> {
    let failed = connection.subflows.iter().zip(1..).filter_map(|(subflow, place)| {
        let death = outage::path_failure(connection, subflow);
        if (death.is_none() && !subflow.stale) || outage::closed_with_connection(connection, subflow) {
            return None;
        }
        let over =
            subflow.interface.map(|name| format!(" ({})", printable(&name.text()))).unwrap_or_default();
        let died = death.map(|death| format!(" at {}", offset(connection, death.at)));
        let noticed = death.map(|death| format!(" (noticed at {})", offset(connection, death.noticed)));
        let how = match subflow.closed {
            Some(closed) => {
                format!("{} at {}", closed.reason.description(), offset(connection, closed.at))
            }
            None => {
                format!("no acknowledgements{}, its data goes over the others", noticed.unwrap_or_default())
            }
        };
        let died = died.unwrap_or_default();
        Some(Finding::new(Ink::Alarm, format!("path {place}{over} DIED{died}: {how}")))
    });
    failed.collect()
}

/// The gap in which a path died, where there is one; else the longest. Who sees a path die asks for that one, whatever else happened.
fn outages(connection: &Connection) -> Option<Finding> {
    let outages = outage::outages(connection);
    let longest = outage::longest(&outages)?;
    let told = outage::outage_of_failure(connection, &outages)?;
    let (long, at) = (duration(told.long), offset(connection, told.from));
    let how = match told.pauses {
        1 => "no path moved any data".to_owned(),
        pauses => {
            format!("data stood still {pauses} times, {} in all", duration(told.still))
        }
    };
    let more = match outages.len() {
        1 => String::new(),
        several if told.from == longest.from => format!("; {several} such outages in all"),
        several => {
            let (long, at) = (duration(longest.long), offset(connection, longest.from));
            format!("; {several} such outages in all, the longest {long} from {at} on")
        }
    };
    Some(Finding::new(Ink::Alarm, format!("GAP of {long} from {at} on: {how}{more}")))
}

/// Whether there are two paths left to compare.
pub(crate) fn has_two_alive(connection: &Connection) -> bool {
    connection.subflows.iter().filter(|subflow| subflow.closed.is_none() && !subflow.stale).count() > 1
}

/// Next to nothing of its payload goes out from here, so that there is nothing to judge by.
fn only_receives(connection: &Connection) -> bool {
    let [sent, received] =
        [connection.bytes_sent, connection.bytes_received].map(|bytes| bytes.map_or(0, |bytes| bytes.0));
    received > sent.saturating_mul(20)
}

fn bottlenecks(connection: &Connection, known: &Bottlenecks, joules: &dyn Fn(f64) -> String) -> Vec<Finding> {
    let groups = known.groups.iter().filter(|group| group.len() > 1);
    let mut found: Vec<Finding> = groups.map(|group| shared(connection, known, group, joules)).collect();
    if !known.method.is_default() {
        let text =
            format!("bottlenecks are judged by {}, not by mpwatch's own method", known.method.as_str());
        found.push(Finding::new(Ink::Faint, text));
    }
    let number = |verdict| known.pairs.iter().filter(|pair| pair.verdict == verdict).count();
    let all = known.pairs.len();
    found.extend(known.shared_caps.iter().map(|cap| divided(connection, cap)));
    // Of what is dead or over there is nothing more to be hoped for.
    if all == 0 || (connection.is_open() && !has_two_alive(connection)) {
        return found;
    }
    if known.pairs.iter().all(|pair| known.is_capped(pair)) {
        return found;
    }
    if number(Verdict::Disjoint) == all {
        let text = "every subflow has a bottleneck of its own: each adds throughput".to_owned();
        found.push(Finding::new(Ink::Good, text));
    } else if number(Verdict::NoBottleneck) == all {
        found.push(Finding::new(Ink::Good, "no path is congested".to_owned()));
    } else if number(Verdict::Unknown) == all {
        let text = if only_receives(connection) {
            "this end only receives: which subflows share a bottleneck can be told where it is sent"
        } else {
            "whether subflows share a bottleneck is not known yet: too few samples"
        };
        found.push(Finding::new(Ink::Faint, text.to_owned()));
    } else if number(Verdict::Unknown) > 0 {
        let pairs = number(Verdict::Unknown);
        found.push(Finding::new(
            Ink::Faint,
            format!("bottlenecks of {pairs} of {all} pairs are not known yet"),
        ));
    }
    found
}

fn divided(connection: &Connection, cap: &SharedCap) -> Finding {
    let names: Vec<String> = cap.subflows.iter().map(|id| place(connection, *id)).collect();
    let (sum, since) = (display(Unit::BitsPerSecond, Some(cap.sum.0 as f64)), duration(cap.since));
    let text = format!(
        "subflows {} SHARE a cap of {sum}, since +{since}, each with a queue of its own: what one gets the others lose",
        listed(&names)
    );
    Finding::new(Ink::Warning, text)
}

fn shared(
    connection: &Connection,
    known: &Bottlenecks,
    group: &[SubflowId],
    joules: &dyn Fn(f64) -> String,
) -> Finding {
    let names: Vec<String> = group.iter().map(|id| place(connection, *id)).collect();
    let inside = |pair: &&PairVerdict| {
        pair.verdict == Verdict::Shared && group.contains(&pair.a) && group.contains(&pair.b)
    };
    let pairs: Vec<&PairVerdict> = known.pairs.iter().filter(inside).collect();
    let sure = pairs.iter().filter_map(|pair| pair.probability).reduce(f64::min);
    let since = pairs.iter().filter_map(|pair| pair.since).max();
    let sure = sure.map(|sure| format!(", {:.0} % sure", sure * 100.0)).unwrap_or_default();
    let since = since.map(|since| format!(", since +{}", duration(since))).unwrap_or_default();
    let extra = group.len() - 1;
    let (extras, add) =
        if extra == 1 { ("1 extra subflow", "adds") } else { (&*format!("{extra} extra subflows"), "add") };
    let waste = wasted(connection, &group[1..]).map(|waste| format!(" and cost {}", marked(&waste, joules)));
    Finding::new(
        Ink::Warning,
        format!(
            "subflows {} SHARE one bottleneck{sure}{since}: {extras} {add} no throughput{}",
            listed(&names),
            waste.unwrap_or_default()
        ),
    )
}

/// What these subflows have cost. `None`: not known.
pub(crate) fn wasted(connection: &Connection, extra: &[SubflowId]) -> Option<FlowEnergy> {
    let those = connection.subflows.iter().filter(|subflow| extra.contains(&subflow.id));
    let energies: Vec<FlowEnergy> = those.filter_map(|subflow| subflow.energy).collect();
    Some(FlowEnergy::sum(&energies)).filter(|sum| !energies.is_empty() && sum.active.is_some())
}

/// Joules as the user wants them, with the mark of what was not measured.
pub(crate) fn marked(energy: &FlowEnergy, joules: &dyn Fn(f64) -> String) -> String {
    let mark = if energy.source.is_measured() { "" } else { "~" };
    energy.active.map(|active| format!("{mark}{}", joules(active.joules()))).unwrap_or_default()
}

fn single(connection: &Connection) -> Option<Finding> {
    let alone = connection.protocol == Protocol::Mptcp
        && connection.fallback.is_none()
        && connection.is_open()
        && connection.subflows.len() == 1
        && connection.age_s > 3.0;
    let text = "one path only: no second subflow has joined (ip mptcp endpoint show; ip mptcp limits)";
    alone.then(|| Finding::new(Ink::Faint, text.to_owned()))
}

fn ending(connection: &Connection) -> Option<Finding> {
    let closed = connection.closed_at?;
    let lasted = display(Unit::Seconds, Some(connection.age_s));
    let reasons: Vec<&str> = connection
        .subflows
        .iter()
        .filter_map(|subflow| subflow.closed)
        .map(|end| end.reason.description())
        .collect();
    let how = reasons.last().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(Finding::new(Ink::Faint, format!("closed at {} after {lasted}{how}", closed.strftime("%H:%M:%S"))))
}

#[cfg(test)]
mod tests {
    use mpwatch_model::bottleneck::DetectionMethod;
    use mpwatch_model::fixture;
    use mpwatch_model::timeline::{TimelineEntry, TimelineEvent};

    use super::*;

    fn texts(connection: &Connection) -> Vec<String> {
        of(connection, &|joules| format!("{joules:.1} J"))
            .into_iter()
            .map(|finding| format!("{} {}", finding.mark(), finding.text))
            .collect()
    }

    #[test]
    fn a_dead_path_is_told_with_its_gap() {
        let told = texts(&fixture::failover(1));
        assert_eq!(told[0], "✗ path 1 (eth1) DIED at +5.60 s: timed out at +9.41 s");
        assert_eq!(told[1], "✗ path 2 (eth2) DIED: no acknowledgements, its data goes over the others");
        assert_eq!(told[2], "✗ GAP of 412 ms from +5.60 s on: no path moved any data");
    }

    #[test]
    fn pauses_one_after_the_other_are_one_gap() {
        let mut connection = fixture::failover(1);
        let is_pause = |entry: &TimelineEntry| matches!(entry.event, TimelineEvent::Stalled { .. });
        let first = connection.timeline.iter().find(|entry| is_pause(entry)).unwrap().clone();
        let later = |millis: i64, gap| TimelineEntry {
            at: Timestamp::from_millisecond(first.at.as_millisecond() + millis).unwrap(),
            event: TimelineEvent::Stalled { gap: Micros(gap) },
            ..first.clone()
        };
        connection.timeline.extend([later(450, 162_000), later(660, 163_000), later(5_000, 100_000)]);
        let told = texts(&connection);
        let gap = told.iter().find(|text| text.contains("GAP")).unwrap();
        assert_eq!(
            gap,
            "✗ GAP of 823 ms from +5.60 s on: data stood still 3 times, 737 ms in all; 2 such outages in all"
        );
    }

    #[test]
    fn the_gap_of_a_death_comes_before_a_longer_one() {
        let mut connection = fixture::failover(1);
        let is_pause = |entry: &TimelineEntry| matches!(entry.event, TimelineEvent::Stalled { .. });
        let first = connection.timeline.iter().find(|entry| is_pause(entry)).unwrap().clone();
        let at = Timestamp::from_millisecond(first.at.as_millisecond() + 9_000).unwrap();
        connection.timeline.push(TimelineEntry {
            at,
            event: TimelineEvent::Stalled { gap: Micros(900_000) },
            ..first
        });
        let told = texts(&connection);
        let gap = told.iter().find(|text| text.contains("GAP")).unwrap();
        let wanted = "✗ GAP of 412 ms from +5.60 s on: no path moved any data; 2 such outages in all, the longest 900 ms from +14.60 s on";
        assert_eq!(gap, wanted);
    }

    #[test]
    fn a_path_that_is_left_alone_is_not_praised() {
        let mut connection = fixture::connection(1, 2);
        connection.subflows[0].stale = true;
        let told = texts(&connection);
        assert!(
            told[0].contains("path 1 (eth1) DIED")
                && told.iter().all(|text| !text.contains("adds throughput"))
        );
    }

    #[test]
    fn subflows_behind_one_bottleneck_are_named_with_what_they_waste() {
        let mut connection = fixture::connection(1, 3);
        connection.bottlenecks = Some(fixture::bottleneck::shared(&connection.subflows));
        assert_eq!(
            texts(&connection),
            [
                "! subflows 1, 2 and 3 SHARE one bottleneck, 98 % sure, since +1.75 s: 2 extra subflows add no throughput and cost 5.2 J"
            ]
        );
    }

    #[test]
    fn who_only_receives_is_told_where_to_ask() {
        let mut connection = fixture::connection(1, 2);
        for pair in &mut connection.bottlenecks.as_mut().unwrap().pairs {
            pair.verdict = Verdict::Unknown;
        }
        assert!(texts(&connection)[0].ends_with("not known yet: too few samples"));
        (connection.bytes_sent, connection.bytes_received) =
            (connection.bytes_received, connection.bytes_sent);
        assert!(texts(&connection)[0].starts_with("· this end only receives"));
    }

    #[test]
    fn those_that_divide_a_cap_are_not_praised_for_their_own_queues() {
        let mut connection = fixture::connection(1, 2);
        connection.bottlenecks = Some(fixture::bottleneck::capped(&connection.subflows));
        assert_eq!(
            texts(&connection),
            [
                "! subflows 1 and 2 SHARE a cap of 48.1 Mbit/s, since +4.25 s, each with a queue of its own: what one gets the others lose"
            ]
        );
    }

    #[test]
    fn another_method_than_the_usual_one_is_named() {
        let mut connection = fixture::connection(1, 2);
        if let Some(found) = &mut connection.bottlenecks {
            found.method = DetectionMethod::Dcw;
        }
        let told = texts(&connection);
        assert!(told.iter().any(|text| text.contains("judged by dcw, not by mpwatch's own")), "{told:?}");
    }

    #[test]
    fn a_healthy_connection_says_so() {
        assert_eq!(
            texts(&fixture::connection(1, 2)),
            ["✓ every subflow has a bottleneck of its own: each adds throughput"]
        );
        assert!(texts(&fixture::connection(1, 1))[0].starts_with("· one path only"));
        assert!(texts(&fixture::closed(1)).last().unwrap().contains("after 12.0 s: closed normally (FIN)"));
        assert!(texts(&fixture::fallen_back(1))[0].starts_with("! runs as plain TCP"));
    }
}
