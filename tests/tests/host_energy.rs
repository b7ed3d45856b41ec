// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of real traffic, with simulated energy counters: the charges of mpwatch, compared with the true values and with the formulas
//! of other tools on the same runs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::time::Duration;

use mpwatch_bench::energy::processes;
use mpwatch_bench::energy::run::run;
use mpwatch_bench::energy::scenario::{Scenario, Size, basic};
use mpwatch_fixtures::formula::{FORMULAS, Measurement};
use mpwatch_tests::{may_run_as_root, skip};

#[path = "energy/conservation.rs"]
mod conservation;
#[path = "energy/exclusive.rs"]
mod exclusive;
#[path = "energy/fitted.rs"]
mod fitted;
#[path = "energy/late.rs"]
mod late;
#[path = "energy/replayed.rs"]
mod replayed;

use exclusive::exclusive;

/// Not a test, but the entry point of the processes that generate traffic or other load.
#[test]
fn child_process() {
    processes::run_as_child();
}

/// The result of a scenario.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Relative error of mpwatch's energy.
    energy_error: f64,
    /// Relative error of mpwatch's CPU time.
    cpu_time_error: f64,
    /// Relative errors of the formulas of other tools.
    formula_errors: Vec<f64>,
    /// True CPU time, seconds.
    cpu_seconds: f64,
    /// Busy share of the machine.
    busy: f64,
    /// Share of kernel workers in the CPU time.
    workers: f64,
    /// CPU time of flows outside the lab, relative to the true CPU time of the lab.
    foreign: f64,
}

fn measure(scenario: &Scenario, ledger: &str) -> Row {
    let run = run(scenario, &[ledger]).unwrap();
    let charged = &run.charged[0];
    let formula = |formula: fn(&Measurement) -> f64| formula(&run.measured) * 1e6 / run.energy - 1.0;
    Row {
        name: scenario.name,
        energy_error: charged.energy as f64 / run.energy - 1.0,
        cpu_time_error: charged.cpu_time as f64 / run.cpu_time as f64 - 1.0,
        formula_errors: FORMULAS.iter().map(|(_, of_tool)| formula(*of_tool)).collect(),
        cpu_seconds: run.measured.own,
        busy: run.measured.all / run.measured.cpus / run.measured.elapsed,
        workers: charged.workers as f64 / charged.cpu_time as f64,
        foreign: charged.foreign as f64 / run.cpu_time as f64,
    }
}

fn print(rows: &[Row]) {
    println!(
        "| scenario | busy | CPU s | workers | CPU time | mpwatch | {} |",
        FORMULAS.map(|(name, _)| name).join(" | ")
    );
    println!("|---|---|---|---|---|---|{}", "---|".repeat(FORMULAS.len()));
    for row in rows {
        let formula_errors: Vec<String> =
            row.formula_errors.iter().map(|error| format!("{:+.1} %", error * 100.0)).collect();
        println!(
            "| {} | {:.0} % | {:.2} | {:.1} % | {:+.2} % | {:+.2} % | {} |",
            row.name,
            row.busy * 100.0,
            row.cpu_seconds,
            row.workers * 100.0,
            row.cpu_time_error * 100.0,
            row.energy_error * 100.0,
            formula_errors.join(" | ")
        );
    }
    let [mean, worst] = mean_and_worst(rows);
    println!("mean {:.2} %, worst {:.2} %", mean * 100.0, worst * 100.0);
    for (name, effect) in bystander_effects(rows) {
        println!("effect of {name}: {:+.2} %", effect * 100.0);
    }
}

impl Row {
    fn is_close(&self) -> bool {
        self.energy_error.abs() <= MAX_ERROR + SHORT_LIVED / self.cpu_seconds
    }

    /// Whether other MPTCP traffic on the machine makes the result invalid.
    fn is_disturbed(&self) -> bool {
        self.foreign > 0.02
    }
}

/// Repeats a disturbed scenario. Processes that run for some milliseconds, such as a compiler's, use no energy in the simulation, but
/// mpwatch charges a share to them.
fn run_undisturbed(scenario: &Scenario, ledger: &str) -> Row {
    let mut row = measure(scenario, ledger);
    for _ in 0..2 {
        if row.is_close() && !row.is_disturbed() {
            break;
        }
        println!("repeating: {row:?}");
        row = measure(scenario, ledger);
    }
    row
}

