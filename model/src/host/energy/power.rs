// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured power curve of the machine (`mpwatch calibrate`).

use serde::{Deserialize, Serialize};

/// A measured point of a power curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// Utilisation of the zone's CPUs, 0 to 1.
    pub busy: f64,
    /// Power, watts.
    pub watts: f64,
}

/// The measured power of one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredZone {
    /// Name of the zone, such as `package-0` or `package-0/dram`.
    pub name: String,
    /// Idle power, watts.
    pub idle_watts: f64,
    /// Standard deviation of the idle power over the measurements, watts.
    pub idle_sigma_watts: f64,
    /// Whether the idle power was fitted because other programs used the CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fitted: bool,
    /// Knots of the power curve, ascending by utilisation. With fewer than two knots, only the idle power is known.
    #[serde(default)]
    pub knots: Vec<CurvePoint>,
}

/// The machine whose energy is attributed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachinePower {
    /// Number of CPUs.
    pub cpus: u32,
    /// Zones of a calibration made on this machine in its present configuration. Empty: there is no such calibration.
    pub calibrated: Vec<MeasuredZone>,
}
