// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slowdown of traffic by tracing: compares the same traffic without mpwatch and with each kind of tracing, in turns.

use mpwatch_lab::Topology;

use crate::effort::Effort;
use crate::subjects::interleave::{Pairs, compare};
use crate::subjects::programs;
use crate::subjects::tracing::{self, JUDGED, NOTHING};
use crate::subjects::traffic::{BenchWorkload, Traffic, lab, workloads};
use crate::table::{figure, markdown};
use mpwatch_testkit::Report;

const HEADER: [&str; 7] =
    ["traffic", "tracing", "rate, median", "cost in rate", "cost in rate by CPU time", "target", "result"];

pub(crate) fn run(effort: Effort) -> String {
    let lab = lab();
    let mut rows = Vec::new();
    for workload in workloads() {
        eprintln!("bench: {}, {} rounds", workload.name, effort.rounds);
        rows.extend(measure(&lab, &workload, effort));
    }
    let note = format!(
        "{} rounds of one connection each. In a round every kind of tracing is measured for {:?} and compared with the blocks of {:?} before and \
         after it. In brackets: the 95 % confidence interval of the median.\n\n",
        effort.rounds,
        effort.window,
        effort.window / 2
    );
    note + &markdown(&HEADER, &rows) + "\n" + &programs::run(&lab, effort)
}

fn measure(lab: &Topology, workload: &BenchWorkload, effort: Effort) -> Vec<Vec<String>> {
    let is_traced = |report: &Report| {
        assert!(!report.connections_in(lab.client().name()).is_empty(), "the traffic was not traced");
    };
    let tools = tracing::tools(is_traced);
    let begin = || {
        let traffic = Traffic::start(lab, workload, effort);
        move |window| traffic.measure(window)
    };
    let all = compare(&tools, effort, begin);
    let rate = |rate: f64| format!("{} {}/s", figure(rate), workload.unit);
    let mut rows = vec![baseline_row(workload.name, rate(all[0].median_without(|speed| speed.by_clock)))];
    for (tool, pairs) in tools.iter().zip(&all) {
        rows.push(row(workload, &tool.name, rate(pairs.median(|speed| speed.by_clock)), pairs));
    }
    rows
}

fn baseline_row(name: &str, rate: String) -> Vec<String> {
    let mut row = vec![name.to_owned(), NOTHING.to_owned(), rate];
    row.resize(HEADER.len(), "-".to_owned());
    row
}

fn row(workload: &BenchWorkload, settings: &str, rate: String, pairs: &Pairs) -> Vec<String> {
    let (clock, cpu) = (pairs.by_clock(), pairs.by_cpu());
    // Requests on one CPU use all of its time, so their rate per second is as accurate as their rate per second of CPU time.
    let judged = if workload.by_clock { &clock } else { &cpu };
    let target = (settings == tracing::name(JUDGED)).then_some(workload.target);
    vec![
        workload.name.to_owned(),
        settings.to_owned(),
        rate,
        clock.text(),
        cpu.text(),
        target.map_or("-".to_owned(), |target| format!("{target} %")),
        target.map_or("-".to_owned(), |target| judged.verdict(target).to_owned()),
    ]
}
