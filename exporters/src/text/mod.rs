// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain text for people. Lines are made to fit 100 columns where addresses are short; no colours, so that a report
//! can be kept and compared.

mod bottleneck;
mod classes;
mod connection;
mod cost;
mod fairness;
mod grid;
mod list;
mod report;
mod timeline;
mod verdict;

/// What the other forms of a report are made of too.
pub(crate) mod told {
    pub(crate) use super::capital;
    pub(crate) use super::connection::{facts as facts_of, heading, tables};
    pub(crate) use super::grid::{Grid, Side};
    pub(crate) use super::report::{ALL_WELL, facts, overviews, rest, selection};
    pub(crate) use super::timeline::{Line, lines, since};
    pub(crate) use super::verdict::{anomalies, anomalies_of, verdict};
}

pub use connection::connection;
pub use list::list;
pub use report::report;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::id::SubflowId;
use mpwatch_model::metric::{self, HasEnergy, Metric, Unit};

/// A metric of the table as people read it. A name that the table does not have shows itself; a test finds those.
fn shown<T: HasEnergy>(table: &'static [Metric<T>], name: &str, subject: &T) -> String {
    metric::find(table, name).map_or_else(|| format!("?{name}?"), |metric| metric.display(subject))
}

fn seconds(micros: u64) -> String {
    metric::display(Unit::Seconds, Some(micros as f64 / 1e6))
}

fn bytes(count: u64) -> String {
    metric::display(Unit::Bytes, Some(count as f64))
}

/// How a subflow is called: its place, or its id where it is not among the connection's subflows any more.
fn place(connection: &Connection, subflow: SubflowId) -> String {
    connection.subflow_number(subflow).map_or_else(|| subflow.to_string(), |place| place.to_string())
}

fn process(connection: &Connection) -> String {
    connection.process.map_or_else(|| "-".to_owned(), |p| format!("{}/{}", printable(&p.comm.text()), p.pid))
}

/// With a capital letter: what begins a line.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A number of things, in English.
fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
