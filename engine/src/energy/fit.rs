// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computations of `mpwatch calibrate`: the loads to run, and the power curve of the readings.

use mpwatch_model::host::energy::power::{CurvePoint, MeasuredZone};
use mpwatch_model::statistics::{mean, variance};

use super::line::{Knot, Line};

/// Number of measurements of the idle machine.
const IDLE_STEPS: usize = 3;
/// In a calibration while other programs run, readings whose busy fractions differ by less than this are merged into a knot.
const SAME_LOAD: f64 = 0.02;
/// In such a calibration: minimum range of busy fractions, and maximum error of the idle power, as a fraction of the idle power.
const MIN_RANGE: f64 = 0.2;
const MAX_ERROR: f64 = 0.2;

/// The power of one zone under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Name of the zone.
    pub zone: String,
    /// Busy fraction of the zone's CPUs, 0 to 1.
    pub busy: f64,
    /// Power, watts.
    pub watts: f64,
}

/// CPUs to load in each step: none in the first three steps; then 1, 2, 4 and so on up to all CPUs of each package; then all packages.
pub fn plan(packages: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut steps = vec![Vec::new(); IDLE_STEPS];
    for cpus in packages {
        let mut count = 1;
        while count < cpus.len() {
            steps.push(cpus[..count].to_vec());
            count *= 2;
        }
        steps.push(cpus.clone());
    }
    if packages.len() > 1 {
        steps.push(packages.concat());
    }
    steps
}

/// The power curve of each zone, in order of the first readings. Zones without an idle reading are left out.
pub fn summarise(readings: &[Reading]) -> Vec<MeasuredZone> {
    names(readings).into_iter().filter_map(|name| zone(name, readings)).collect()
}

fn names(readings: &[Reading]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for reading in readings {
        if !names.contains(&reading.zone.as_str()) {
            names.push(&reading.zone);
        }
    }
    names
}

fn zone(name: &str, readings: &[Reading]) -> Option<MeasuredZone> {
    let own = ascending(name, readings);
    let idle: Vec<f64> =
        own.iter().filter(|reading| reading.busy < 1e-6).map(|reading| reading.watts).collect();
    Some(MeasuredZone {
        name: name.to_owned(),
        idle_watts: mean(&idle)?,
        idle_sigma_watts: variance(&idle)?.sqrt(),
        is_fitted: false,
        knots: own.chunk_by(|a, b| b.busy - a.busy < 1e-6).filter_map(mean_point).collect(),
    })
}

/// The readings of a zone, ascending by load.
fn ascending<'a>(name: &str, readings: &'a [Reading]) -> Vec<&'a Reading> {
    let mut own: Vec<&Reading> = readings.iter().filter(|reading| reading.zone == name).collect();
    own.sort_by(|a, b| a.busy.total_cmp(&b.busy));
    own
}

/// The mean of readings under about the same load. `None`: no readings.
fn mean_point(same: &[&Reading]) -> Option<CurvePoint> {
    let mean_of =
        |value: fn(&Reading) -> f64| mean(&same.iter().map(|reading| value(reading)).collect::<Vec<_>>());
    Some(CurvePoint {
        busy: mean_of(|reading| reading.busy)?.clamp(0.0, 1.0),
        watts: mean_of(|reading| reading.watts)?,
    })
}

/// The power curve of each zone from readings while other programs run; `busy` includes their load. The idle power is the intercept of a
/// line. Zones whose load varied too little, or whose power does not follow the load, are left out.
pub fn summarise_under_load(readings: &[Reading]) -> Vec<MeasuredZone> {
    names(readings).into_iter().filter_map(|name| zone_under_load(name, readings)).collect()
}

fn zone_under_load(name: &str, readings: &[Reading]) -> Option<MeasuredZone> {
    let own = ascending(name, readings);
    let range = own.last()?.busy - own.first()?.busy;
    let unmerged: Vec<Knot> =
        own.iter().map(|reading| Knot { x: reading.busy, y: reading.watts, weight: 1.0 }).collect();
    let line =
        Line::fit(&unmerged).filter(|line| range >= MIN_RANGE && line.intercept > 0.0 && line.slope > 0.0)?;
    let error = line.at_zero().1 - line.intercept;
    let mut knots = vec![CurvePoint { busy: 0.0, watts: line.intercept }];
    knots.extend(own.chunk_by(|a, b| b.busy - a.busy < SAME_LOAD).filter_map(mean_point));
    let is_useful = error <= MAX_ERROR * line.intercept;
    // `error` is half of a 95 % interval: about two standard deviations.
    is_useful.then(|| MeasuredZone {
        name: name.to_owned(),
        idle_watts: line.intercept,
        idle_sigma_watts: error / 2.0,
        is_fitted: true,
        knots,
    })
}

