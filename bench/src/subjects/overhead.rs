// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much tracing slows down the traced traffic: the same traffic without mpwatch and with each kind of tracing, in turns.

use mpwatch_lab::Topology;

use crate::effort::Effort;
use crate::statistics::{Cost, median};
use crate::subjects::programs;
use crate::subjects::tracing::{Series, Tracing, order};
use crate::subjects::traffic::{BenchWorkload, Speed, Traffic, lab, workloads};
use crate::table::{figure, markdown};

const HEADER: [&str; 7] =
    ["traffic", "tracing", "rate, median", "cost in rate", "cost in rate by CPU time", "target", "result"];

pub(crate) fn run(effort: Effort) -> String {
    let lab = lab();
    let mut rows = Vec::new();
    for workload in workloads() {
        eprintln!("bench: {}, {} rounds", workload.name, effort.rounds);
        rows.extend(compare(&lab, &workload, effort));
    }
    let note = format!(
        "{} rounds of one connection each. In a round every kind of tracing runs for {:?}; it is compared with the mean of the two measurements \
         without tracing. In brackets: the 95 % confidence interval of the median.\n\n",
        effort.rounds, effort.window
    );
    note + &markdown(&HEADER, &rows) + "\n" + &programs::run(&lab, effort)
}

fn compare(lab: &Topology, workload: &BenchWorkload, effort: Effort) -> Vec<Vec<String>> {
    let (mut by_clock, mut by_cpu) = (Series::default(), Series::default());
    for round in 0..effort.rounds {
        // One connection for the whole round: two connections differ by more than the cost of tracing.
        let traffic = Traffic::start(lab, workload, effort);
        for tracing in order(round) {
            let speed = measure(lab, &traffic, tracing, effort);
            by_clock.push(tracing, speed.by_clock);
            by_cpu.push(tracing, speed.by_cpu);
        }
    }
    Tracing::ALL.map(|tracing| row(workload, tracing, &by_clock, &by_cpu)).to_vec()
}

fn measure(lab: &Topology, traffic: &Traffic, tracing: Tracing, effort: Effort) -> Speed {
    let observer = tracing.observer();
    std::thread::sleep(effort.warm_up);
    let speed = traffic.measure(effort.window);
    if let Some(observer) = observer {
        let report = observer.finish();
        assert!(!report.connections_in(lab.client().name()).is_empty(), "the traffic was not traced");
    }
    speed
}

fn row(workload: &BenchWorkload, tracing: Tracing, by_clock: &Series, by_cpu: &Series) -> Vec<String> {
    let cost = |series: &Series| Cost::of_rates(series.of(tracing), &series.baseline(tracing));
    let (clock, cpu) = (cost(by_clock), cost(by_cpu));
    let unless_baseline = |text: String| if tracing == Tracing::Nothing { "-".to_owned() } else { text };
    // The target is for tracing that runs all the time. Requests on one CPU take all of its time, so their rate is exact.
    let target = (tracing == Tracing::Sampled).then_some(workload.target);
    let judged = if workload.by_clock { &clock } else { &cpu };
    vec![
        workload.name.to_owned(),
        tracing.name().to_owned(),
        format!("{} {}/s", figure(median(by_clock.of(tracing))), workload.unit),
        unless_baseline(clock.text()),
        unless_baseline(cpu.text()),
        target.map_or("-".to_owned(), |target| format!("{target} %")),
        target.map_or("-".to_owned(), |target| judged.verdict(target).to_owned()),
    ]
}
