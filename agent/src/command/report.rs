// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch report`: a report over a period of a database.

use jiff::Timestamp;
use mpwatch_store::{Archive, Period};

use super::files;
use super::output::print_report;
use crate::cli::PeriodOptions;

pub(super) fn run(options: &PeriodOptions) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let period = Period {
        since: options.since.map(|since| since.resolve(now)).transpose()?,
        until: options.until.map(|until| until.resolve(now)).transpose()?,
    };
    if let (Some(since), Some(until)) = (period.since, period.until) {
        anyhow::ensure!(since <= until, "the period ends before it begins: from {since} until {until}");
    }
    files::ensure_distinct(&[Some(&options.db), options.report.output.as_deref()])?;
    let (report, series) = Archive::open(&options.db)?.report(period)?;
    print_report(&options.filter.apply_to_report(report), &series, &options.report)
}
