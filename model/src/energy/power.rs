// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured of the machine's power before tracing began (`mpwatch calibrate`).

use serde::{Deserialize, Serialize};

/// A measured point of a power curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// Busy part of the zone's CPUs, 0 to 1.
    pub busy: f64,
    /// Power, watts.
    pub watts: f64,
}

/// What was measured of a zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredZone {
    /// `package-0`, `package-0/dram`.
    pub name: String,
    /// Power at rest.
    pub idle_watts: f64,
    /// Its standard deviation over the measurements.
    pub idle_sigma_watts: f64,
    /// Power against load, by rising load. Fewer than two: no curve, only the power at rest.
    #[serde(default)]
    pub knots: Vec<CurvePoint>,
}

/// The machine whose energy is divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachinePower {
    /// CPUs.
    pub cpus: u32,
    /// What a calibration that fits this machine says of its zones. Empty: there is none.
    pub calibrated: Vec<MeasuredZone>,
}
