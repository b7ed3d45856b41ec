// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares mpwatch's energy in the twelve scenarios, and the results of other tools' formulas, with the true energy.
//! `cargo test -p mpwatch energy::tests::scenarios -- --nocapture` prints the table.

use std::collections::BTreeMap;

use super::scenario::{BusyTime, Consumer, Scenario, TimeSlice};
use mpwatch_fixtures::formula::{FORMULAS, Formula, Measurement};
use mpwatch_lab::raplsim::Platform;
use mpwatch_model::host::energy::{EnergySource, IdleSource};

use super::{Rig, account, flow};
use mpwatch_engine::energy::ledger::Account;

/// Relative errors of the flows' energy in one scenario: of mpwatch (the worst flow), and of each other formula (all flows).
struct Row {
    name: String,
    ours: f64,
    theirs: Vec<f64>,
    /// Joules of all flows by mpwatch, and their CPU seconds.
    joules: f64,
    seconds: f64,
}

fn is_flow(who: Consumer) -> bool {
    matches!(who, Consumer::Flow(_))
}

fn run(scenario: &Scenario) -> (Rig, Row) {
    let mut rig = Rig::calibrated(Platform::Intel1, scenario.machine);
    scenario.slices.iter().for_each(|window| rig.work(window));
    let truth = scenario.truth();
    let flows: Vec<(u32, f64)> = truth
        .iter()
        .filter_map(|(who, energy)| match who {
            Consumer::Flow(number) => Some((*number, *energy as f64 / 1e12)),
            _ => None,
        })
        .collect();
    let all: f64 = flows.iter().map(|(_, energy)| energy).sum();
    let ours = |number: u32| rig.split.flow(flow(number)).unwrap().active.unwrap().joules();
    let joules: f64 = flows.iter().map(|(number, _)| ours(*number)).sum();
    let worst = flows.iter().map(|(number, truth)| (ours(*number) / truth - 1.0).abs()).fold(0.0, f64::max);
    let theirs = FORMULAS.iter().map(|(_, formula)| theirs(scenario, *formula) / all - 1.0).collect();
    let busy = scenario.slices.iter().flat_map(|window| &window.busy).filter(|busy| is_flow(busy.consumer));
    let seconds = busy.map(|busy| busy.time).sum::<u64>() as f64 / 1e9;
    (rig, Row { name: scenario.name.clone(), ours: worst, theirs, joules, seconds })
}

/// Energy of all flows by another tool's formula.
fn theirs(scenario: &Scenario, formula: Formula) -> f64 {
    let machine = scenario.machine;
    let mut sum = 0.0;
    for window in &scenario.slices {
        let mut times: BTreeMap<Consumer, u64> = BTreeMap::new();
        window.busy.iter().for_each(|busy| *times.entry(busy.consumer).or_default() += busy.time);
        let energy: u128 = scenario.energy(window).iter().sum();
        let mut seen = Measurement {
            energy: energy as f64 / 1e12,
            elapsed: window.elapsed as f64 / 1e9,
            cpus: f64::from(machine.cpus),
            own: 0.0,
            all: times.values().sum::<u64>() as f64 / 1e9,
            idle: f64::from(machine.power.idle()) / 1000.0,
        };
        for (_, time) in times.iter().filter(|(who, _)| is_flow(**who)) {
            seen.own = *time as f64 / 1e9;
            sum += formula(&seen);
        }
    }
    sum
}

#[test]
fn flow_energy_is_accurate_in_all_twelve_scenarios() {
    let rows: Vec<Row> = Scenario::all().iter().map(|scenario| run(scenario).1).collect();
    println!("| scenario | mpwatch, worst flow | {} |", FORMULAS.map(|(name, _)| name).join(" | "));
    println!("|---|---|{}", "---|".repeat(FORMULAS.len()));
    for row in &rows {
        let theirs: Vec<String> = row.theirs.iter().map(|error| format!("{:+.1} %", error * 100.0)).collect();
        println!("| {} | {:.3} % | {} |", row.name, row.ours * 100.0, theirs.join(" | "));
    }
    let mean = rows.iter().map(|row| row.ours).sum::<f64>() / rows.len() as f64;
    let worst = rows.iter().map(|row| row.ours).fold(0.0, f64::max);
    println!("mean {:.4} %, worst {:.4} %", mean * 100.0, worst * 100.0);
    assert!(mean <= 0.001 && worst <= 0.01, "mean {mean}, worst {worst}");
    for (tool, _) in FORMULAS.iter().enumerate() {
        let theirs = rows.iter().map(|row| row.theirs[tool].abs()).fold(0.0, f64::max);
        assert!(theirs > 0.1, "a formula without error: {}", FORMULAS[tool].0);
    }
}

#[test]
fn a_bystander_does_not_change_what_a_flow_costs() {
    let rows: Vec<Row> = Scenario::all().iter().map(|scenario| run(scenario).1).collect();
    let cost = |name: &str| {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        row.joules / row.seconds
    };
    for name in ["bystander-25", "bystander-50", "bystander-100", "same-core"] {
        let change = cost(name) / cost("solo") - 1.0;
        assert!(change.abs() < 0.001, "{name} changes the cost of a CPU second by {change}");
    }
}

#[test]
fn ten_thousand_short_flows_are_all_charged() {
    let churn = Scenario::all().into_iter().find(|scenario| scenario.name == "churn").unwrap();
    let (rig, _) = run(&churn);
    let charged: u64 =
        (0..10_000).map(|number| rig.split.flow(flow(number)).unwrap().active.unwrap().0).sum();
    let snapshot = rig.split.snapshot();
    assert_eq!(charged, snapshot.zones[0].flows_uj.0);
    assert!(snapshot.zones[0].unexplained_uj.0 <= 20_000);
}

