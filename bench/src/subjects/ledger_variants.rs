// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares variants of estimating the CPU time of flows with the exact ledger on the same traffic.

use crate::energy::run::{Charged, LARGE};
use crate::energy::stacks::StackSampler;
use crate::statistics::median_and_worst;
use crate::table::markdown;

const NAMES: [&str; 3] = [
    "windows (as `sampled`)",
    "stacks by timer, divided by segments",
    "stacks by timer, divided as the windows do",
];

/// The relative errors of each variant in a scenario, compared with the exact ledger.
#[derive(Default)]
pub(super) struct Variants {
    /// Errors of the sum of the CPU time of all flows, one per run.
    all: [Vec<f64>; NAMES.len()],
    /// Errors of single flows with at least [`LARGE`] CPU time.
    single: [Vec<f64>; NAMES.len()],
}

impl Variants {
    /// Adds a run. `stacks`: CPU time of the network estimated from stacks, including other processes, in nanoseconds.
    pub(super) fn compare(&mut self, exact: &Charged, sampled: &Charged, stacks: u64) {
        let sum = |of: &dyn Fn(&str) -> f64| exact.flows.keys().map(|id| of(id)).sum::<f64>();
        let time = |id: &str| exact.flows[id].cpu_time as f64;
        let estimated = |id: &str| sampled.flows.get(id).map_or(0.0, |flow| flow.cpu_time as f64);
        let headers = |id: &str| exact.flows[id].headers as f64;
        let (all_estimated, all_headers) = (sum(&estimated), sum(&headers));
        let by_segments = |id: &str| stacks as f64 * headers(id) / all_headers;
        let by_windows = |id: &str| stacks as f64 * estimated(id) / all_estimated;
        let variants: [&dyn Fn(&str) -> f64; NAMES.len()] = [&estimated, &by_segments, &by_windows];
        for (index, variant) in variants.into_iter().enumerate() {
            // In a short run, the sampled ledger may have no window.
            if !sum(variant).is_normal() {
                continue;
            }
            self.all[index].push(sum(variant) / sum(&time) - 1.0);
            let large = exact.flows.iter().filter(|(_, flow)| flow.cpu_time >= LARGE);
            self.single[index].extend(large.map(|(id, _)| variant(id) / time(id) - 1.0));
        }
    }
}

/// Starts the stack sampler. If bpftrace is missing, prints a note and returns `None`.
pub(super) fn start_stacks() -> Option<StackSampler> {
    let started = StackSampler::start();
    if started.is_none() {
        eprintln!("bench: SKIP the comparison with stacks by timer: apt-get install bpftrace");
    }
    started
}

pub(super) fn table<'a>(all: impl Iterator<Item = (&'a str, &'a Variants)>) -> String {
    let header = ["scenario", "variant", "all flows: error, median (worst)", "single flows"];
    let rows: Vec<Vec<String>> = all
        .filter(|(_, variants)| !variants.all[1].is_empty())
        .flat_map(|(scenario, variants)| {
            NAMES.iter().enumerate().map(move |(index, name)| {
                let errors =
                    [&variants.all[index], &variants.single[index]].map(|errors| median_and_worst(errors));
                [scenario.to_owned(), (*name).to_owned()].into_iter().chain(errors).collect()
            })
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    "\nCPU time of flows by other means, compared with the exact ledger that ran in parallel:\n\n".to_owned()
        + &markdown(&header, &rows)
}
