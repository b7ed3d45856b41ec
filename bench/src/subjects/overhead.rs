// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much tracing slows down the traced traffic: the same traffic without mpwatch, with full tracing, and with tracing but no ledger, in
//! turns.

use mpwatch_lab::Topology;

use crate::effort::Effort;
use crate::harness::Observer;
use crate::statistics::{Cost, median};
use crate::subjects::programs;
use crate::subjects::traffic::{BenchWorkload, Speed, Traffic, lab, workloads};
use crate::table::{figure, markdown};

/// What runs beside the traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracing {
    Nothing,
    /// The same as `Nothing`: shows by how much two equal measurements differ.
    NothingAgain,
    WithoutLedger,
    Full,
}

impl Tracing {
    const ALL: [Self; 4] = [Self::Nothing, Self::WithoutLedger, Self::Full, Self::NothingAgain];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no tracing",
            Self::NothingAgain => "no tracing, again",
            Self::WithoutLedger => "`--ledger off`",
            Self::Full => "full tracing",
        }
    }

    fn observer(self) -> Option<Observer> {
        match self {
            Self::Nothing | Self::NothingAgain => None,
            Self::WithoutLedger => Some(Observer::start_every("1s", &["--ledger", "off"])),
            Self::Full => Some(Observer::start_every("1s", &[])),
        }
    }

    fn target(self, workload: &BenchWorkload) -> Option<f64> {
        match self {
            Self::Nothing | Self::NothingAgain => None,
            Self::WithoutLedger => Some(workload.targets[0]),
            Self::Full => Some(workload.targets[1]),
        }
    }
}

/// Speeds with one kind of tracing, one per round.
#[derive(Default)]
struct Series {
    by_clock: Vec<f64>,
    by_cpu: Vec<f64>,
}

impl Series {
    /// The mean of two, round by round: an estimate for the time between them.
    fn between(one: &Self, other: &Self) -> Self {
        let mean = |one: &[f64], other: &[f64]| {
            one.iter().zip(other).map(|(one, other)| f64::midpoint(*one, *other)).collect()
        };
        Self { by_clock: mean(&one.by_clock, &other.by_clock), by_cpu: mean(&one.by_cpu, &other.by_cpu) }
    }
}

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
    let mut series = Tracing::ALL.map(|_| Series::default());
    for round in 0..effort.rounds {
        let mut order: Vec<usize> = (0..Tracing::ALL.len()).collect();
        // Alternating directions cancel out a drift of the machine.
        if round % 2 == 1 {
            order.reverse();
        }
        // One connection for the whole round: two connections differ by more than the cost of tracing.
        let traffic = Traffic::start(lab, workload, effort);
        for index in order {
            let speed = measure(lab, &traffic, Tracing::ALL[index], effort);
            series[index].by_clock.push(speed.by_clock);
            series[index].by_cpu.push(speed.by_cpu);
        }
    }
    let [first, .., again] = &series;
    let baseline = Series::between(first, again);
    let rows = Tracing::ALL.iter().zip(&series);
    let compared_with = |tracing: Tracing| if tracing == Tracing::NothingAgain { first } else { &baseline };
    rows.map(|(tracing, one)| row(workload, *tracing, one, compared_with(*tracing))).collect()
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

fn row(workload: &BenchWorkload, tracing: Tracing, series: &Series, baseline: &Series) -> Vec<String> {
    let clock = Cost::of_rates(&series.by_clock, &baseline.by_clock);
    let cpu = Cost::of_rates(&series.by_cpu, &baseline.by_cpu);
    let is_baseline = tracing == Tracing::Nothing;
    let unless_baseline = |text: String| if is_baseline { "-".to_owned() } else { text };
    let target = tracing.target(workload);
    vec![
        workload.name.to_owned(),
        tracing.name().to_owned(),
        format!("{} {}/s", figure(median(&series.by_clock)), workload.unit),
        unless_baseline(clock.text()),
        unless_baseline(cpu.text()),
        target.map_or("-".to_owned(), |target| format!("{target} %")),
        target.map_or("-".to_owned(), |target| clock.verdict(target).to_owned()),
    ]
}
