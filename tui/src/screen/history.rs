// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen remembers beyond one snapshot: the latest values of every flow, the latest snapshots to step through, and connections
//! that have closed. Everything is bounded.

mod activity;
mod tracks;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::snapshot::Snapshot;

use super::finding;
use super::flows::groups;
pub(crate) use activity::Activity;
pub(crate) use tracks::Track;
use tracks::{Tracks, Value};

/// Values kept of each flow.
pub(crate) const SAMPLES: usize = 120;
/// Snapshots to step through at most, ...
const FRAMES: usize = 600;
/// ... and connections that they hold together.
const FRAME_CONNECTIONS: usize = 20_000;
/// Closed connections that are remembered.
const CLOSED: usize = 1_000;

/// The number of a snapshot, counted from the first that came.
pub(crate) type Turn = u64;

/// Which of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Sent and received, bit/s.
    Rate,
    /// Smoothed RTT, seconds.
    Rtt,
    /// Energy above idle over the interval, watts.
    Watts,
}

/// Sums over a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Open ones.
    pub(crate) connections: usize,
    /// Open ones.
    pub(crate) subflows: usize,
    /// Bit/s, of open connections.
    pub(crate) send: u64,
    /// Bit/s, of open connections.
    pub(crate) receive: u64,
    /// Subflows that add no throughput.
    pub(crate) extra: usize,
    /// What those have cost, as far as it is known of any.
    pub(crate) waste: Option<FlowEnergy>,
}

impl Totals {
    fn add(&mut self, connection: &Connection) {
        if connection.is_open() {
            self.connections += 1;
            self.subflows += connection.subflows.iter().filter(|subflow| subflow.closed.is_none()).count();
            self.send = self.send.saturating_add(connection.send.0);
            self.receive = self.receive.saturating_add(connection.receive.0);
        }
        if connection.extra_subflows == Some(0) {
            return;
        }
        for (_, group) in groups(connection) {
            self.extra += group.len() - 1;
            if let Some(more) = finding::wasted(connection, &group[1..]) {
                self.waste = Some(self.waste.map_or(more, |sum| FlowEnergy::sum(&[sum, more])));
            }
        }
    }
}

/// A snapshot to go back to.
#[derive(Clone, Debug)]
struct Frame {
    snapshot: Arc<Snapshot>,
    totals: Totals,
}

/// Everything that is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    connections: Tracks<ConnectionId>,
    subflows: Tracks<SubflowId>,
    frames: VecDeque<Frame>,
    held: usize,
    /// Frames that nothing shows any more: they go while nobody waits for a picture.
    retired: Vec<Frame>,
    turns: Turn,
    closed: VecDeque<Connection>,
    closed_ids: HashSet<ConnectionId>,
    /// How many of the closed ones are not remembered any more.
    forgotten: u32,
}

impl History {
    /// Takes in a snapshot and returns its turn.
    pub(crate) fn add(&mut self, snapshot: Arc<Snapshot>) -> Turn {
        self.turns += 1;
        let turn = self.turns;
        self.connections.begin(turn);
        self.subflows.begin(turn);
        let mut totals = Totals::default();
        let mut closed = 0;
        for connection in &snapshot.connections {
            totals.add(connection);
            self.track(connection, snapshot.interval_s);
            closed += usize::from(!connection.is_open());
        }
        // More than are remembered need not be looked at.
        let too_many = closed.saturating_sub(CLOSED);
        let ended = snapshot.connections.iter().filter(|connection| !connection.is_open());
        ended.skip(too_many).for_each(|connection| self.remember(connection));
        self.forget(turn);
        self.held += snapshot.connections.len();
        self.frames.push_back(Frame { snapshot, totals });
        while self.frames.len() > FRAMES || (self.held > FRAME_CONNECTIONS && self.frames.len() > 2) {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.held -= oldest.snapshot.connections.len();
            self.retired.push(oldest);
        }
        turn
    }

    /// Gives back the memory of what is not needed any more. With ten thousand flows that takes longer than to draw them.
    pub(crate) fn tidy(&mut self) {
        self.retired.clear();
    }

    fn track(&mut self, connection: &Connection, interval: f64) {
        let active = |energy: &Option<FlowEnergy>| {
            energy.as_ref().and_then(|energy| energy.active).map(|active| active.0)
        };
        let rate = connection.send.0.saturating_add(connection.receive.0);
        let value = Value { rate, rtt: None, active: active(&connection.energy) };
        self.connections.add(connection.id, interval, value);
        for subflow in &connection.subflows {
            let rate = subflow.send.0.saturating_add(subflow.receive.0);
            let rtt = subflow.srtt.filter(|_| subflow.closed.is_none()).map(|srtt| srtt.0);
            let value = Value { rate, rtt, active: active(&subflow.energy) };
            self.subflows.add(subflow.id, interval, value);
        }
    }

