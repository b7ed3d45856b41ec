// SPDX-License-Identifier: MIT OR Apache-2.0
//! The history of the screen: the latest values of every flow, the latest snapshots, and closed connections. Their numbers are bounded.

mod activity;
mod series;
mod tracks;

use std::collections::{HashSet, VecDeque};
use std::slice;
use std::sync::Arc;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::{ConnectionId, SubflowId};

use crate::digest::{Digest, Digested, Entry};
pub(crate) use activity::Activity;
pub(crate) use series::{Series, Span, Tick};
pub(crate) use tracks::Track;
use tracks::{FlowValues, Tracks};

/// Maximum number of snapshots kept, through which the user can step.
const MAX_FRAMES: usize = 600;
/// Maximum total number of connections in the kept snapshots; the two latest snapshots are kept in any case.
const MAX_FRAME_CONNECTIONS: usize = 20_000;
/// Maximum number of closed connections that are remembered.
pub(crate) const MAX_CLOSED: usize = 1_000;
/// Number of ticks between two searches for flows that have left the snapshots.
const FORGET_EVERY: Tick = 16;

/// A closed connection that is remembered.
#[derive(Clone, Debug)]
pub(crate) struct ClosedConnection {
    pub(crate) connection: Connection,
    digest: Digest,
}

impl ClosedConnection {
    fn new(connection: &Connection) -> Self {
        Self { connection: connection.clone(), digest: Digest::new(slice::from_ref(connection)) }
    }

    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.digest.entry(slice::from_ref(&self.connection), 0)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) connections: Tracks<ConnectionId>,
    pub(crate) subflows: Tracks<SubflowId>,
    frames: VecDeque<Arc<Digested>>,
    /// Number of connections in the kept snapshots.
    held: usize,
    /// Snapshots to free after the next drawing.
    retired: Vec<Arc<Digested>>,
    ticks: Tick,
    closed: VecDeque<ClosedConnection>,
    closed_ids: HashSet<ConnectionId>,
    /// Number of closed connections that were dropped, and so the number that identifies the oldest remembered connection.
    forgotten: u32,
}

impl History {
    /// Adds a snapshot and returns its tick.
    pub(crate) fn add(&mut self, frame: Arc<Digested>) -> Tick {
        self.ticks += 1;
        let tick = self.ticks;
        let end = frame.snapshot.at.as_duration().as_secs_f64();
        self.track(&frame.digest, (end - frame.snapshot.interval_s.unwrap_or(0.0), end));
        let closed = frame.entries().filter(|entry| !entry.digest.is_open);
        let too_many = frame.closed().saturating_sub(MAX_CLOSED);
        closed.skip(too_many).for_each(|entry| self.remember(entry.connection));
        self.forget(tick);
        self.held += frame.snapshot.connections.len();
        self.frames.push_back(frame);
        while self.frames.len() > MAX_FRAMES || (self.held > MAX_FRAME_CONNECTIONS && self.frames.len() > 2) {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.held -= oldest.snapshot.connections.len();
            self.retired.push(oldest);
        }
        tick
    }

    /// Frees the retired snapshots. With ten thousand flows this takes longer than drawing the screen.
    pub(crate) fn tidy(&mut self) {
        self.retired.clear();
    }

    fn track(&mut self, digest: &Digest, span: Span) {
        let interval = span.1 - span.0;
        self.connections.begin(self.ticks, span);
        for flow in &digest.connections {
            let values = FlowValues { rate: flow.rate, rtt: None, active: flow.active };
            self.connections.add(flow.id, interval, values);
        }
        self.subflows.begin(self.ticks, span);
        for flow in &digest.subflows {
            let active = flow.energy.and_then(|(active, _)| active);
            self.subflows.add(flow.id, interval, FlowValues { rate: flow.rate(), rtt: flow.rtt, active });
        }
    }

