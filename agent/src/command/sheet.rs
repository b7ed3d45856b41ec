// SPDX-License-Identifier: MIT OR Apache-2.0
//! CSV of a report, with the columns of the database's views (docs/store.md).

use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::snapshot::Report;
use mpwatch_report::csv;
use mpwatch_store::{Sheet, SheetKind};

/// The text of a table. `samples`: counters over time, which only a database has.
pub(crate) fn sheet(report: &Report, samples: &CounterSeries, what: SheetKind) -> anyhow::Result<String> {
    let Sheet { columns, rows } = Sheet::new(report, samples, what)?;
    Ok(csv::table(&columns, &rows)?)
}
