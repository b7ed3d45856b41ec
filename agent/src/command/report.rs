// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch report`: what a database holds of a period, in the forms that `replay` has too.

use jiff::Timestamp;
use mpwatch_store::{Archive, Period};

use super::{files, print_report};
use crate::cli::{PeriodOptions, Scope};

pub(super) fn run(options: &PeriodOptions, scope: &Scope) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let period = Period {
        since: options.since.map(|since| since.before(now)).transpose()?,
        until: options.until.map(|until| until.before(now)).transpose()?,
    };
    if let (Some(since), Some(until)) = (period.since, period.until) {
        anyhow::ensure!(since <= until, "the period ends before it begins: from {since} until {until}");
    }
    files::distinct(&[Some(&options.db), options.report.output.as_deref()])?;
    let (report, samples) = Archive::open(&options.db)?.report(period)?;
    print_report(&scope.narrow_report(report), &samples, &options.report)
}