/// Bounds of the relative error of the energy. They are far above the errors on an idle machine (docs/energy.md), because other
/// programs may run: their MPTCP traffic is charged like ours, and their short-lived processes reduce our share.
const MAX_ERROR: f64 = 0.15;
/// Additional tolerance in CPU seconds, for our energy that mpwatch charges to processes that ran for milliseconds: on a fast machine, a
/// tenth of the smallest scenario.
const SHORT_LIVED: f64 = 0.03;
const MAX_MEAN_ERROR: f64 = 0.08;
/// Maximum effect of a bystander and of other programs.
const MAX_BYSTANDER_EFFECT: f64 = 0.1;

#[test]
fn the_energy_of_flows_is_close_to_the_true_energy() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_millis(1_500), short_flows: 1_000, requests: 15_000 };
    let rows: Vec<Row> = basic(&size).iter().map(|scenario| run_undisturbed(scenario, "exact")).collect();
    print(&rows);
    if rows.iter().any(Row::is_disturbed) {
        skip("other programs use MPTCP on this machine");
        return;
    }
    let [mean, worst] = mean_and_worst(&rows);
    assert!(mean <= MAX_MEAN_ERROR && rows.iter().all(Row::is_close), "mean {mean}, worst {worst}");
    for (name, effect) in bystander_effects(&rows) {
        assert!(effect.abs() <= MAX_BYSTANDER_EFFECT, "{name}: {effect}");
    }
    for (tool, (name, _)) in FORMULAS.iter().enumerate() {
        let worst = rows.iter().map(|row| row.formula_errors[tool].abs()).fold(0.0, f64::max);
        assert!(worst > 0.2, "the formula of {name} has no large error");
    }
}

/// Bounds of the errors with `--ledger sampled`, which has only one or two windows in a scenario.
const MAX_SAMPLED_ERROR: f64 = 0.3;
const MAX_SAMPLED_MEAN_ERROR: f64 = 0.15;

#[test]
fn the_energy_of_a_sampled_ledger_is_close_to_the_true_energy() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_secs(3), short_flows: 1_000, requests: 50_000 };
    let wanted = ["solo", "bystander-50", "request-response"];
    let chosen = basic(&size).into_iter().filter(|scenario| wanted.contains(&scenario.name));
    let rows: Vec<Row> = chosen.map(|scenario| run_undisturbed(&scenario, "sampled")).collect();
    print(&rows);
    if rows.iter().any(Row::is_disturbed) {
        skip("other programs use MPTCP on this machine");
        return;
    }
    let [mean, worst] = mean_and_worst(&rows);
    assert!(mean <= MAX_SAMPLED_MEAN_ERROR && worst <= MAX_SAMPLED_ERROR, "mean {mean}, worst {worst}");
}

/// Prints the table of scenarios in docs/measurements/energy.md. Run this test on an idle machine.
#[test]
#[ignore = "takes minutes"]
fn table_of_scenarios() {
    let _guard = exclusive();
    let size = Size { bulk: Duration::from_secs(3), short_flows: 10_000, requests: 50_000 };
    for ledger in ["exact", "sampled"] {
        println!("--ledger {ledger}");
        print(&basic(&size).iter().map(|scenario| measure(scenario, ledger)).collect::<Vec<_>>());
    }
}

fn mean_and_worst(rows: &[Row]) -> [f64; 2] {
    let errors = rows.iter().map(|row| row.energy_error.abs());
    [errors.clone().sum::<f64>() / rows.len() as f64, errors.fold(0.0, f64::max)]
}

/// The relative effect of each bystander on the energy per CPU second of the traffic.
fn bystander_effects(rows: &[Row]) -> Vec<(&'static str, f64)> {
    let has_bystander = |row: &&Row| row.name.starts_with("bystander") || row.name == "same-core";
    let effect = |row: &Row| (1.0 + row.energy_error) / (1.0 + rows[0].energy_error) - 1.0;
    rows.iter().filter(has_bystander).map(|row| (row.name, effect(row))).collect()
}
