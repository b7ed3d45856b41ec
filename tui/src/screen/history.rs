// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen remembers beyond one snapshot: the latest values of every flow, the latest snapshots to step through, and connections
//! that have closed. Everything is bounded.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::snapshot::Snapshot;

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

/// The latest values of one flow, a value a snapshot; `NaN`: not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    last: Turn,
    rate: VecDeque<f32>,
    rtt: VecDeque<f32>,
    watts: VecDeque<f32>,
    active: Option<u64>,
}

/// Ids are numbers of the kernel: no attack is to be feared, and there are tens of thousands of them a snapshot.
type Quick = BuildHasherDefault<Mixer>;

/// Multiplies and rotates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// What a snapshot says of a flow.
struct Value<'a> {
    rate: u64,
    rtt: Option<u64>,
    energy: Option<&'a FlowEnergy>,
}

/// Which of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Sent and received, bit/s.
    Rate,
    /// Smoothed RTT, seconds.
    Rtt,
}

impl Track {
    #[expect(clippy::cast_possible_truncation, reason = "to be drawn")]
    fn add(&mut self, turn: Turn, interval: f64, value: &Value<'_>) {
        let Value { rate, rtt, energy } = *value;
        self.last = turn;
        push(&mut self.rate, rate as f32);
        if rtt.is_some() || !self.rtt.is_empty() {
            push(&mut self.rtt, rtt.map_or(f32::NAN, |micros| (micros as f64 / 1e6) as f32));
        }
        let active = energy.and_then(|energy| energy.active).map(|active| active.0);
        if active.is_some() || !self.watts.is_empty() {
            let grown = active.zip(self.active).map(|(now, then)| now.saturating_sub(then));
            let watts = grown.filter(|_| interval > 0.0).map(|grown| grown as f64 / 1e6 / interval);
            push(&mut self.watts, watts.map_or(f32::NAN, |watts| watts as f32));
        }
        self.active = active;
    }

    /// The values up to a turn, the latest last.
    pub(crate) fn values(&self, series: Series, until: Turn) -> Vec<f32> {
        let all = match series {
            Series::Rate => &self.rate,
            Series::Rtt => &self.rtt,
        };
        let late = usize::try_from(self.last.saturating_sub(until)).unwrap_or(usize::MAX);
        all.iter().copied().take(all.len().saturating_sub(late)).collect()
    }

    /// Power at a turn. `None`: not known.
    pub(crate) fn watts(&self, at: Turn) -> Option<f64> {
        let late = usize::try_from(self.last.saturating_sub(at)).ok()?;
        let value = *self.watts.iter().rev().nth(late)?;
        (!value.is_nan()).then_some(f64::from(value))
    }

    /// Mean rate of the latest ten values.
    pub(crate) fn recent(&self, until: Turn) -> f64 {
        let late = usize::try_from(self.last.saturating_sub(until)).unwrap_or(usize::MAX);
        let (sum, count) = self
            .rate
            .iter()
            .rev()
            .skip(late)
            .take(10)
            .fold((0.0, 0), |(sum, count), value| (sum + f64::from(*value), count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }
}

fn push(values: &mut VecDeque<f32>, value: f32) {
    if values.len() == SAMPLES {
        values.pop_front();
    }
    values.push_back(value);
}

/// Everything that is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    connections: HashMap<ConnectionId, Track, Quick>,
    subflows: HashMap<SubflowId, Track, Quick>,
    frames: VecDeque<Arc<Snapshot>>,
    held: usize,
    turns: Turn,
    closed: VecDeque<Connection>,
    closed_ids: HashSet<ConnectionId>,
}

impl History {
    /// Takes in a snapshot and returns its turn.
    pub(crate) fn add(&mut self, snapshot: Arc<Snapshot>) -> Turn {
        self.turns += 1;
        let turn = self.turns;
        for connection in &snapshot.connections {
            self.track(connection, turn, snapshot.interval_s);
            if !connection.is_open() {
                self.remember(connection);
            }
        }
        self.forget(turn);
        self.held += snapshot.connections.len();
        self.frames.push_back(snapshot);
        while self.frames.len() > FRAMES || (self.held > FRAME_CONNECTIONS && self.frames.len() > 2) {
            let oldest = self.frames.pop_front();
            self.held -= oldest.map_or(0, |frame| frame.connections.len());
        }
        turn
    }

    fn track(&mut self, connection: &Connection, turn: Turn, interval: f64) {
        let rate = connection.send.0.saturating_add(connection.receive.0);
        let track = self.connections.entry(connection.id).or_default();
        track.add(turn, interval, &Value { rate, rtt: None, energy: connection.energy.as_ref() });
        for subflow in &connection.subflows {
            let rate = subflow.send.0.saturating_add(subflow.receive.0);
            let rtt = subflow.srtt.filter(|_| subflow.closed.is_none()).map(|srtt| srtt.0);
            let track = self.subflows.entry(subflow.id).or_default();
            track.add(turn, interval, &Value { rate, rtt, energy: subflow.energy.as_ref() });
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
            self.connections.retain(|id, track| track.last >= old || ids.contains(id));
            self.subflows.retain(|id, track| track.last >= old || kept.contains(id));
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
    pub(crate) fn frame(&self, turn: Turn) -> Option<&Arc<Snapshot>> {
        let back = usize::try_from(self.turns.checked_sub(turn)?).ok()?;
        self.frames.len().checked_sub(back + 1).and_then(|place| self.frames.get(place))
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<&Track> {
        self.connections.get(&id)
    }

    pub(crate) fn subflow(&self, id: SubflowId) -> Option<&Track> {
        self.subflows.get(&id)
    }

    /// Closed connections, the latest last.
    pub(crate) fn closed(&self) -> &VecDeque<Connection> {
        &self.closed
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
        for token in 10..10 + u32::try_from(CLOSED).unwrap() {
            history.add(Arc::new(fixture::snapshot(vec![fixture::closed(token)])));
        }
        assert_eq!(history.closed().len(), CLOSED);
    }
}