    fn remember(&mut self, connection: &Connection) {
        if !self.closed_ids.insert(connection.id) {
            // A later record of a closed connection has the final values.
            if let Some(old) = self.closed.iter_mut().rev().find(|old| old.connection.id == connection.id) {
                *old = ClosedConnection::new(connection);
            }
            return;
        }
        self.closed.push_back(ClosedConnection::new(connection));
        if self.closed.len() > MAX_CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.closed_ids.remove(&oldest.connection.id);
            self.forgotten = self.forgotten.wrapping_add(1);
        }
    }

    /// Every [`FORGET_EVERY`] ticks, drops the values of flows that left the snapshots, except remembered closed flows.
    fn forget(&mut self, tick: Tick) {
        if tick.is_multiple_of(FORGET_EVERY) {
            let old = tick.saturating_sub(FORGET_EVERY);
            let closed = self.closed.iter().flat_map(|closed| &closed.digest.subflows);
            let kept: HashSet<SubflowId> = closed.map(|flow| flow.id).collect();
            let ids = &self.closed_ids;
            self.connections.forget(old, |id| ids.contains(id));
            self.subflows.forget(old, |id| kept.contains(id));
        }
    }

    /// The tick of the latest snapshot. 0: no snapshot has arrived.
    pub(crate) fn latest(&self) -> Tick {
        self.ticks
    }

    /// The tick of the oldest snapshot that is kept.
    pub(crate) fn oldest(&self) -> Tick {
        self.ticks + 1 - self.frames.len() as Tick
    }

    /// The snapshot of a tick. `None`: the snapshot is no longer kept, or no snapshot has this tick.
    pub(crate) fn frame(&self, tick: Tick) -> Option<&Arc<Digested>> {
        let back = usize::try_from(self.ticks.checked_sub(tick)?).ok()?;
        self.frames.len().checked_sub(back + 1).and_then(|place| self.frames.get(place))
    }

    /// Closed connections, the latest last.
    pub(crate) fn closed(&self) -> impl DoubleEndedIterator<Item = &Connection> + ExactSizeIterator {
        self.closed.iter().map(|closed| &closed.connection)
    }

    /// Closed connections with their numbers. The number of a connection never changes.
    pub(crate) fn closed_with_numbers(&self) -> impl Iterator<Item = (u32, &ClosedConnection)> {
        let numbers = (0..).map(|place: u32| self.forgotten.wrapping_add(place));
        numbers.zip(&self.closed)
    }

    /// A closed connection by its number. `None`: no longer remembered.
    pub(crate) fn closed_at(&self, number: u32) -> Option<&ClosedConnection> {
        self.closed.get(number.wrapping_sub(self.forgotten) as usize)
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::series::SAMPLES;
    use super::*;

    fn frame(connections: Vec<Connection>) -> Arc<Digested> {
        Arc::new(Digested::new(fixture::snapshot(connections)))
    }

    fn fed(snapshots: usize) -> History {
        let mut history = History::default();
        for _ in 0..snapshots {
            history.add(frame(vec![fixture::connection(1, 2), fixture::closed(2)]));
        }
        history
    }

    #[test]
    fn values_are_bounded_and_end_at_the_tick_that_is_shown() {
        let history = fed(SAMPLES + 30);
        let id = fixture::connection(1, 2).id;
        let track = history.connections.get(id).unwrap();
        assert_eq!(track.values(Series::Rate, history.latest()).len(), SAMPLES);
        assert_eq!(track.values(Series::Rate, history.latest() - 5).len(), SAMPLES - 5);
        assert_eq!(track.watts(history.latest()), Some(0.0));
        assert!(track.recent(history.latest()) > 1e6);
    }

    #[test]
    fn frames_are_found_by_their_tick() {
        let history = fed(MAX_FRAMES + 5);
        assert_eq!(history.oldest(), 6);
        assert!(history.frame(6).is_some() && history.frame(5).is_none());
        assert!(history.frame(history.latest()).is_some() && history.frame(history.latest() + 1).is_none());
    }

    #[test]
    fn a_closed_connection_is_remembered_once() {
        let mut history = fed(3);
        assert_eq!(history.closed().len(), 1);
        assert_eq!(history.closed_at(0).unwrap().connection.id, fixture::closed(2).id);
        for token in 10..10 + u32::try_from(MAX_CLOSED).unwrap() {
            history.add(frame(vec![fixture::closed(token)]));
        }
        assert_eq!(history.closed().len(), MAX_CLOSED);
        assert!(history.closed_at(0).is_none(), "its number is not reused");
        for (number, closed) in history.closed_with_numbers() {
            assert_eq!(history.closed_at(number).unwrap().connection.id, closed.connection.id);
        }
    }
}
