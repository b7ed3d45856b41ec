// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suspensions of the machine. The boot clock continues during a suspension, so a connection would seem to make no progress.

use std::collections::VecDeque;

use mpwatch_model::unit::Nanos;

/// Maximum number of suspensions kept. A few suffice, because a stall is reported at the next tick or when another subflow makes progress.
const MAX_REMEMBERED: usize = 16;

/// A suspension of the machine between two ticks.
#[derive(Clone, Copy, Debug)]
struct Suspension {
    from: Nanos,
    to: Nanos,
    /// Duration of the suspension, at most `to - from`.
    asleep: Nanos,
}

/// The latest suspensions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Suspensions(VecDeque<Suspension>);

impl Suspensions {
    /// Adds a suspension of length `asleep` between two ticks, unless `asleep` is zero.
    pub(super) fn note(&mut self, from: Nanos, to: Nanos, asleep: Nanos) {
        if asleep == Nanos(0) {
            return;
        }
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Suspension { from, to, asleep });
    }

    /// The time between `from` and `to` in which the machine was not suspended.
    pub(super) fn awake(&self, from: Nanos, to: Nanos) -> Nanos {
        let asleep = self.0.iter().map(|suspension| {
            let overlap = suspension.to.min(to).since(suspension.from.max(from));
            overlap.min(suspension.asleep).0
        });
        Nanos(to.since(from).0.saturating_sub(asleep.sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_awake_is_without_suspensions() {
        let mut suspensions = Suspensions::default();
        suspensions.note(Nanos(100), Nanos(200), Nanos(80));
        suspensions.note(Nanos(300), Nanos(400), Nanos(0));
        for (from, to, awake) in [(0, 90, 90), (0, 500, 420), (150, 160, 0), (200, 400, 200)] {
            assert_eq!(suspensions.awake(Nanos(from), Nanos(to)), Nanos(awake), "{from} to {to}");
        }
    }

    #[test]
    fn the_latest_suspensions_are_remembered() {
        let mut suspensions = Suspensions::default();
        for nth in 0..100 {
            suspensions.note(Nanos(nth * 10), Nanos(nth * 10 + 10), Nanos(5));
        }
        assert_eq!(suspensions.0.len(), MAX_REMEMBERED);
        assert_eq!(suspensions.awake(Nanos(990), Nanos(1_000)), Nanos(5));
    }
}
