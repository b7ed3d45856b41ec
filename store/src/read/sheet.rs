// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a report for CSV. They are read from the views of a database in memory, so they have the same columns as a file.

use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::snapshot::Report;
use rusqlite::Connection as Database;
use rusqlite::types::ValueRef;
use serde_json::Value;

use crate::error::StoreError;
use crate::schema::create::create;
use crate::schema::names::KnownNames;
use crate::schema::record::Key;
use crate::schema::rows::{RunRow, SampleRow};
use crate::schema::sql::Insertions;
use crate::schema::tables::{LOCAL_COLUMNS, column_names};

/// The rows of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetKind {
    /// Connections, with the columns of `v_connection`.
    Connections,
    /// Subflows, with the columns of their connection and of `v_subflow`, whose names get the prefix `subflow_`. A connection without
    /// subflows has one row.
    Subflows,
    /// Samples of subflows, with the columns of `v_sample` and the ids of connection and subflow.
    Samples,
}

/// A table with named columns. A cell is a number, a text, or null, which means unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows with one cell for each column.
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    /// Creates a table of a report, with connections in the order of the report, and samples ordered by connection and time.
    pub fn new(report: &Report, samples: &CounterSeries, kind: SheetKind) -> Result<Self, StoreError> {
        sheet(report, samples, kind).map_err(|error| StoreError::in_memory(&error))
    }
}

fn sheet(report: &Report, samples: &CounterSeries, kind: SheetKind) -> rusqlite::Result<Sheet> {
    let database = Database::open_in_memory()?;
    create(&database, true)?;
    let transaction = database.unchecked_transaction()?;
    fill(&transaction, report, samples)?;
    let columns = |view, alias, prefix| listed(&transaction, view, alias, prefix);
    let of_connection = columns("v_connection", "c", "")?;
    let query = match kind {
        SheetKind::Connections => {
            format!("SELECT {of_connection} FROM v_connection AS c ORDER BY c.connection")
        }
        SheetKind::Subflows => format!(
            "SELECT {of_connection}, {} FROM v_connection AS c
             LEFT JOIN v_subflow AS s ON s.connection = c.connection ORDER BY c.connection, s.place",
            columns("v_subflow", "s", "subflow_")?
        ),
        SheetKind::Samples => format!(
            "SELECT c.id AS id, s.id AS subflow_id, {} FROM v_sample AS p
             JOIN v_connection AS c ON c.connection = p.connection
             JOIN v_subflow AS s ON s.connection = p.connection AND s.place = p.place
             ORDER BY p.connection, p.at_ns, p.place",
            columns("v_sample", "p", "")?
        ),
    };
    read(&transaction, &query)
}

/// The columns of a view, each with a prefix, without [`LOCAL_COLUMNS`].
fn listed(database: &Database, view: &str, alias: &str, prefix: &str) -> rusqlite::Result<String> {
    let names = column_names(database, view)?;
    let shown = names.iter().filter(|name| !LOCAL_COLUMNS.contains(&name.as_str()));
    Ok(shown.map(|name| format!("{alias}.{name} AS {prefix}{name}")).collect::<Vec<_>>().join(", "))
}

fn fill(database: &Database, report: &Report, samples: &CounterSeries) -> rusqlite::Result<()> {
    let mut known = KnownNames::default();
    let mut insertions = Insertions::new(database, &mut known)?;
    insertions.insert(&run_row(report))?;
    for (connection, id) in report.connections.iter().zip(1..) {
        let key = Key { id, run: 1, runs: 1, seen_at: report.run.to, changed: 0 };
        insertions.write(connection, key, true)?;
        for subflow in &connection.subflows {
            for sample in samples.get(&(connection.id, subflow.id)).into_iter().flatten() {
                insertions.insert(&SampleRow { connection: id, place: subflow.place, sample: *sample })?;
            }
        }
    }
    Ok(())
}

/// The only run. Views of connections show its host and labels.
fn run_row(report: &Report) -> RunRow {
    let run = &report.run;
    RunRow {
        id: 1,
        host: run.host.clone(),
        from: run.from,
        to: run.to,
        counters: report.counters.clone(),
        cut_short: run.cut_short.clone(),
        setup: (*run.setup).clone(),
        ..RunRow::default()
    }
}