#[test]
fn each_energy_figure_names_its_source() {
    let solo = &Scenario::all()[0];
    let (rig, _) = run(solo);
    let charge = rig.split.flow(flow(0)).unwrap();
    assert_eq!((charge.source, charge.idle), (EnergySource::RaplPowercap, IdleSource::Calibrated));
    let active = charge.active.unwrap();
    assert!(charge.lo.unwrap() <= active && active <= charge.hi.unwrap() && active <= charge.full.unwrap());
    let mut uncalibrated = Rig::new(Platform::Intel1, solo.machine);
    solo.slices.iter().for_each(|window| uncalibrated.work(window));
    let charge = uncalibrated.split.flow(flow(0)).unwrap();
    assert_eq!(charge.idle, IdleSource::Unknown);
    // Without idle power, the active energy is unknown, but its interval contains the truth, and the energy with idle energy is known.
    let truth = u64::try_from(solo.truth()[&Consumer::Flow(0)] / 1_000_000).unwrap();
    assert_eq!((charge.active, charge.lo.unwrap().0), (None, 0));
    assert!(charge.hi.unwrap().0 > truth && charge.full.unwrap().0 > truth);
}

#[test]
fn idle_power_is_observed_in_quiet_seconds() {
    let solo = &Scenario::all()[0];
    let mut rig = Rig::new(Platform::Intel1, solo.machine);
    let quiet = TimeSlice { elapsed: super::SECOND.0, busy: Vec::new() };
    (0..12).for_each(|_| rig.work(&quiet));
    solo.slices.iter().for_each(|window| rig.work(window));
    let charge = rig.split.flow(flow(0)).unwrap();
    let truth = solo.truth()[&Consumer::Flow(0)] as f64 / 1e6;
    assert_eq!(charge.idle, IdleSource::Observed);
    assert!((charge.active.unwrap().0 as f64 / truth - 1.0).abs() < 0.001, "{charge:?} {truth}");
}

#[test]
fn full_energy_adds_idle_energy_in_proportion_to_active_energy() {
    let solo = &Scenario::all()[0];
    let (rig, _) = run(solo);
    let zone = &rig.split.snapshot().zones[0];
    let others = [Account::Irq, Account::Own];
    assert!(
        others.iter().all(|other| account(Consumer::Irq) == *other || account(Consumer::Observer) == *other)
    );
    let charge = rig.split.flow(flow(0)).unwrap();
    let active = charge.active.unwrap().0;
    let idle_part = (charge.full.unwrap().0 - active) as f64 / zone.idle_uj.0 as f64;
    let active_part = active as f64 / (zone.zone_uj.0 - zone.idle_uj.0) as f64;
    assert!((idle_part - active_part).abs() < 0.001, "{idle_part} {active_part}");
}

/// A machine without calibration is never idle (issue 17). Then a transfer runs, alone or with a process that uses a whole CPU.
#[test]
fn idle_power_of_a_machine_that_is_never_idle_is_fitted() {
    for scenario in ["solo", "bystander-100"] {
        let scenario = Scenario::all().into_iter().find(|candidate| candidate.name == scenario).unwrap();
        let mut rig = Rig::new(Platform::Intel1, scenario.machine);
        for second in 0..120_u64 {
            let time = super::SECOND.0 / 10 + super::SECOND.0 / 50 * (second * 7 % 31);
            let busy = BusyTime { cpu: 0, consumer: Consumer::Bystander, time };
            rig.work(&TimeSlice { elapsed: super::SECOND.0, busy: vec![busy] });
        }
        scenario.slices.iter().for_each(|window| rig.work(window));
        let charge = rig.split.flow(flow(0)).unwrap();
        let truth = scenario.truth()[&Consumer::Flow(0)] as f64 / 1e6;
        assert_eq!(charge.idle, IdleSource::Fitted);
        assert!((charge.active.unwrap().0 as f64 / truth - 1.0).abs() < 0.01, "{charge:?} {truth}");
        assert!(charge.lo.unwrap().0 as f64 <= truth && truth <= charge.hi.unwrap().0 as f64);
    }
}

/// Energy that was charged to a flow before the idle power was known is corrected later.
#[test]
fn a_flow_that_began_before_the_fit_gets_its_energy_later() {
    let solo = &Scenario::all()[0];
    let mut rig = Rig::new(Platform::Intel1, solo.machine);
    let slices: Vec<&TimeSlice> = solo.slices.iter().take(5).collect();
    for window in &slices {
        rig.work(window);
    }
    let early = rig.split.flow(flow(0)).unwrap();
    assert_eq!((early.active, early.idle), (None, IdleSource::Unknown));
    for second in 0..120_u64 {
        let time = super::SECOND.0 / 10 + super::SECOND.0 / 50 * (second * 7 % 31);
        let busy = BusyTime { cpu: 0, consumer: Consumer::Bystander, time };
        rig.work(&TimeSlice { elapsed: super::SECOND.0, busy: vec![busy] });
    }
    let late = rig.split.flow(flow(0)).unwrap();
    let seconds: u64 = slices
        .iter()
        .flat_map(|slice| &slice.busy)
        .filter(|busy| is_flow(busy.consumer))
        .map(|busy| busy.time)
        .sum();
    let truth = rig.machine.active(seconds).unwrap() as f64 / 1e6;
    assert_eq!((late.idle, late.full.unwrap()), (IdleSource::Fitted, early.full.unwrap()));
    assert!((late.active.unwrap().0 as f64 / truth - 1.0).abs() < 0.02, "{late:?} {truth}");
    assert!(
        late.lo.unwrap().0 as f64 <= truth
            && truth <= late.hi.unwrap().0 as f64
            && late.hi.unwrap() < early.hi.unwrap()
    );
}
