// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a path stopped working and how long no data moved, from the timeline of a connection: what the live view and every report
//! say of a failover.

use jiff::Timestamp;

use crate::connection::Connection;
use crate::lifecycle::CloseReason;
use crate::subflow::Subflow;
use crate::timeline::TimelineEvent;
use crate::unit::Micros;

/// So long before it is noticed a path may have died, nanoseconds.
const NOTICED_WITHIN: i128 = 3_000_000_000;
/// Pauses that follow each other so closely that next to nothing was carried between them, nanoseconds.
const TOGETHER: i128 = 250_000_000;
/// A subflow that is reset so shortly before its connection closes ended with it, nanoseconds.
const AT_ONCE: i128 = 100_000_000;

/// The death of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFailure {
    /// When it stopped working, as well as that is known: the beginning of the first pause within 3 s before it was noticed, or else
    /// when it was noticed.
    pub at: Timestamp,
    /// When the kernel took it for dead, or it ended by a failure, whichever came first.
    pub noticed: Timestamp,
}

/// When a subflow died. `None`: it did not, or nothing tells when.
pub fn path_failure(connection: &Connection, subflow: &Subflow) -> Option<PathFailure> {
    let noticed = noticed(connection, subflow)?;
    let pauses =
        connection.timeline.iter().filter(|entry| matches!(entry.event, TimelineEvent::Stalled { .. }));
    let near =
        |at: &Timestamp| (0..=NOTICED_WITHIN).contains(&(noticed.as_nanosecond() - at.as_nanosecond()));
    let at = pauses.map(|entry| entry.at).find(near).unwrap_or(noticed);
    Some(PathFailure { at, noticed })
}

fn noticed(connection: &Connection, subflow: &Subflow) -> Option<Timestamp> {
    let ended = subflow.closed.filter(|closed| closed.reason.is_failure()).map(|closed| closed.at);
    let stale = connection.timeline.iter().rev().find_map(|entry| match entry.event {
        TimelineEvent::SubflowStale { subflow: id, stale: true } if id == subflow.id => Some(entry.at),
        _ => None,
    });
    // One that works again is not dead.
    let stale = stale.filter(|_| ended.is_some() || subflow.stale);
    stale.into_iter().chain(ended).min()
}

/// Whether the reset that ended this subflow ended the whole connection: then it is no failure of the path.
pub fn closed_with_connection(connection: &Connection, subflow: &Subflow) -> bool {
    let (Some(end), Some(closed)) = (connection.closed_at, subflow.closed) else { return false };
    let by_reset = matches!(closed.reason, CloseReason::ResetSent | CloseReason::ResetReceived);
    by_reset && end.as_nanosecond() - closed.at.as_nanosecond() < AT_ONCE
}

/// Pauses in which no path moved any data, as one where they belong together: what an application sees of a path's death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Beginning of the first pause.
    pub from: Timestamp,
    /// From there to the end of the last one.
    pub long: Micros,
    /// How long data stood still within it.
    pub still: Micros,
    /// How many pauses.
    pub pauses: usize,
}

impl Outage {
    fn until(&self) -> i128 {
        self.from.as_nanosecond() + i128::from(self.long.0) * 1_000
    }

    fn holds(&self, at: Timestamp) -> bool {
        (self.from.as_nanosecond()..=self.until()).contains(&at.as_nanosecond())
    }
}

/// All outages of a connection, in order.
pub fn outages(connection: &Connection) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    for entry in &connection.timeline {
        let TimelineEvent::Stalled { gap } = entry.event else { continue };
        match outages.last_mut().filter(|last| entry.at.as_nanosecond() - last.until() <= TOGETHER) {
            Some(last) => {
                let until = (entry.at.as_nanosecond() + i128::from(gap.0) * 1_000).max(last.until());
                let long = (until - last.from.as_nanosecond()) / 1_000;
                last.long = Micros(u64::try_from(long).unwrap_or(u64::MAX));
                last.still = Micros(last.still.0.saturating_add(gap.0));
                last.pauses += 1;
            }
            None => outages.push(Outage { from: entry.at, long: gap, still: gap, pauses: 1 }),
        }
    }
    outages
}