fn read(database: &Database, query: &str) -> rusqlite::Result<Sheet> {
    let mut query = database.prepare(query)?;
    let columns: Vec<String> = query.column_names().into_iter().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|nth| Ok(cell(row.get_ref(nth)?))).collect();
    let rows = query.query_map([], row)?.collect::<rusqlite::Result<_>>()?;
    Ok(Sheet { columns, rows })
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;
    use mpwatch_model::flow::series::CounterSample;
    use mpwatch_model::unit::{Bytes, Micros};

    use super::*;

    fn column<'a>(sheet: &'a Sheet, name: &str) -> Vec<&'a Value> {
        let place =
            sheet.columns.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
        sheet.rows.iter().map(|row| &row[place]).collect()
    }

    fn sheet(report: &Report, kind: SheetKind) -> Sheet {
        Sheet::new(report, &CounterSeries::new(), kind).unwrap()
    }

    fn report() -> Report {
        let mut bare = fixture::connection(3, 1);
        bare.subflows.clear();
        fixture::report(vec![fixture::connection(1, 2), fixture::failover(2), bare])
    }

    #[test]
    fn connections_have_the_columns_of_their_view() {
        let sheet = sheet(&report(), SheetKind::Connections);
        assert_eq!(column(&sheet, "subflows"), [2, 3, 0]);
        assert_eq!(column(&sheet, "comm")[0], "iperf3");
        assert_eq!(column(&sheet, "labels")[0], "{\"repetition\":\"3\",\"scheduler\":\"default\"}");
        assert_eq!(column(&sheet, "id")[0], &Value::from(report().connections[0].id.to_string()));
        assert!(!sheet.columns.iter().any(|name| LOCAL_COLUMNS.contains(&name.as_str())));
    }

    #[test]
    fn each_subflow_has_a_row_with_its_connection() {
        let sheet = sheet(&report(), SheetKind::Subflows);
        assert_eq!(sheet.rows.len(), 2 + 3 + 1, "a connection without subflows has a row");
        assert_eq!(column(&sheet, "subflow_place")[..3], [1, 2, 1]);
        assert_eq!(column(&sheet, "subflow_place")[5], &Value::Null);
        assert_eq!(column(&sheet, "subflow_local_ip")[1], "10.0.2.1");
        assert_eq!(column(&sheet, "subflow_srtt_us")[1], 41_600);
        assert_eq!(column(&sheet, "subflow_congestion_control")[0], "cubic");
        assert_eq!(column(&sheet, "subflows")[2], 3);
    }

    #[test]
    fn an_unknown_rate_is_null() {
        let mut report = report();
        let first = &mut report.connections[0];
        first.send = None;
        first.subflows[1].receive = None;
        let unknown = |kind, name| -> Vec<bool> {
            column(&sheet(&report, kind), name).iter().map(|cell| cell.is_null()).collect()
        };
        assert_eq!(unknown(SheetKind::Connections, "send_bps")[..2], [true, false]);
        assert_eq!(unknown(SheetKind::Subflows, "send_bps")[..2], [true, true]);
        let received = unknown(SheetKind::Subflows, "subflow_receive_bps");
        assert_eq!(received, [false, true, false, false, false, true]);
    }

    #[test]
    fn samples_name_their_connection_and_subflow() {
        let report = report();
        let connection = &report.connections[0];
        let sample = |micros, sent| CounterSample {
            at: fixture::at(micros),
            bytes_sent: Bytes(sent),
            bytes_received: Bytes(0),
            bytes_retransmitted: Bytes(0),
            srtt: Some(Micros(20_000)),
            cwnd_segments: 10,
            active: None,
        };
        let second = connection.subflows[1].id;
        let samples = CounterSeries::from([((connection.id, second), vec![sample(0, 5), sample(1_000, 9)])]);
        let sheet = Sheet::new(&report, &samples, SheetKind::Samples).unwrap();
        assert_eq!(sheet.columns[..4], ["id", "subflow_id", "place", "at_ns"]);
        assert_eq!(column(&sheet, "bytes_sent"), [5, 9]);
        assert_eq!(column(&sheet, "subflow_id")[0], &Value::from(second.to_string()));
        assert_eq!(column(&sheet, "active_uj")[0], &Value::Null);
    }

    #[test]
    fn an_empty_report_has_columns_and_no_rows() {
        for kind in [SheetKind::Connections, SheetKind::Subflows, SheetKind::Samples] {
            let sheet = sheet(&fixture::report(Vec::new()), kind);
            assert!(sheet.columns.len() > 5 && sheet.rows.is_empty(), "{kind:?}");
        }
    }
}
