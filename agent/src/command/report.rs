// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch report`: a report over a period of a database.

use jiff::Zoned;
use mpwatch_store::Archive;

use super::files;
use super::output::print_report;
use crate::cli::PeriodOptions;
use crate::time_spec::period;

pub(super) fn run(options: &PeriodOptions) -> anyhow::Result<()> {
    let period = period(options.since, options.until, &Zoned::now())?;
    files::ensure_distinct(&[Some(&options.db), options.report.output.as_deref()])?;
    let (mut report, series) = Archive::open(&options.db)?.report(period)?;
    (report.run.since, report.run.until) = (period.since, period.until);
    print_report(&options.filter.apply_to_report(report), &series, &options.report)
}
