// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accuracy of the energy of flows with each ledger. Uses real traffic and simulated counters, so that the true energy is known.

use crate::effort::Effort;
use crate::energy::processes::Stopped;
use crate::energy::run::{Charge, Charged, LARGE, Run, run};
use crate::energy::scenario::{Scenario, of_ledger};
use crate::statistics::{median, median_and_worst};
use crate::table::markdown;

use super::ledger_variants::{self, Variants, start_stacks};

const HEADER: [&str; 9] = [
    "scenario",
    "CPU s",
    "sampled: error, median (worst)",
    "exact: error, median (worst)",
    "truth within the bounds of sampled",
    "single flows: sampled against exact, median (worst)",
    "all flows: exact within the bounds of sampled",
    "effect of the bystander: sampled, median (worst)",
    "effect of the bystander: exact, median (worst)",
];
/// Number of rounds of other subjects for one repetition of this subject, because a repetition takes a minute and a half.
const ROUNDS_PER_REPETITION: usize = 3;
/// Maximum number of attempts of a run whose traffic fails or does not end (docs/measurements/robustness.md).
const ATTEMPTS: u32 = 5;

/// Figures of a scenario, with one value per repetition unless noted.
#[derive(Default)]
struct Errors {
    cpu_seconds: Vec<f64>,
    sampled: Vec<f64>,
    exact: Vec<f64>,
    covered: Vec<bool>,
    /// One value per flow with enough CPU time.
    of_flows: Vec<f64>,
    /// One value per flow.
    covered_flows: Vec<bool>,
    variants: Variants,
    /// Number of attempts that were repeated because the traffic failed or did not end.
    stopped: u32,
}

pub(crate) fn run_all(effort: Effort) -> String {
    let repetitions = effort.rounds.div_ceil(ROUNDS_PER_REPETITION);
    let scenarios = of_ledger(effort.traffic);
    let mut all: Vec<Errors> = scenarios.iter().map(|_| Errors::default()).collect();
    for repetition in 1..=repetitions {
        for (scenario, errors) in scenarios.iter().zip(&mut all) {
            eprintln!("bench: {}, {repetition} of {repetitions}", scenario.name);
            errors.measure(scenario);
        }
    }
    let rows: Vec<_> =
        scenarios.iter().zip(&all).map(|(scenario, errors)| row(scenario, errors, &all[0])).collect();
    let note = format!(
        "{repetitions} repetitions, transfers of {:?}. Error: energy that mpwatch charges to the traffic, compared with the energy of the CPU \
         time that the traffic has used. The column of single flows covers flows with at least one CPU second, while both recorders \
         run; the bounds are compared for all flows.\n\n",
        effort.traffic
    );
    let stopped: u32 = all.iter().map(|errors| errors.stopped).sum();
    let runs = 2 * repetitions * scenarios.len();
    let stopped = format!(
        "Transfers that stopped, so that their runs were repeated: {stopped}; runs that ended: {runs}.\n"
    );
    let variants = scenarios.iter().zip(&all).map(|(scenario, errors)| (scenario.name, &errors.variants));
    note + &markdown(&HEADER, &rows)
        + "\n"
        + &summary(&scenarios, &all)
        + &stopped
        + &ledger_variants::table(variants)
}

impl Errors {
    /// Runs the scenario once with the sampled ledger alone, and once with both ledgers, which then record the same flows.
    fn measure(&mut self, scenario: &Scenario) {
        let alone = self.attempt(|| run(scenario, &["sampled"]));
        let bounds = alone.charged[0].bounds.map(|bound| bound as f64);
        progress("sampled", &alone, 0);
        self.sampled.push(error(&alone, 0));
        self.covered.push((bounds[0]..=bounds[1]).contains(&alone.energy));
        self.cpu_seconds.push(alone.cpu_time as f64 / 1e9);
        let (stacks, both) = self.attempt(|| {
            let stacks = start_stacks();
            Ok((stacks, run(scenario, &["exact", "sampled"])?))
        });
        if let Some(stacks) = stacks {
            self.variants.compare(&both.charged[0], &both.charged[1], stacks.finish());
        }
        progress("exact", &both, 0);
        progress("sampled, with exact in parallel", &both, 1);
        self.exact.push(error(&both, 0));
        self.compare_flows(&both.charged[0], &both.charged[1]);
    }

