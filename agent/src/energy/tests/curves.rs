// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ten recorded curves: in whichever order the loads begin, the energy that a flow added lies inside its interval.

use super::recorded_curves::RECORDED_CURVES;
use super::scenario::{BusyTime, Consumer, Scenario, TimeSlice as Load};
use mpwatch_lab::random::Random;
use mpwatch_lab::raplsim::{Platform, PowerModel, RecordedCurve, SimulatedMachine};

use super::{Rig, SECOND, flow};
use mpwatch_engine::energy::attribute::Split;
use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_model::host::energy::power::CurvePoint;
use mpwatch_model::host::energy::power::MeasuredZone;
use mpwatch_model::host::energy::{FlowEnergy, IdleSource};

const REPLAYS: u32 = 200;

/// The calibration that would have been measured: the recorded curve.
fn measured(curve: &RecordedCurve) -> Calibration {
    let knot = |(load, power): &(u32, u32)| CurvePoint {
        busy: f64::from(*load) / 1e3,
        watts: f64::from(*power) / 1e3,
    };
    let idle_watts = f64::from(curve.samples[0].1) / 1e3;
    let knots = curve.samples.iter().map(knot).collect();
    Calibration::from_zones(&[MeasuredZone {
        name: "package-0".into(),
        idle_watts,
        idle_sigma_watts: 0.0,
        is_fitted: false,
        knots,
    }])
}

fn machine(curve: RecordedCurve) -> SimulatedMachine {
    SimulatedMachine { packages: 1, cpus: curve.cpus, power: PowerModel::Recorded(curve) }
}

/// Random CPU times in one second, nanoseconds: the flow's first, then up to three others. Together they fit into the CPUs.
fn loads(random: &mut Random, cpus: u32) -> Vec<u64> {
    let others = random.below(4);
    let mut left = u64::from(cpus) * SECOND.0;
    (0..=others)
        .map(|_| {
            let load = random.below(left);
            left -= load;
            load.max(1_000_000)
        })
        .collect()
}

/// Joules that the flow adds, for each set of loads that may run before it. The last value is the mean over all orders (Shapley value).
fn truths(machine: &SimulatedMachine, loads: &[u64]) -> Vec<f64> {
    let power = |busy: u64| machine.energy(busy, SECOND.0) as f64 / 1e12;
    let others = &loads[1..];
    let mut truths = Vec::new();
    let mut mean = 0.0;
    for set in 0..1_u32 << others.len() {
        let before: u64 =
            others.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, load)| load).sum();
        let added = power(before + loads[0]) - power(before);
        truths.push(added.max(0.0));
        // The number of orders in which exactly these loads come before the flow.
        let (first, all) = (u64::from(set.count_ones()), others.len() as u64);
        let orders = factorial(first) * factorial(all - first);
        mean += added * orders as f64 / factorial(all + 1) as f64;
    }
    truths.push(mean.max(0.0));
    truths
}

fn factorial(n: u64) -> u64 {
    (1..=n).product()
}

fn rig(machine: SimulatedMachine) -> Rig {
    Rig::new(Platform::Intel1, machine)
}

/// Runs these loads for one second and returns the energy of the flow, which has the first load.
fn replay(rig: &mut Rig, calibration: Calibration, loads: &[u64]) -> FlowEnergy {
    let cpus = rig.machine.cpus;
    rig.split = Split::new(cpus, calibration);
    let busy = loads.iter().zip(0..).flat_map(|(load, nth)| spread(nth, *load, cpus));
    rig.work(&Load { elapsed: SECOND.0, busy: busy.collect() });
    rig.split.flow(flow(0)).unwrap()
}

/// Spreads a load over all CPUs, because the choice of the CPU does not matter here.
fn spread(nth: u32, load: u64, cpus: u32) -> impl Iterator<Item = BusyTime> {
    let part = move |cpu: u32| load / u64::from(cpus) + u64::from(u64::from(cpu) < load % u64::from(cpus));
    (0..cpus).map(move |cpu| BusyTime { cpu, consumer: Consumer::Flow(nth), time: part(cpu) })
}