    fn remember(&mut self, connection: &Connection) {
        if !self.closed_ids.insert(connection.id) {
            // Told twice: the later one has the finals.
            if let Some(old) = self.closed.iter_mut().rev().find(|old| old.id == connection.id) {
                old.clone_from(connection);
            }
            return;
        }
        self.closed.push_back(connection.clone());
        if self.closed.len() > CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.closed_ids.remove(&oldest.id);
            self.forgotten = self.forgotten.wrapping_add(1);
        }
    }

    /// Values of flows that nothing shows any more.
    fn forget(&mut self, turn: Turn) {
        // Seldom: a walk over all of them.
        if turn.is_multiple_of(16) {
            let old = turn.saturating_sub(16);
            let closed = &self.closed;
            let kept: HashSet<SubflowId> =
                closed.iter().flat_map(|one| one.subflows.iter().map(|subflow| subflow.id)).collect();
            let ids = &self.closed_ids;
            self.connections.forget(old, |id| ids.contains(id));
            self.subflows.forget(old, |id| kept.contains(id));
        }
    }

    /// The turn of the latest snapshot; 0 before the first.
    pub(crate) fn latest(&self) -> Turn {
        self.turns
    }

    /// The turn of the oldest that is kept.
    pub(crate) fn oldest(&self) -> Turn {
        self.turns + 1 - self.frames.len() as Turn
    }

    fn at(&self, turn: Turn) -> Option<&Frame> {
        let back = usize::try_from(self.turns.checked_sub(turn)?).ok()?;
        self.frames.len().checked_sub(back + 1).and_then(|place| self.frames.get(place))
    }

    /// The snapshot of a turn, if it is kept.
    pub(crate) fn frame(&self, turn: Turn) -> Option<&Arc<Snapshot>> {
        self.at(turn).map(|frame| &frame.snapshot)
    }

    /// The sums over it.
    pub(crate) fn totals(&self, turn: Turn) -> Totals {
        self.at(turn).map(|frame| frame.totals).unwrap_or_default()
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<Track<'_>> {
        self.connections.get(id)
    }

    pub(crate) fn subflow(&self, id: SubflowId) -> Option<Track<'_>> {
        self.subflows.get(id)
    }

    /// Closed connections, the latest last.
    pub(crate) fn closed(&self) -> &VecDeque<Connection> {
        &self.closed
    }

    /// Those with their numbers, which they keep.
    pub(crate) fn past(&self) -> impl Iterator<Item = (u32, &Connection)> {
        let numbers = (0..).map(|place: u32| self.forgotten.wrapping_add(place));
        numbers.zip(&self.closed)
    }

    /// A closed connection by its number. `None`: not remembered any more.
    pub(crate) fn past_at(&self, number: u32) -> Option<&Connection> {
        self.closed.get(number.wrapping_sub(self.forgotten) as usize)
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    fn fed(snapshots: usize) -> History {
        let mut history = History::default();
        for _ in 0..snapshots {
            history.add(Arc::new(fixture::snapshot(vec![fixture::connection(1, 2), fixture::closed(2)])));
        }
        history
    }

    #[test]
    fn values_are_bounded_and_end_at_the_turn_that_is_shown() {
        let history = fed(SAMPLES + 30);
        let id = fixture::connection(1, 2).id;
        let track = history.connection(id).unwrap();
        assert_eq!(track.values(Series::Rate, history.latest()).len(), SAMPLES);
        assert_eq!(track.values(Series::Rate, history.latest() - 5).len(), SAMPLES - 5);
        assert_eq!(track.watts(history.latest()), Some(0.0));
        assert!(track.recent(history.latest()) > 1e6);
    }

    #[test]
    fn frames_are_found_by_their_turn() {
        let history = fed(FRAMES + 5);
        assert_eq!(history.oldest(), 6);
        assert!(history.frame(6).is_some() && history.frame(5).is_none());
        assert!(history.frame(history.latest()).is_some() && history.frame(history.latest() + 1).is_none());
    }

    #[test]
    fn a_closed_connection_is_remembered_once() {
        let mut history = fed(3);
        assert_eq!(history.closed().len(), 1);
        assert_eq!(history.past_at(0).unwrap().id, fixture::closed(2).id);
        for token in 10..10 + u32::try_from(CLOSED).unwrap() {
            history.add(Arc::new(fixture::snapshot(vec![fixture::closed(token)])));
        }
        assert_eq!(history.closed().len(), CLOSED);
        assert!(history.past_at(0).is_none(), "its number is nobody else's");
        for (number, one) in history.past() {
            assert_eq!(history.past_at(number).unwrap().id, one.id);
        }
    }
}