/// The gap in which a path died, where there is one, else the longest: who sees a path die asks for that one, whatever else happened.
pub fn outage_of_failure(connection: &Connection, outages: &[Outage]) -> Option<Outage> {
    let subflows = connection.subflows.iter().filter(|subflow| !closed_with_connection(connection, subflow));
    let deaths: Vec<PathFailure> = subflows.filter_map(|subflow| path_failure(connection, subflow)).collect();
    let of_death = |gap: &&Outage| deaths.iter().any(|death| gap.holds(death.at));
    outages.iter().filter(of_death).max_by_key(|gap| gap.long).or_else(|| longest(outages)).copied()
}

/// The longest of them.
pub fn longest(outages: &[Outage]) -> Option<&Outage> {
    outages.iter().max_by_key(|gap| gap.long)
}

#[cfg(all(test, feature = "fixtures"))]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::timeline::TimelineEntry;

    fn pause(second: i64, micros: i64, gap: u64) -> TimelineEntry {
        let at = fixture::at(second * 1_000_000 + micros);
        let source = crate::timeline::ObservedBy::Tracepoint;
        TimelineEntry { at, source, event: TimelineEvent::Stalled { gap: Micros(gap) } }
    }

    #[test]
    fn a_path_died_where_the_pause_before_its_end_began() {
        let connection = fixture::failover(1);
        let told = path_failure(&connection, &connection.subflows[0]).unwrap();
        assert_eq!((told.at, told.noticed), (fixture::at(5_600_200), fixture::at(6_000_000)));
        assert_eq!(
            path_failure(&connection, &connection.subflows[1]),
            None,
            "nothing tells when it became stale"
        );
        assert_eq!(path_failure(&connection, &connection.subflows[2]), None, "it works");
    }

    #[test]
    fn a_path_that_works_again_is_not_dead() {
        let mut connection = fixture::failover(1);
        connection.subflows[0].closed = None;
        assert_eq!(path_failure(&connection, &connection.subflows[0]), None);
        connection.subflows[0].stale = true;
        assert!(path_failure(&connection, &connection.subflows[0]).is_some());
    }

    #[test]
    fn a_pause_of_long_before_is_not_its_death() {
        let mut connection = fixture::failover(1);
        connection.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::Stalled { .. }));
        connection.timeline.insert(1, pause(2, 900_000, 100_000));
        let told = path_failure(&connection, &connection.subflows[0]).unwrap();
        assert_eq!(told.at, told.noticed);
    }

    #[test]
    fn pauses_one_after_the_other_are_one_gap() {
        let mut connection = fixture::failover(1);
        connection.timeline.extend([
            pause(6, 50_200, 162_000),
            pause(6, 260_200, 163_000),
            pause(10, 0, 100_000),
        ]);
        let found = outages(&connection);
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert_eq!((first.long, first.still, first.pauses), (Micros(823_000), Micros(737_300), 3));
        assert_eq!((second.from, second.pauses), (fixture::at(10_000_000), 1));
    }

    #[test]
    fn the_gap_of_a_death_comes_before_a_longer_one() {
        let mut connection = fixture::failover(1);
        connection.timeline.push(pause(14, 0, 900_000));
        let found = outages(&connection);
        assert_eq!(outage_of_failure(&connection, &found).unwrap().long, Micros(412_300));
        assert_eq!(longest(&found).unwrap().long, Micros(900_000));
        let mut quiet = connection.clone();
        quiet.subflows[0].closed = None;
        assert_eq!(outage_of_failure(&quiet, &found).unwrap().long, Micros(900_000), "nothing died");
        assert_eq!(outage_of_failure(&quiet, &[]), None);
    }
}
