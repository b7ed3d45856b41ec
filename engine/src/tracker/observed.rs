// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what was observed of a flow: the payload since mpwatch first observed it, and the time in which it carried payload.

use mpwatch_model::flow::observed::Observed;
use mpwatch_model::unit::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The life of a flow so far: from its opening or, if not traced, its first record, to its end or now.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    /// Whether its opening was traced, so that all of its payload was observed.
    pub(super) seen_open: bool,
}

/// Bytes that a flow has carried since it was opened, in both directions.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    /// Payload, each byte counted once.
    pub(super) payload: Bytes,
    /// The sent part of `payload`.
    pub(super) sent: Bytes,
    /// The part of `sent` that is not acknowledged yet.
    pub(super) in_flight: Bytes,
    /// Estimated bytes on the wire, with headers.
    pub(super) wire: Bytes,
}

impl Totals {
    /// The totals that do not count if the flow was observed from now on, and those that count now: for a flow whose opening was not traced,
    /// without payload in flight. The CPU time of a sender follows the acknowledgements, because they cause the next transmissions
    /// (docs/measurements/energy.md).
    fn counted(self, life: Life) -> (Self, Self) {
        if life.seen_open {
            return (Self::default(), self);
        }
        let Self { payload, sent, in_flight, wire } = self;
        let without = |bytes: Bytes| bytes.since(in_flight);
        let [payload, sent, wire] = [payload, sent, wire].map(without);
        let acknowledged = Self { payload, sent, wire, in_flight: Bytes(0) };
        (acknowledged, acknowledged)
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Observation {
    /// Totals that the flow had reached before it was observed, as of the first tick; 0 if its opening was traced. `None`: no tick has ended.
    before: Option<Totals>,
    latest: Bytes,
    active: Nanos,
}

impl Observation {
    /// Whether a tick has ended.
    pub(super) fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Ends a tick.
    pub(super) fn on_tick(&mut self, totals: Totals, life: Life, now: Nanos, interval: Nanos) {
        let (before, totals) = totals.counted(life);
        let is_first = self.before.is_none();
        self.before.get_or_insert(before);
        let previous = if is_first { before.payload } else { self.latest };
        if totals.payload > previous {
            let from = life.from.max(now.since(interval));
            self.active += life.to.min(now).since(from);
        }
        self.latest = self.latest.max(totals.payload);
    }

    /// Payload and time that were observed. `totals`: bytes carried until now.
    pub(super) fn so_far(&self, totals: Totals, life: Life) -> Observed {
        let (first, totals) = totals.counted(life);
        let before = self.before.filter(|_| !life.seen_open).unwrap_or(first);
        Observed {
            bytes: totals.payload.since(before.payload),
            bytes_sent: totals.sent.since(before.sent),
            duration: life.to.since(life.from),
            active: self.active,
            wire_bytes_estimate: totals.wire.since(before.wire),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn at(tenths: u64) -> Nanos {
        Nanos(tenths * SECOND.0 / 10)
    }

    fn totals(payload: u64) -> Totals {
        let in_flight = Bytes(if payload < 1_600 { 100 } else { 0 });
        Totals { payload: Bytes(payload), sent: Bytes(payload), in_flight, wire: Bytes(payload * 2) }
    }

    fn observed(bytes: u64, wire: u64, active: u64) -> Observed {
        let wire_bytes_estimate = Bytes(wire);
        let (bytes, bytes_sent) = (Bytes(bytes), Bytes(bytes));
        Observed { bytes, bytes_sent, duration: at(37), active: at(active), wire_bytes_estimate }
    }

    fn observe(seen_open: bool) -> Observed {
        let mut observation = Observation::default();
        let life = |to: u64| Life { from: at(105), to: at(to), seen_open };
        for (tenths, bytes) in [(110, 900), (120, 1_000), (130, 1_000), (140, 1_500)] {
            observation.on_tick(totals(bytes), life(tenths), at(tenths), SECOND);
        }
        // The flow closed before the last tick.
        observation.on_tick(totals(1_600), life(142), at(150), SECOND);
        observation.so_far(totals(1_600), life(142))
    }

    #[test]
    fn a_flow_whose_opening_was_traced_is_observed_completely() {
        assert_eq!(observe(true), observed(1_600, 3_200, 27));
    }

    /// If payload in flight counted at once, a connection older than mpwatch would have up to two congestion windows of payload too much,
    /// which raises the goodput over a short time.
    #[test]
    fn payload_in_flight_of_an_older_flow_is_not_observed_yet() {
        let mut observation = Observation::default();
        let life = |to: u64| Life { from: at(105), to: at(to), seen_open: false };
        observation.on_tick(totals(1_000), life(110), at(110), SECOND);
        assert_eq!(observation.so_far(totals(1_000), life(110)).bytes, Bytes(0));
        assert_eq!(observation.so_far(totals(1_500), life(115)).bytes, Bytes(500));
    }

    #[test]
    fn payload_of_an_older_flow_is_observed_once_it_is_acknowledged() {
        assert_eq!(observe(false), observed(800, 1_500, 22));
    }
}