    fn attempt<T>(&mut self, run: impl Fn() -> Result<T, Stopped>) -> T {
        for _ in 1..ATTEMPTS {
            match run() {
                Ok(measured) => return measured,
                Err(stopped) => eprintln!("bench: {stopped}; again"),
            }
            self.stopped += 1;
        }
        run().unwrap()
    }

    fn compare_flows(&mut self, exact: &Charged, sampled: &Charged) {
        for (id, Charge { energy, cpu_time, .. }) in &exact.flows {
            let estimate = sampled.flows.get(id);
            let covered = estimate.is_some_and(|flow| (flow.bounds[0]..=flow.bounds[1]).contains(energy));
            self.covered_flows.push(covered);
            if *cpu_time >= LARGE {
                let estimate = estimate.map_or(0, |flow| flow.energy);
                self.of_flows.push(estimate as f64 / *energy as f64 - 1.0);
            }
        }
    }
}

/// Relative error of the energy that the recorder with this index charged.
fn error(run: &Run, recorder: usize) -> f64 {
    run.charged[recorder].energy as f64 / run.energy - 1.0
}

/// Prints the errors of energy and CPU time. A wrong energy with the right CPU time is an error in the power.
fn progress(ledger: &str, run: &Run, recorder: usize) {
    let charged = &run.charged[recorder];
    let of_truth = |time: u64| time as f64 / run.cpu_time as f64 * 100.0;
    eprintln!(
        "bench: {ledger}: energy {:+.1} %, CPU time {:+.1} % (and {:.1} % in interrupts of all tasks)",
        error(run, recorder) * 100.0,
        of_truth(charged.cpu_time) - 100.0,
        of_truth(charged.interrupts),
    );
}

fn row(scenario: &Scenario, errors: &Errors, baseline: &Errors) -> Vec<String> {
    let effect = |of: fn(&Errors) -> &Vec<f64>| match scenario.bystander {
        Some(_) => median_and_worst(&effects(of(errors), of(baseline))),
        None => "-".to_owned(),
    };
    vec![
        scenario.name.to_owned(),
        format!("{:.2}", median(&errors.cpu_seconds)),
        median_and_worst(&errors.sampled),
        median_and_worst(&errors.exact),
        share(&errors.covered),
        median_and_worst(&errors.of_flows),
        share(&errors.covered_flows),
        effect(|errors| &errors.sampled),
        effect(|errors| &errors.exact),
    ]
}

/// The relative change of the traffic's energy per CPU second that a bystander causes, from the errors with and without the bystander.
fn effects(with: &[f64], without: &[f64]) -> Vec<f64> {
    let without = 1.0 + median(without);
    with.iter().map(|with| (1.0 + with) / without - 1.0).collect()
}

/// A text that compares the errors over all scenarios with the targets.
fn summary(scenarios: &[Scenario], all: &[Errors]) -> String {
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of =
        |of: fn(&Errors) -> &Vec<f64>| all.iter().flat_map(of).map(|error| error.abs()).collect::<Vec<_>>();
    let line = |name: &str, errors: Vec<f64>, target: &str| {
        let worst = errors.iter().copied().fold(0.0, f64::max);
        format!(
            "{name}: mean of the absolute errors {:.1} %, worst {:.1} % (targets {target}).\n",
            mean(errors) * 100.0,
            worst * 100.0
        )
    };
    let covered: Vec<bool> = all.iter().flat_map(|errors| errors.covered.clone()).collect();
    let with_bystander = scenarios.iter().zip(all).filter(|(scenario, _)| scenario.bystander.is_some());
    let changed = with_bystander
        .map(|(_, errors)| median(&effects(&errors.sampled, &all[0].sampled)).abs())
        .fold(0.0, f64::max);
    line("Sampled", of(|errors| &errors.sampled), "5 %, 10 %")
        + &line("Exact", of(|errors| &errors.exact), "2 %, 5 %")
        + &format!(
            "Sampled: the bounds contain the truth in {} (target 95 %); a bystander changes the energy by at most {:.1} % in the median (target 3 %).\n",
            share(&covered),
            changed * 100.0
        )
}

fn share(covered: &[bool]) -> String {
    format!("{} of {}", covered.iter().filter(|covered| **covered).count(), covered.len())
}
