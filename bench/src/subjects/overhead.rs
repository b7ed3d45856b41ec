// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tracing costs the traffic that is traced: the same traffic without mpwatch, with it, and with it but for the ledger, in turns.

use crate::effort::Effort;
use crate::harness::Observer;
use crate::statistics::{Cost, median};
use crate::subjects::load::{Load, Sample, Workload, lab, workloads};
use crate::subjects::programs;
use crate::table::{figure, markdown};
use mpwatch_lab::Topology;

/// What else runs beside the traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracing {
    Nothing,
    /// As `Nothing`: what two measurements of the same differ by.
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
            Self::WithoutLedger => "`--no-ledger`",
            Self::Full => "full tracing",
        }
    }

    fn observer(self) -> Option<Observer> {
        match self {
            Self::Nothing | Self::NothingAgain => None,
            Self::WithoutLedger => Some(Observer::start_every("1s", &["--no-ledger"])),
            Self::Full => Some(Observer::start_every("1s", &[])),
        }
    }

    fn target(self, workload: &Workload) -> Option<f64> {
        match self {
            Self::Nothing | Self::NothingAgain => None,
            Self::WithoutLedger => Some(workload.targets[0]),
            Self::Full => Some(workload.targets[1]),
        }
    }
}

/// The samples of one configuration, one a round.
#[derive(Default)]
struct Series {
    by_clock: Vec<f64>,
    by_cpu: Vec<f64>,
}

impl Series {
    /// In the middle of two: what both ends of a round say of the time between them.
    fn between(one: &Self, other: &Self) -> Self {
        let middle = |one: &[f64], other: &[f64]| {
            one.iter().zip(other).map(|(one, other)| f64::midpoint(*one, *other)).collect()
        };
        Self { by_clock: middle(&one.by_clock, &other.by_clock), by_cpu: middle(&one.by_cpu, &other.by_cpu) }
    }
}

pub(crate) fn run(effort: Effort) -> String {
    let lab = lab();
    let mut rows = Vec::new();
    for workload in workloads() {
        eprintln!("bench: {}, {} rounds", workload.name, effort.rounds);
        rows.extend(compare(&lab, &workload, effort));
    }
    let header = [
        "traffic",
        "beside it",
        "rate, median",
        "cost in rate",
        "cost in rate by CPU time",
        "target",
        "verdict",
    ];
    let note = format!(
        "{} rounds, a connection each, {:?} of everything in turns; compared with the time before and after. In brackets: where the true median lies with 95 % probability.\n\n",
        effort.rounds, effort.window
    );
    note + &markdown(&header, &rows) + "\n" + &programs::run(&lab, effort)
}

fn compare(lab: &Topology, workload: &Workload, effort: Effort) -> Vec<Vec<String>> {
    let mut series = Tracing::ALL.map(|_| Series::default());
    for round in 0..effort.rounds {
        let mut order: Vec<usize> = (0..Tracing::ALL.len()).collect();
        // Back and forth, so that a drift of the machine cancels out.
        if round % 2 == 1 {
            order.reverse();
        }
        // One connection for the whole round: two of them differ by more than what is looked for.
        let load = Load::start(lab, workload, effort);
        for index in order {
            let sample = measure(lab, &load, Tracing::ALL[index], effort);
            series[index].by_clock.push(sample.by_clock);
            series[index].by_cpu.push(sample.by_cpu);
        }
    }
    let [first, .., again] = &series;
    let baseline = Series::between(first, again);
    let rows = Tracing::ALL.iter().zip(&series);
    // Of the same twice, one is compared with the other.
    let compared = |tracing: Tracing| if tracing == Tracing::NothingAgain { first } else { &baseline };
    rows.map(|(tracing, one)| row(workload, *tracing, one, compared(*tracing))).collect()
}

fn measure(lab: &Topology, load: &Load, tracing: Tracing, effort: Effort) -> Sample {
    let observer = tracing.observer();
    std::thread::sleep(effort.warm_up);
    let sample = load.measure(effort.window);
    if let Some(observer) = observer {
        let report = observer.finish();
        assert!(!report.connections_in(lab.client().name()).is_empty(), "the traffic was not traced");
    }
    sample
}

fn row(workload: &Workload, tracing: Tracing, series: &Series, baseline: &Series) -> Vec<String> {
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
