// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export clickhouse`: prints the schema, or sends.

use mpwatch_exporters::clickhouse::check::{self, Difference};
use mpwatch_exporters::clickhouse::schema::{self, Place};

use mpwatch_exporters::send::{Target, answer_of_clickhouse, with_weight};
use mpwatch_store::end_columns;

use super::send::send;
use crate::cli::ClickhouseOptions;
use crate::command::output::print;
use crate::error::{Failure, RUNTIME, of_target};

pub(super) fn run(options: &ClickhouseOptions) -> anyhow::Result<()> {
    let target = &options.target.options;
    if target.url.is_none() {
        let place = Place { database: &target.database, cluster: options.cluster.as_deref() };
        let retention = options.keep.map(|keep| schema::retention(place, keep.as_secs()));
        let tables = schema::ddl(&with_weight(end_columns()), place, env!("CARGO_PKG_VERSION"));
        return print(&(tables + &retention.unwrap_or_default()));
    }
    if options.check {
        return check(options);
    }
    send(Target::clickhouse(target, end_columns()).map_err(of_target)?, target.batch, &options.delivery)
}

/// Prints the statements that bring the server's tables up to date; fails if there are any.
fn check(options: &ClickhouseOptions) -> anyhow::Result<()> {
    let target = &options.target.options;
    let place = Place { database: &target.database, cluster: options.cluster.as_deref() };
    let columns = with_weight(end_columns());
    let answer = |query: &str| answer_of_clickhouse(target, query).map_err(of_target);
    let found = answer(&check::query(place.database))?;
    let differences = check::differences(&columns, place, &found);
    let has_tables = !differences.iter().any(|difference| matches!(difference, Difference::Table(_)));
    let version = || answer(&schema::version_query(place.database));
    let version = if has_tables { Some(version()?) } else { None };
    let (known, database) = (schema::VERSION.to_string(), &target.database);
    match version.filter(|version| *version != known) {
        Some(version) => {
            eprintln!("mpwatch: the tables are of schema {version}, this mpwatch writes {known}");
        }
        None if differences.is_empty() => {
            return print(&format!("the tables in `{database}` are up to date"));
        }
        None => {}
    }
    for difference in &differences {
        eprintln!("mpwatch: {difference}");
    }
    let schema = schema::ddl(&columns, place, env!("CARGO_PKG_VERSION"));
    print(
        &[check::before(&differences, place), schema, check::after(&differences, &columns, place)].concat(),
    )?;
    let message = "the tables differ; the statements above bring them up to date. Stop the export while they are executed";
    Err(Failure { code: RUNTIME, message: message.to_owned() }.into())
}
