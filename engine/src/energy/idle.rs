// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the idle power that is subtracted: calibrated, else observed in quiet windows, else fitted, else unknown.
//!
//! Observed comes before fitted: on nine of ten recorded machines the error of the observed value is at most 3.3 %, the error of a fit over
//! loads of 5 to 90 % is -18 to +147 %, because power rises steeply below the lowest load of the fit (`agent/src/energy/tests/curves.rs`).

use mpwatch_model::host::energy::IdleSource;
use mpwatch_model::unit::Nanos;

use super::baseline::{Baseline, IdlePower};
use super::calibration::ZonePower;
use super::idle_fit::{FittedPower, IdleFit};

/// Bounds of the idle power relative to the fitted value, even if the confidence interval is narrower: below its lowest load, a fit has no
/// readings. Measured on the recorded machines.
const LEAST: f64 = 1.0 / 3.0;
const MOST: f64 = 1.25;

/// Idle power of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle {
    /// The source is `Fitted` if other programs ran during the calibration. `None`: not calibrated.
    calibrated: Option<(IdlePower, IdleSource)>,
    observed: Baseline,
    fitted: IdleFit,
}

impl Idle {
    pub(crate) fn new(calibrated: Option<&ZonePower>) -> Self {
        let calibrated = calibrated.map(|zone| {
            let idle = IdlePower::spread(zone.idle_uw, zone.sigma_uw);
            if zone.is_fitted { (widened(idle), IdleSource::Fitted) } else { (idle, IdleSource::Calibrated) }
        });
        Self { calibrated, ..Self::default() }
    }

    /// The most reliable idle power so far. Once known, it never becomes unknown.
    pub(crate) fn known(&self) -> Option<(IdlePower, IdleSource)> {
        let calibrated = self.calibrated.filter(|(_, source)| *source == IdleSource::Calibrated);
        let observed = || Some((self.observed.idle_power()?, IdleSource::Observed));
        let fitted = || Some((widened(self.fitted.fitted()?.idle), IdleSource::Fitted));
        calibrated.or_else(observed).or(self.calibrated).or_else(fitted)
    }

    /// The fitted line of power against load. `None`: its intercept is not used as the idle power.
    pub(crate) fn line(&self) -> Option<&FittedPower> {
        let is_used = self.calibrated.is_none() && self.observed.idle_power().is_none();
        self.fitted.fitted().filter(|_| is_used)
    }

    /// Adds a window of this length that ended at `at`. `busy`: the busy fraction of its CPU time; `power`: its mean power in microwatts.
    pub(crate) fn observe(&mut self, at: Nanos, length: Nanos, busy: f64, power: f64) {
        self.observed.observe(at, busy, power);
        // A fit never replaces a calibrated or observed value, so no fit is made.
        if self.calibrated.is_none() && self.observed.idle_power().is_none() {
            self.fitted.observe(at, length, busy, power);
        }
    }
}

/// The interval of a fit, widened because the power below its lowest load is unknown.
fn widened(fitted: IdlePower) -> IdlePower {
    let power = fitted.power as f64;
    IdlePower::new(power, (fitted.lo as f64).min(power * LEAST), (fitted.hi as f64).max(power * MOST))
}
