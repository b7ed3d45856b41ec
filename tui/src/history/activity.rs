// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recent activity in steps with hysteresis. Rows are sorted by these steps, so that small changes of a rate do not reorder them.

/// Width of a step, half a power of two, in units of [`level`].
const STEP: i16 = 16;

/// The logarithm of a rate in 32nds of a power of two, roughly: the upper bits of a float.
fn level(rate: f32) -> i16 {
    i16::try_from(rate.max(0.0).to_bits() >> 18).unwrap_or(i16::MAX)
}

/// The activity of a flow, or of several together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// Exponential moving average of the rate. `None` before the first rate.
    mean: Option<f32>,
    /// 0 for an idle flow.
    pub(crate) step: i16,
}

impl Activity {
    /// Adds the rate of one more tick, bit/s.
    pub(crate) fn add(&mut self, rate: f32) {
        let mean = self.mean.map_or(rate, |mean| mean + (rate - mean) * 0.25);
        self.mean = Some(mean);
        let level = level(mean);
        // Hysteresis: a flow near the edge of its step stays in it.
        if (level - self.step - STEP / 2).abs() > STEP {
            self.step = level / STEP * STEP;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_does_not_change_at_the_edge_of_a_step() {
        let mut activity = Activity::default();
        let mut step = |rate: u16| {
            activity.add(f32::from(rate) * 1e6);
            activity.step
        };
        assert_eq!(step(0), 0);
        let steps: std::collections::BTreeSet<i16> =
            (0..400).map(|number| step(if number % 2 == 0 { 30 } else { 36 })).skip(40).collect();
        assert_eq!(steps.len(), 1, "{steps:?}");
        let (before, after) = (*steps.first().unwrap(), (0..20).map(|_| step(90)).last().unwrap());
        assert!(after > before);
        assert_eq!((0..400).map(|_| step(0)).last(), Some(0));
    }
}
