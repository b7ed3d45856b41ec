// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recent rate of a flow, rounded to steps with hysteresis. Sorted by these steps, rows keep their order if rates change little.

/// Width of a step in units of [`level`]: a factor of about the square root of two.
const STEP: i16 = 16;

/// About 32 times the binary logarithm of a rate plus a constant: the upper bits of the float.
fn level(rate: f32) -> i16 {
    i16::try_from(rate.max(0.0).to_bits() >> 18).unwrap_or(i16::MAX)
}

/// The activity of a flow, or of several flows together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// Exponential moving average of the rate, bit/s. `None`: no rate was added.
    mean: Option<f32>,
    /// The rate rounded to steps, in units of [`level`]; 0 for an idle flow.
    pub(crate) step: i16,
}

impl Activity {
    /// Adds the rate of the next tick, in bit/s.
    pub(crate) fn add(&mut self, rate: f32) {
        let mean = self.mean.map_or(rate, |mean| mean + (rate - mean) * 0.25);
        self.mean = Some(mean);
        let level = level(mean);
        // Hysteresis: the step changes only if the level is more than half a step outside it.
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
