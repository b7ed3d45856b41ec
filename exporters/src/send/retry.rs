// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pauses before a failed request is repeated. They double, with jitter, so that hosts do not all retry at once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The pauses between the attempts at one request.
#[derive(Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX));
        self.attempts += 1;
        jittered(pause.min(MAX_PAUSE), RandomState::new().build_hasher().finish())
    }
}

/// A random duration from half of `pause` to all of it.
fn jittered(pause: Duration, random: u64) -> Duration {
    let half = pause / 2;
    half + half.mul_f64(random as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_maximum() {
        let mut backoff = Backoff::default();
        for doubled in 0..12 {
            let (pause, full) = (backoff.pause(), FIRST_PAUSE.saturating_mul(1 << doubled).min(MAX_PAUSE));
            assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
        }
        assert_eq!(jittered(MAX_PAUSE, 0), MAX_PAUSE / 2);
        assert_eq!(jittered(MAX_PAUSE, u64::MAX), MAX_PAUSE);
    }
}