/// The largest relative change of a zone's power between two measurements under the same load, for `--verify`.
pub fn drift(before: &[MeasuredZone], now: &[Reading]) -> Option<f64> {
    let change = |reading: &Reading| {
        let zone = before.iter().find(|zone| zone.name == reading.zone)?;
        let knot = zone.knots.iter().find(|knot| (knot.busy - reading.busy).abs() < 1e-6)?;
        (knot.watts > 0.0).then(|| (reading.watts / knot.watts - 1.0).abs())
    };
    now.iter().filter_map(change).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(zone: &str, busy: f64, watts: f64) -> Reading {
        Reading { zone: zone.to_owned(), busy, watts }
    }

    #[test]
    fn packages_are_loaded_one_at_a_time_and_then_together() {
        let steps = plan(&[vec![0, 1, 2, 3], vec![4, 5, 6]]);
        let loads: Vec<usize> = steps.iter().map(Vec::len).collect();
        assert_eq!(loads, [0, 0, 0, 1, 2, 4, 1, 2, 3, 7]);
        assert_eq!(steps[7], [4, 5]);
        assert_eq!(plan(&[vec![0]]), [vec![], vec![], vec![], vec![0]]);
    }

    #[test]
    fn readings_give_an_idle_power_and_knots_by_load() {
        let zones = summarise(&[
            reading("package-0", 0.0, 20.0),
            reading("package-0", 0.0, 22.0),
            reading("package-0", 1.0, 50.0),
            reading("package-0", 0.5, 40.0),
            reading("package-1", 1.0, 50.0),
        ]);
        assert_eq!(zones.len(), 1, "package-1 has no idle reading");
        assert!((zones[0].idle_watts - 21.0).abs() < 1e-9 && (zones[0].idle_sigma_watts - 1.0).abs() < 1e-9);
        let loads: Vec<f64> = zones[0].knots.iter().map(|knot| knot.busy * 10.0).collect();
        assert!(loads.iter().zip([0.0, 5.0, 10.0]).all(|(load, right)| (load - right).abs() < 1e-9));
        assert!(crate::energy::curve::Curve::new(zones[0].knots.clone()).is_some());
    }

    #[test]
    fn under_other_load_the_idle_power_is_fitted() {
        let other = [0.21, 0.18, 0.24, 0.2, 0.19, 0.22];
        let own = [0.0, 0.0, 0.0, 0.25, 0.5, 0.75];
        let loads = own.iter().zip(other).map(|(own, other)| own + (1.0 - own) * other);
        let readings: Vec<Reading> =
            loads.map(|busy| reading("package-0", busy, 20.0 + 30.0 * busy)).collect();
        let zones = summarise_under_load(&readings);
        assert!((zones[0].idle_watts - 20.0).abs() < 1e-3 && zones[0].is_fitted, "{zones:?}");
        assert!(crate::energy::curve::Curve::new(zones[0].knots.clone()).is_some(), "{zones:?}");
        // No fit for loads that hardly vary, or for power that does not follow the load.
        assert!(summarise_under_load(&readings[..3]).is_empty());
        let wild: Vec<Reading> = own
            .iter()
            .zip([50.0, 20.0, 40.0, 30.0, 25.0, 60.0])
            .map(|(busy, watts)| reading("a", *busy, watts))
            .collect();
        assert!(summarise_under_load(&wild).is_empty());
    }

    /// The other load uses half of the machine, so all loads are between 50 and 100 %.
    #[test]
    fn under_load_of_half_of_all_cpus_the_idle_power_is_fitted_too() {
        let other = [0.50, 0.48, 0.53, 0.51, 0.49];
        let noise = [0.2, -0.3, 0.1, 0.3, -0.2];
        let own = [0.0, 0.0, 0.0, 0.5, 1.0];
        let readings: Vec<Reading> = own
            .iter()
            .zip(other)
            .map(|(own, other)| own + (1.0 - own) * other)
            .zip(noise)
            .map(|(busy, noise)| reading("package-0", busy, 20.0 + 30.0 * busy + noise))
            .collect();
        let zones = summarise_under_load(&readings);
        let [zone] = &zones[..] else { panic!("no fit") };
        assert!((zone.idle_watts - 20.0).abs() < 1.0 && zone.is_fitted, "{zone:?}");
        assert!((zone.idle_watts - 20.0).abs() < 2.0 * zone.idle_sigma_watts, "{zone:?}");
    }

    #[test]
    fn drift_is_the_largest_change_under_the_same_load() {
        let before = summarise(&[reading("package-0", 0.0, 20.0), reading("package-0", 1.0, 50.0)]);
        let now =
            [reading("package-0", 0.0, 20.2), reading("package-0", 1.0, 55.0), reading("other", 1.0, 9.0)];
        assert!((drift(&before, &now).unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(drift(&before, &[]), None);
    }
}
