// SPDX-License-Identifier: MIT OR Apache-2.0
//! How active something has been of late, in steps that a flow leaves only when it is well beyond their edge: what rows are ordered by, so
//! that they do not dance.

/// Steps of activity are half a power of two wide: so many of the finest parts of [`level`].
const STEP: i16 = 16;

/// The logarithm of a rate in 32nds of a power of two, roughly: the upper bits of a float are one.
fn level(rate: f32) -> i16 {
    i16::try_from(rate.max(0.0).to_bits() >> 18).unwrap_or(i16::MAX)
}

/// The activity of a flow, or of several together. By default of one of which nothing is known yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// Mean rate, of which what is older counts less. `None`: nothing was told yet.
    mean: Option<f32>,
    step: i16,
}

impl Activity {
    /// Takes in the rate of one more turn, bit/s.
    pub(crate) fn take(&mut self, rate: f32) {
        let mean = self.mean.map_or(rate, |mean| mean + (rate - mean) * 0.25);
        self.mean = Some(mean);
        let level = level(mean);
        // What is about as active as before stays in its step: else flows at the edge of one would change places all the time.
        if (level - self.step - STEP / 2).abs() > STEP {
            self.step = level / STEP * STEP;
        }
    }

    /// The step; 0 at rest.
    pub(crate) fn step(self) -> i16 {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_changes_in_steps_and_not_at_their_edges() {
        let mut activity = Activity::default();
        let mut told = |rate: u16| {
            activity.take(f32::from(rate) * 1e6);
            activity.step()
        };
        assert_eq!(told(0), 0);
        let steps: std::collections::BTreeSet<i16> =
            (0..400).map(|number| told(if number % 2 == 0 { 30 } else { 36 })).skip(40).collect();
        assert_eq!(steps.len(), 1, "{steps:?}");
        let (before, after) = (*steps.first().unwrap(), (0..20).map(|_| told(90)).last().unwrap());
        assert!(after > before);
        assert_eq!((0..400).map(|_| told(0)).last(), Some(0));
    }
}
