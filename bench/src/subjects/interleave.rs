// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the speed of work with and without tools. Because the speed of the machine drifts, short blocks alternate many times. Each
//! block with a tool is compared with the blocks without a tool before and after it.

use std::thread;
use std::time::Duration;

use crate::effort::Effort;
use crate::statistics::{Cost, median};
use crate::subjects::traffic::Speed;

/// A function that stops a tool.
pub(crate) type Stop<'a> = Box<dyn FnOnce() + 'a>;

/// A tool that runs in parallel with the work.
pub(crate) struct Tool<'a> {
    pub(crate) name: String,
    /// Time from the start of the tool to the measured block, in units of the effort's warm-up.
    pub(crate) settle: u32,
    /// Starts the tool.
    pub(crate) start: Box<dyn Fn() -> Stop<'a> + 'a>,
}

impl Tool<'_> {
    /// An entry without a tool. It shows by how much two equal measurements differ.
    pub(crate) fn nothing(name: &str) -> Self {
        Self { name: name.to_owned(), settle: 1, start: Box::new(|| Box::new(|| ())) }
    }
}

/// Speeds in the blocks with a tool, each with the speeds in the two neighbouring blocks without a tool.
#[derive(Default)]
pub(crate) struct Pairs {
    with: Vec<Speed>,
    without: Vec<[Speed; 2]>,
}

impl Pairs {
    /// Cost as a reduction of units per second.
    pub(crate) fn by_clock(&self) -> Cost {
        self.cost(|speed| speed.by_clock)
    }

    /// Cost as a reduction of units per second of CPU time.
    pub(crate) fn by_cpu(&self) -> Cost {
        self.cost(|speed| speed.by_cpu)
    }

    fn cost(&self, of: fn(&Speed) -> f64) -> Cost {
        let with: Vec<f64> = self.with.iter().map(of).collect();
        let without = self.without.iter().map(|[before, after]| f64::midpoint(of(before), of(after)));
        Cost::from_rates(&with, &without.collect::<Vec<_>>())
    }

    /// Median of the speeds with the tool.
    pub(crate) fn median(&self, of: fn(&Speed) -> f64) -> f64 {
        median(&self.with.iter().map(of).collect::<Vec<_>>())
    }

    /// Median of the speeds without a tool.
    pub(crate) fn median_without(&self, of: fn(&Speed) -> f64) -> f64 {
        median(&self.without.iter().flatten().map(of).collect::<Vec<_>>())
    }
}

/// Measures work with each tool. The result has the order of the tools. `begin` starts the work of a round and returns a function that
/// measures it. A round uses one connection, because the speeds of two connections differ by more than the cost of most tools.
pub(crate) fn compare<M: Fn(Duration) -> Speed>(
    tools: &[Tool<'_>],
    effort: Effort,
    begin: impl Fn() -> M,
) -> Vec<Pairs> {
    let mut all: Vec<Pairs> = tools.iter().map(|_| Pairs::default()).collect();
    for round in 0..effort.rounds {
        let measure = begin();
        let mut before = measure(effort.window / 2);
        for place in 0..tools.len() {
            // Each round begins with a different tool.
            let index = (round + place) % tools.len();
            let tool = &tools[index];
            let stop = (tool.start)();
            thread::sleep(effort.warm_up * tool.settle);
            let with = measure(effort.window);
            stop();
            thread::sleep(effort.warm_up);
            let after = measure(effort.window / 2);
            all[index].with.push(with);
            all[index].without.push([before, after]);
            before = after;
        }
    }
    all
}