#[test]
fn the_true_part_lies_inside_the_interval_in_every_replay() {
    let mut random = Random::new(6);
    for curve in RECORDED_CURVES {
        let machine = machine(curve);
        let mut rig = rig(machine);
        let mut widest = 0.0_f64;
        for nth in 0..REPLAYS {
            let loads = loads(&mut random, curve.cpus);
            let charge = replay(&mut rig, measured(&curve), &loads);
            // The counter is rounded to whole counts at both ends of the window.
            let grain = 2.0 * 61.1e-6;
            let (lo, hi) = (charge.lo.unwrap().joules() - grain, charge.hi.unwrap().joules() + grain);
            for truth in truths(&machine, &loads) {
                assert!((lo..=hi).contains(&truth), "{} {nth}: {truth} not in {charge:?}", curve.name);
            }
            let active = charge.active.unwrap();
            assert!(charge.lo.unwrap() <= active && active <= charge.hi.unwrap());
            widest = widest.max(charge.hi.unwrap().joules() / charge.lo.unwrap().joules().max(1e-6));
        }
        println!("{}: widest interval {widest:.0} times", curve.name);
    }
}

#[test]
fn without_a_curve_the_interval_holds_everything_above_idle() {
    let mut random = Random::new(7);
    for curve in RECORDED_CURVES {
        let machine = machine(curve);
        let mut rig = rig(machine);
        let idle = zone(&curve);
        for _ in 0..20 {
            let loads = loads(&mut random, curve.cpus);
            let charge = replay(&mut rig, Calibration::from_zones(std::slice::from_ref(&idle)), &loads);
            let all: u64 = loads.iter().sum();
            let active = (machine.energy(all, SECOND.0) - machine.energy(0, SECOND.0)) as f64 / 1e12;
            assert!(charge.lo.unwrap().joules() <= active && charge.hi.unwrap().joules() >= active * 0.99);
        }
    }
}

fn zone(curve: &RecordedCurve) -> MeasuredZone {
    let idle_watts = f64::from(curve.samples[0].1) / 1e3;
    MeasuredZone {
        name: "package-0".into(),
        idle_watts,
        idle_sigma_watts: 0.0,
        is_fitted: false,
        knots: Vec::new(),
    }
}

#[test]
fn a_flow_that_ran_alone_has_a_narrow_interval() {
    for curve in RECORDED_CURVES {
        let charge = replay(&mut rig(machine(curve)), measured(&curve), &[SECOND.0]);
        // The remaining error comes from the edges of the window: two updates of the counter, 1 ms each, in a second.
        let width = (charge.hi.unwrap().joules() - charge.lo.unwrap().joules()) / 2.0;
        let energy =
            Scenario { name: String::new(), machine: machine(curve), slices: Vec::new() }.energy(&Load {
                elapsed: SECOND.0,
                busy: vec![BusyTime { cpu: 0, consumer: Consumer::Flow(0), time: SECOND.0 }],
            })[0];
        assert!(width <= 0.0021 * energy as f64 / 1e12, "{}: {charge:?}", curve.name);
    }
}

/// CPU time in one second, nanoseconds, of a load in thousandths of the machine.
fn thousandths(load: u64, curve: &RecordedCurve) -> u64 {
    load * u64::from(curve.cpus) * SECOND.0 / 1_000
}

/// A machine without calibration after ten minutes of loads between `low` and `high`, and the source of its idle power.
fn uncalibrated(curve: &RecordedCurve, low: u64, high: u64) -> (Rig, IdleSource) {
    after_ten_minutes(machine(*curve), low, high)
}

fn after_ten_minutes(machine: SimulatedMachine, low: u64, high: u64) -> (Rig, IdleSource) {
    let mut random = Random::new(9);
    let mut rig = rig(machine);
    for _ in 0..600 {
        let load = low + random.below(high - low);
        work(&mut rig, &[1, load * u64::from(machine.cpus) * SECOND.0 / 1_000]);
    }
    let source = rig.split.snapshot().idle;
    (rig, source)
}

/// Runs these loads for one second. The flow has the first load.
fn work(rig: &mut Rig, loads: &[u64]) {
    let cpus = rig.machine.cpus;
    let busy = loads.iter().zip(0..).flat_map(|(load, nth)| spread(nth, *load, cpus));
    rig.work(&Load { elapsed: SECOND.0, busy: busy.collect() });
}

