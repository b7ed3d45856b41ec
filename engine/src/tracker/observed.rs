// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what was observed of a flow: the payload since it was first seen, and the time in which it carried payload. Pure.

use mpwatch_model::observed::Observed;
use mpwatch_model::unit::{Bytes, Nanos};

/// The life of a flow so far: from its opening, or when it was first seen, to its end or now.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    /// Its opening was traced: all of its payload was observed.
    pub(super) seen_open: bool,
}

#[derive(Default)]
pub(super) struct Observation {
    /// Payload when it was first seen. `None`: no tick yet.
    before: Option<Bytes>,
    latest: Bytes,
    active: Nanos,
}

impl Observation {
    /// Ends a tick. `total`: payload in both directions since the flow was opened.
    pub(super) fn on_tick(&mut self, total: Bytes, life: Life, now: Nanos, interval: Nanos) {
        let before = if life.seen_open { Bytes(0) } else { total };
        let is_first = self.before.is_none();
        self.before.get_or_insert(before);
        let previous = if is_first { before } else { self.latest };
        if total > previous {
            let from = life.from.max(now.since(interval));
            self.active += life.to.min(now).since(from);
        }
        self.latest = self.latest.max(total);
    }

    /// What was observed, with its payload until now.
    pub(super) fn so_far(&self, total: Bytes, life: Life) -> Observed {
        let before = if life.seen_open { Bytes(0) } else { self.before.unwrap_or(total) };
        Observed { bytes: total.since(before), duration: life.to.since(life.from), active: self.active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn at(tenths: u64) -> Nanos {
        Nanos(tenths * SECOND.0 / 10)
    }

    fn observe(seen_open: bool) -> Observed {
        let mut observation = Observation::default();
        let life = |to: u64| Life { from: at(105), to: at(to), seen_open };
        for (tenths, bytes) in [(110, 900), (120, 1_000), (130, 1_000), (140, 1_500)] {
            observation.on_tick(Bytes(bytes), life(tenths), at(tenths), SECOND);
        }
        // It closed before the last tick.
        observation.on_tick(Bytes(1_600), life(142), at(150), SECOND);
        observation.so_far(Bytes(1_600), life(142))
    }

    #[test]
    fn a_flow_that_was_seen_from_its_opening_is_observed_completely() {
        assert_eq!(observe(true), Observed { bytes: Bytes(1_600), duration: at(37), active: at(27) });
    }

    #[test]
    fn of_an_older_flow_only_the_payload_since_then_is_observed() {
        assert_eq!(observe(false), Observed { bytes: Bytes(700), duration: at(37), active: at(22) });
    }
}
