// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of mpwatch that measurements compare.

use crate::subjects::interleave::{Stop, Tool};
use mpwatch_testkit::{Observer, Report};

/// The compared settings of the ledger.
pub(crate) const LEDGERS: [&str; 3] = ["off", "sampled", "exact"];
/// The setting of the ledger to which targets apply.
pub(crate) const JUDGED: &str = "sampled";
/// Name of the row for blocks in which mpwatch does not run.
pub(crate) const NOTHING: &str = "no tracing";
/// Time from the start of a recorder to the measurement, in units of the warm-up. A sampled ledger has more sampling windows in its first second.
const SETTLE: u32 = 1;
const SETTLE_SAMPLED: u32 = 8;

/// Name of a setting of the ledger in tables.
pub(crate) fn name(ledger: &str) -> String {
    format!("`--ledger {ledger}`")
}

/// A recorder with each setting of the ledger, and at the end no recorder. Calls `check` with the report of each recorder.
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
