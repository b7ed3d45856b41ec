// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calibrated power of zones, in the units that the attribution uses.

use mpwatch_model::host::energy::power::MeasuredZone;

use super::curve::Curve;

/// The calibrated zones of this machine. Empty: the machine is not calibrated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration(Vec<(String, ZonePower)>);

/// The power of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZonePower {
    /// Idle power, microwatts.
    pub idle_uw: u64,
    /// Standard deviation of the idle power, microwatts.
    pub sigma_uw: u64,
    /// Whether the idle power was fitted, because other programs used the CPUs during the calibration.
    pub(crate) is_fitted: bool,
    /// Power against load. `None`: not measured.
    pub(crate) curve: Option<Curve>,
}

impl Calibration {
    /// Uses the measured zones with a valid idle power.
    pub fn from_zones(zones: &[MeasuredZone]) -> Self {
        let known = zones.iter().filter(|zone| zone.idle_watts.is_finite() && zone.idle_watts >= 0.0);
        Self(known.map(|zone| (zone.name.clone(), ZonePower::from_zone(zone))).collect())
    }

    /// The power of a zone.
    pub fn zone(&self, label: &str) -> Option<&ZonePower> {
        self.0.iter().find(|(name, _)| name == label).map(|(_, power)| power)
    }
}

impl ZonePower {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "watts of a machine, never negative"
    )]
    fn from_zone(zone: &MeasuredZone) -> Self {
        let microwatts = |watts: f64| (watts * 1e6).round().max(0.0) as u64;
        Self {
            idle_uw: microwatts(zone.idle_watts),
            sigma_uw: microwatts(zone.idle_sigma_watts),
            is_fitted: zone.is_fitted,
            // A curve that was measured while other programs ran has no readings at low load, so it gives no bounds.
            curve: if zone.is_fitted { None } else { Curve::new(zone.knots.clone()) },
        }
    }
}
