// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a failed request is repeated: after pauses that double, with jitter, so that hosts do not come back all at once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The attempts at one request.
#[derive(Debug)]
pub(super) struct Retry {
    deadline: Instant,
    next: Duration,
}

impl Retry {
    /// Attempts for this long.
    pub(super) fn within(duration: Duration) -> Self {
        Self { deadline: Instant::now() + duration, next: FIRST_PAUSE }
    }

    /// The pause before the next attempt. `None`: no time is left.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        let left = self.deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let pause = jittered(self.next, RandomState::new().build_hasher().finish());
        self.next = (self.next * 2).min(MAX_PAUSE);
        Some(pause.min(left))
    }
}

/// Between half of a pause and all of it.
fn jittered(pause: Duration, random: u64) -> Duration {
    let half = pause / 2;
    half + half.mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end_with_the_time() {
        let mut retry = Retry::within(Duration::from_hours(1));
        let pauses: Vec<Duration> = (0..12).map_while(|_| retry.pause()).collect();
        assert_eq!(pauses.len(), 12);
        for (pause, doubled) in pauses.iter().zip(0..) {
            let full = FIRST_PAUSE.saturating_mul(1 << doubled).min(MAX_PAUSE);
            assert!(*pause >= full / 2 && *pause <= full, "{pause:?} of {full:?}");
        }
        assert_eq!(Retry::within(Duration::ZERO).pause(), None);
        assert_eq!(jittered(MAX_PAUSE, 0), MAX_PAUSE / 2);
        assert_eq!(jittered(MAX_PAUSE, u64::MAX), MAX_PAUSE);
    }
}
