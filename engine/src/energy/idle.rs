// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which idle power is subtracted: calibrated, else observed in quiet windows, else fitted, else unknown. Pure.
//!
//! Observed comes before fitted: on the ten recorded machines of the simulator it is off by 2 % at most, while the fit has to
//! extrapolate a concave curve (`tests::observed_beats_fitted_on_recorded_machines` in `agent/src/energy/tests/curves.rs`).

use mpwatch_model::energy::IdleSource;
use mpwatch_model::unit::Nanos;

use super::baseline::{Baseline, IdlePower};
use super::calibration::ZonePower;
use super::idle_fit::IdleFit;

/// Idle power of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle {
    calibrated: Option<IdlePower>,
    observed: Baseline,
    fitted: IdleFit,
}

impl Idle {
    pub(crate) fn new(calibrated: Option<&ZonePower>) -> Self {
        let calibrated = calibrated.map(|zone| IdlePower::spread(zone.idle_uw, zone.sigma_uw));
        Self { calibrated, ..Self::default() }
    }

    /// The best that is known now. Once known, it stays known.
    pub(crate) fn known(&self) -> Option<(IdlePower, IdleSource)> {
        let calibrated = || Some((self.calibrated?, IdleSource::Calibrated));
        let observed = || Some((self.observed.idle_power()?, IdleSource::Observed));
        let fitted = || Some((self.fitted.fitted()?.idle, IdleSource::Fitted));
        calibrated().or_else(observed).or_else(fitted)
    }

    /// Adds a window that ended at `at`: its length, the busy part of its CPU time and its mean power in microwatts.
    pub(crate) fn observe(&mut self, at: Nanos, length: Nanos, busy: f64, power: f64) {
        self.observed.observe(at, busy, power);
        // A calibrated or observed value is never replaced by a fit, so none is made.
        if self.calibrated.is_none() && self.observed.idle_power().is_none() {
            self.fitted.observe(at, length, busy, power);
        }
    }
}