/// Idle power that is subtracted, watts.
fn idle_power(rig: &mut Rig) -> f64 {
    let idle = |rig: &Rig| rig.split.snapshot().zones[0].idle_uj.0;
    let before = idle(rig);
    work(rig, &[SECOND.0]);
    (idle(rig) - before) as f64 / 1e6
}

/// Lowest and highest load, thousandths.
const RANGES: [(u64, u64); 3] = [(50, 300), (100, 500), (50, 900)];

/// Confirms the order of preference in `engine/src/energy/idle.rs`: quiet windows, if there are any, give a more accurate idle power than a fit.
#[test]
fn observed_idle_power_is_closer_than_a_fitted_one() {
    for curve in RECORDED_CURVES {
        let truth = f64::from(curve.samples[0].1) / 1e3;
        let (mut rig, source) = uncalibrated(&curve, 0, 300);
        assert_eq!(source, IdleSource::Observed);
        let observed = idle_power(&mut rig) / truth - 1.0;
        let fitted = RANGES.map(|(low, high)| {
            let (mut rig, source) = uncalibrated(&curve, low, high);
            (source == IdleSource::Fitted).then(|| idle_power(&mut rig) / truth - 1.0)
        });
        println!("{}: {truth} W, observed {observed:+.3}, fitted {fitted:+.3?}", curve.name);
        for fitted in fitted.into_iter().flatten() {
            assert!(observed.abs() <= fitted.abs() + 0.03, "{}: {observed} {fitted}", curve.name);
        }
    }
}

/// Below the lowest load of a fit, power rises steeply, which the fit cannot reproduce. The bounds allow for that.
#[test]
fn the_true_part_lies_inside_the_interval_of_a_fitted_idle_power() {
    for curve in RECORDED_CURVES {
        let machine = machine(curve);
        for (low, high) in RANGES {
            let (mut rig, source) = uncalibrated(&curve, low, high);
            if source != IdleSource::Fitted {
                assert_eq!(rig.split.flow(flow(0)).unwrap().active, None);
                continue;
            }
            for part in [20, 50, 200] {
                let loads = [part, low].map(|load| thousandths(load, &curve));
                let before = rig.split.flow(flow(0)).unwrap();
                work(&mut rig, &loads);
                let after = rig.split.flow(flow(0)).unwrap();
                let grain = 1e-3;
                let (lo, hi) = (
                    after.lo.unwrap().joules() - before.lo.unwrap().joules() - grain,
                    after.hi.unwrap().joules() - before.hi.unwrap().joules() + grain,
                );
                for truth in truths(&machine, &loads) {
                    assert!((lo..=hi).contains(&truth), "{} {part}: {truth} not in {lo}..{hi}", curve.name);
                }
            }
        }
    }
}

/// If power is linear in the load, the confidence interval of the slope bounds the energy that a flow adds as the last load.
#[test]
fn the_slope_of_a_fit_bounds_what_a_flow_adds() {
    let machine = SimulatedMachine {
        packages: 1,
        cpus: 8,
        power: PowerModel::Linear { idle: 20_000, dynamic: 30_000 },
    };
    let (mut rig, source) = after_ten_minutes(machine, 100, 600);
    assert_eq!(source, IdleSource::Fitted);
    let added = |rig: &mut Rig, loads: [u64; 2]| {
        let before = rig.split.flow(flow(0)).unwrap();
        work(rig, &loads.map(|load| load * 8 * SECOND.0 / 1_000));
        let after = rig.split.flow(flow(0)).unwrap();
        [
            after.lo.unwrap().joules() - before.lo.unwrap().joules(),
            after.hi.unwrap().joules() - before.hi.unwrap().joules(),
        ]
    };
    // The flow uses a tenth of the machine (3 J), another load three tenths (9 J). Without the slope, bounds are 0 and 12 J + idle error.
    let [lo, hi] = added(&mut rig, [100, 300]);
    println!("{lo:.3} .. {hi:.3} J of 3 J");
    assert!((2.7..=3.0).contains(&lo) && (3.0..=18.0).contains(&hi), "{lo} {hi}");
    // Above the loads of the fit, the slope is unknown.
    let [lo, _] = added(&mut rig, [100, 800]);
    assert!(lo < 0.01, "{lo}");
}
