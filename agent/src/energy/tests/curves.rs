// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ten recorded machines: the true energy of a flow lies inside its interval, whatever the order of the loads.

use mpwatch_lab::raplsim::replay::{Busy, Scenario, Who, Window as Load};
use mpwatch_lab::raplsim::{Curve, Machine, Power, RECORDED, Shape};

use super::{Dice, Rig, SECOND, flow};
use mpwatch_engine::energy::attribute::{Charge, Split};
use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_model::energy::power::CurvePoint;
use mpwatch_model::energy::power::MeasuredZone;

const REPLAYS: u32 = 200;

/// The calibration of the machine: the recorded curve.
fn measured(curve: &Curve) -> Calibration {
    let knot = |(load, power): &(u32, u32)| CurvePoint {
        busy: f64::from(*load) / 1e3,
        watts: f64::from(*power) / 1e3,
    };
    let idle_watts = f64::from(curve.points[0].1) / 1e3;
    let knots = curve.points.iter().map(knot).collect();
    Calibration::of(&[MeasuredZone { name: "package-0".into(), idle_watts, idle_sigma_watts: 0.0, knots }])
}

fn machine(curve: Curve) -> Machine {
    Machine { packages: 1, cpus: curve.cpus, power: Power::Recorded(curve) }
}

/// Loads of one second that fit the CPUs: that of the flow, and up to three others.
fn loads(dice: &mut Dice, cpus: u32) -> Vec<u64> {
    let others = dice.below(4);
    let mut left = u64::from(cpus) * SECOND.0;
    (0..=others)
        .map(|_| {
            let load = dice.below(left);
            left -= load;
            load.max(1_000_000)
        })
        .collect()
}

/// The joules that the flow adds, for every order in which the loads are added, and their mean (the Shapley value).
fn truths(machine: &Machine, loads: &[u64]) -> Vec<f64> {
    let power = |busy: u64| machine.energy(busy, SECOND.0) as f64 / 1e12;
    let others = &loads[1..];
    let mut truths = Vec::new();
    let mut mean = 0.0;
    for set in 0..1_u32 << others.len() {
        let before: u64 =
            others.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, load)| load).sum();
        let added = power(before + loads[0]) - power(before);
        truths.push(added.max(0.0));
        // Fraction of all orders in which exactly these loads come before the flow.
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

fn rig(machine: Machine) -> Rig {
    Rig::new(Shape::Intel1, machine)
}

/// One second of these loads; the first is that of the flow.
fn replay(rig: &mut Rig, calibration: Calibration, loads: &[u64]) -> Charge {
    let cpus = rig.machine.cpus;
    rig.split = Split::new(cpus, calibration);
    let busy = loads.iter().zip(0..).flat_map(|(load, nth)| spread(nth, *load, cpus));
    rig.work(&Load { elapsed: SECOND.0, busy: busy.collect() });
    rig.split.flow(flow(0)).unwrap()
}

/// Distributes a load over all CPUs.
fn spread(nth: u32, load: u64, cpus: u32) -> impl Iterator<Item = Busy> {
    let part = move |cpu: u32| load / u64::from(cpus) + u64::from(u64::from(cpu) < load % u64::from(cpus));
    (0..cpus).map(move |cpu| Busy { cpu, who: Who::Flow(nth), time: part(cpu) })
}

#[test]
fn the_true_energy_lies_inside_the_interval_in_every_replay() {
    let mut dice = Dice(6);
    for curve in RECORDED {
        let machine = machine(curve);
        let mut rig = rig(machine);
        let mut widest = 0.0_f64;
        for nth in 0..REPLAYS {
            let loads = loads(&mut dice, curve.cpus);
            let charge = replay(&mut rig, measured(&curve), &loads);
            // The counter is rounded to whole counts at both ends of the window.
            let grain = 2.0 * 61.1e-6;
            let (lo, hi) = (charge.lo.joules() - grain, charge.hi.joules() + grain);
            for truth in truths(&machine, &loads) {
                assert!((lo..=hi).contains(&truth), "{} {nth}: {truth} not in {charge:?}", curve.name);
            }
            assert!(charge.lo <= charge.active && charge.active <= charge.hi);
            widest = widest.max(charge.hi.joules() / charge.lo.joules().max(1e-6));
        }
        println!("{}: widest interval {widest:.0} times", curve.name);
    }
}

#[test]
fn without_a_curve_the_interval_covers_all_energy_above_idle() {
    let mut dice = Dice(7);
    for curve in RECORDED {
        let machine = machine(curve);
        let mut rig = rig(machine);
        let idle = zone(&curve);
        for _ in 0..20 {
            let loads = loads(&mut dice, curve.cpus);
            let charge = replay(&mut rig, Calibration::of(std::slice::from_ref(&idle)), &loads);
            let all: u64 = loads.iter().sum();
            let active = (machine.energy(all, SECOND.0) - machine.energy(0, SECOND.0)) as f64 / 1e12;
            assert!(charge.lo.joules() <= active && charge.hi.joules() >= active * 0.99);
        }
    }
}

fn zone(curve: &Curve) -> MeasuredZone {
    let idle_watts = f64::from(curve.points[0].1) / 1e3;
    MeasuredZone { name: "package-0".into(), idle_watts, idle_sigma_watts: 0.0, knots: Vec::new() }
}

#[test]
fn a_flow_that_ran_alone_has_a_narrow_interval() {
    for curve in RECORDED {
        let charge = replay(&mut rig(machine(curve)), measured(&curve), &[SECOND.0]);
        // Only the edges of the window are uncertain: two updates of the counter, relative to a second of the machine's energy.
        let width = (charge.hi.joules() - charge.lo.joules()) / 2.0;
        let energy =
            Scenario { name: String::new(), machine: machine(curve), windows: Vec::new() }.energy(&Load {
                elapsed: SECOND.0,
                busy: vec![Busy { cpu: 0, who: Who::Flow(0), time: SECOND.0 }],
            })[0];
        assert!(width <= 0.0021 * energy as f64 / 1e12, "{}: {charge:?}", curve.name);
    }
}
