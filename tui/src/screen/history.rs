// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen remembers beyond one snapshot: the latest values of every flow, the latest snapshots to step through, and connections
//! that have closed. Everything is bounded.

mod activity;
mod tracks;

use std::collections::{HashSet, VecDeque};
use std::slice;
use std::sync::Arc;

use mpwatch_model::connection::Connection;
use mpwatch_model::id::{ConnectionId, SubflowId};

use super::digest::{Brief, Digest, Digested};
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

/// A closed connection that is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    connection: Connection,
    digest: Digest,
}

impl Past {
    fn of(connection: &Connection) -> Self {
        Self { connection: connection.clone(), digest: Digest::of(slice::from_ref(connection)) }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn brief(&self) -> Option<Brief<'_>> {
        self.digest.brief(slice::from_ref(&self.connection), 0)
    }
}

/// Everything that is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    connections: Tracks<ConnectionId>,
    subflows: Tracks<SubflowId>,
    frames: VecDeque<Arc<Digested>>,
    held: usize,
    /// Frames that nothing shows any more: they go while nobody waits for a picture.
    retired: Vec<Arc<Digested>>,
    turns: Turn,
    closed: VecDeque<Past>,
    closed_ids: HashSet<ConnectionId>,
    /// How many of the closed ones are not remembered any more.
    forgotten: u32,
}

impl History {
    /// Takes in a snapshot and returns its turn.
    pub(crate) fn add(&mut self, frame: Arc<Digested>) -> Turn {
        self.turns += 1;
        let turn = self.turns;
        self.track(&frame.digest, frame.snapshot.interval_s);
        let ended = frame.briefs().filter(|brief| !brief.head.is_open);
        // More than are remembered need not be looked at.
        let too_many = frame.closed().saturating_sub(CLOSED);
        ended.skip(too_many).for_each(|brief| self.remember(brief.connection));
        self.forget(turn);
        self.held += frame.snapshot.connections.len();
        self.frames.push_back(frame);
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

    fn track(&mut self, digest: &Digest, interval: f64) {
        self.connections.begin(self.turns);
        for head in &digest.heads {
            let value = Value { rate: head.rate(), rtt: None, active: head.active };
            self.connections.add(head.id, interval, value);
        }
        self.subflows.begin(self.turns);
        for flow in &digest.flows {
            let active = flow.cost.and_then(|cost| cost.active);
            self.subflows.add(flow.id, interval, Value { rate: flow.rate(), rtt: flow.rtt, active });
        }
    }

    fn remember(&mut self, connection: &Connection) {
        if !self.closed_ids.insert(connection.id) {
            // Told twice: the later one has the finals.
            if let Some(old) = self.closed.iter_mut().rev().find(|old| old.connection.id == connection.id) {
                *old = Past::of(connection);
            }
            return;
        }
        self.closed.push_back(Past::of(connection));
        if self.closed.len() > CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.closed_ids.remove(&oldest.connection.id);
            self.forgotten = self.forgotten.wrapping_add(1);
        }
    }

    /// Values of flows that nothing shows any more.
    fn forget(&mut self, turn: Turn) {
        // Seldom: a walk over all of them.
        if turn.is_multiple_of(16) {
            let old = turn.saturating_sub(16);
            let closed = self.closed.iter().flat_map(|past| &past.digest.flows);
            let kept: HashSet<SubflowId> = closed.map(|flow| flow.id).collect();
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

    /// The snapshot of a turn, if it is kept.
    pub(crate) fn frame(&self, turn: Turn) -> Option<&Arc<Digested>> {
        let back = usize::try_from(self.turns.checked_sub(turn)?).ok()?;
        self.frames.len().checked_sub(back + 1).and_then(|place| self.frames.get(place))
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<Track<'_>> {
        self.connections.get(id)
    }

    pub(crate) fn subflow(&self, id: SubflowId) -> Option<Track<'_>> {
        self.subflows.get(id)
    }

    /// The sent and received of some subflows over time, summed up: the latest last, at most so many.
    pub(crate) fn rates(
        &self,
        subflows: impl Iterator<Item = SubflowId>,
        until: Turn,
        most: usize,
    ) -> Vec<f32> {
        self.subflows.sums(subflows, Series::Rate, until, most)
    }

    /// Closed connections, the latest last.
    pub(crate) fn closed(&self) -> impl DoubleEndedIterator<Item = &Connection> + ExactSizeIterator {
        self.closed.iter().map(Past::connection)
    }

    /// Those with their numbers, which they keep.
    pub(crate) fn past(&self) -> impl Iterator<Item = (u32, &Past)> {
        let numbers = (0..).map(|place: u32| self.forgotten.wrapping_add(place));
        numbers.zip(&self.closed)
    }

    /// A closed connection by its number. `None`: not remembered any more.
    pub(crate) fn past_at(&self, number: u32) -> Option<&Past> {
        self.closed.get(number.wrapping_sub(self.forgotten) as usize)
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    fn frame(connections: Vec<Connection>) -> Arc<Digested> {
        Arc::new(Digested::of(fixture::snapshot(connections)))
    }

    fn fed(snapshots: usize) -> History {
        let mut history = History::default();
        for _ in 0..snapshots {
            history.add(frame(vec![fixture::connection(1, 2), fixture::closed(2)]));
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
        assert_eq!(history.past_at(0).unwrap().connection.id, fixture::closed(2).id);
        for token in 10..10 + u32::try_from(CLOSED).unwrap() {
            history.add(frame(vec![fixture::closed(token)]));
        }
        assert_eq!(history.closed().len(), CLOSED);
        assert!(history.past_at(0).is_none(), "its number is nobody else's");
        for (number, one) in history.past() {
            assert_eq!(history.past_at(number).unwrap().connection.id, one.connection.id);
        }
    }
}
