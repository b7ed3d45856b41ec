// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of mpwatch that measurements compare.

use crate::subjects::interleave::{Stop, Tool};
use mpwatch_testkit::{Observer, Report};

/// Settings of the ledger that are compared.
pub(crate) const LEDGERS: [&str; 3] = ["off", "sampled", "exact"];
/// The setting that targets apply to.
pub(crate) const JUDGED: &str = "sampled";
/// The row of blocks in which nothing runs.
pub(crate) const NOTHING: &str = "no tracing";
/// Delay before the measurement, in units of the warm-up. A sampled ledger has more windows in its first second, which is not measured.
const SETTLE: u32 = 1;
const SETTLE_SAMPLED: u32 = 8;

/// Name of a setting of the ledger in tables.
pub(crate) fn name(ledger: &str) -> String {
    format!("`--ledger {ledger}`")
}

/// A recorder with each ledger, and finally no recorder. `check` is called with the report of each recorder.
pub(crate) fn tools<'a>(check: impl Fn(&Report) + Copy + 'a) -> Vec<Tool<'a>> {
    let recorder = |ledger: &'static str| {
        let start = move || -> Stop<'a> {
            let observer = Observer::start_every("1s", &["--ledger", ledger]);
            Box::new(move || check(&observer.finish()))
        };
        let settle = if ledger == "sampled" { SETTLE_SAMPLED } else { SETTLE };
        Tool { name: name(ledger), settle, start: Box::new(start) }
    };
    let mut tools: Vec<Tool<'a>> = LEDGERS.into_iter().map(recorder).collect();
    tools.push(Tool::nothing("no tracing, again"));
    tools
}
