// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export clickhouse`: prints the schema, or sends.

use mpwatch_exporters::clickhouse::check::{self, Difference};
use mpwatch_exporters::clickhouse::schema::{self, Place};

use super::send::{delivery, send};
use crate::cli::ClickhouseOptions;
use crate::command::output::print;
use crate::compression::Compression;
use crate::error::{Failure, RUNTIME};
use crate::export::sender::columns;
use crate::export::target::{Delivery, Target, answer_of_clickhouse};
use crate::export::url::Url;

pub(super) fn run(options: &ClickhouseOptions) -> anyhow::Result<()> {
    let Some(url) = &options.url else {
        let place = Place { database: &options.database, cluster: options.cluster.as_deref() };
        let retention = options.keep.map(|keep| schema::retention(place, keep.as_secs()));
        let tables = schema::ddl(&columns(), place, env!("CARGO_PKG_VERSION"));
        return print(&(tables + &retention.unwrap_or_default()));
    };
    let url = Url::parse(url).map_err(Failure::usage)?;
    if options.check {
        return check(options, url);
    }
    send(Target::clickhouse(url, &options.database, delivered(options))?, &options.delivery)
}

fn delivered(options: &ClickhouseOptions) -> Delivery {
    delivery(&options.delivery, Compression::OF_CLICKHOUSE)
}

/// Prints the statements that bring the server's tables up to date; fails if there are any.
fn check(options: &ClickhouseOptions, url: Url) -> anyhow::Result<()> {
    let place = Place { database: &options.database, cluster: options.cluster.as_deref() };
    let columns = columns();
    let found = answer_of_clickhouse(url.clone(), delivered(options), &check::query(place.database))?;
    let differences = check::differences(&columns, place, &found);
    let has_tables = !differences.iter().any(|difference| matches!(difference, Difference::Table(_)));
    let version = || answer_of_clickhouse(url, delivered(options), &schema::version_query(place.database));
    let version = if has_tables { Some(version()?) } else { None };
    let (known, database) = (schema::VERSION.to_string(), &options.database);
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
