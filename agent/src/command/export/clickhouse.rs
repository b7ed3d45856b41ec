// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export clickhouse`: prints or checks the schema, or sends connections.

use mpwatch_exporters::clickhouse::check::{self, Difference};
use mpwatch_exporters::clickhouse::schema::{self, Place};
use mpwatch_exporters::options::TargetOptions;
use mpwatch_exporters::send::{Sender, answer_of_clickhouse, with_weight};
use mpwatch_store::end_columns;

use super::send::send;
use crate::cli::ClickhouseOptions;
use crate::command::output::print;
use crate::error::{Failure, RUNTIME};

pub(super) fn run(options: &ClickhouseOptions) -> anyhow::Result<()> {
    let target = &options.target.options;
    let place = Place { database: &target.database, cluster: options.cluster.as_deref() };
    if target.url.is_none() {
        let retention = options.keep.map(|keep| schema::retention(place, keep.as_secs()));
        let tables = schema::ddl(&with_weight(end_columns()), place, env!("CARGO_PKG_VERSION"));
        return print(&(tables + &retention.unwrap_or_default()));
    }
    if options.check {
        return check(target, place);
    }
    send(Sender::clickhouse(target, end_columns())?, target.batch, &options.delivery)
}

/// Compares the server's tables with this version's. If they differ, reports how, prints statements that create missing tables, and fails.
fn check(target: &TargetOptions, place: Place<'_>) -> anyhow::Result<()> {
    let columns = with_weight(end_columns());
    let answer = |query: &str| answer_of_clickhouse(target, query);
    let found = answer(&check::query(place.database))?;
    let differences = check::differences(&columns, place, &found);
    let has_tables = !differences.iter().any(|difference| matches!(difference, Difference::Table(_)));
    let version = if has_tables { Some(answer(&schema::version_query(place.database))?) } else { None };
    let known = schema::VERSION;
    let older_version = version.filter(|version| version.parse().is_ok_and(|found: u32| found < known));
    if older_version.is_none() && differences.is_empty() {
        return print(&format!("the tables in `{}` are up to date", target.database));
    }
    if let Some(version) = older_version {
        eprintln!("mpwatch: the tables have schema {version}, this mpwatch writes {known}");
    }
    for difference in &differences {
        eprintln!("mpwatch: {difference}");
    }
    print(&schema::ddl(&columns, place, env!("CARGO_PKG_VERSION")))?;
    let message = "the tables differ; the statements above create missing tables. Drop a table that has other columns first, then send again with --resend";
    Err(Failure { code: RUNTIME, message: message.to_owned() }.into())
}
