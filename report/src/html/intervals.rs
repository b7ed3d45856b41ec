// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values with their bounds: RTTs and energy of each subflow, and relative differences with their confidence intervals. Unknown values are
//! not drawn.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::Unit;
use mpwatch_model::unit::{Microjoules, Micros};

use super::axis::{Axis, Scale};
use super::drawing::{Dot, colour, dots};
use crate::comparison::Row;

/// Larger differences are drawn at the edge.
const MAX_DIFFERENCE: f64 = 3.0;
/// Minimum scale of the axis of differences, in both directions.
const MIN_DIFFERENCE: f64 = 0.05;

/// The relative differences of some rows. A dot is hollow if its interval contains zero. Empty: no row has an interval.
pub(super) fn differences(file: &str, caption: &str, rows: &[Row]) -> String {
    let dot = |row: &Row| {
        let shift = row.difference.filter(|difference| difference.relative)?.shift;
        Some(Dot {
            name: row.quantity.name.to_owned(),
            cells: [row.class.as_str(), row.quantity.name].map(str::to_owned).to_vec(),
            ends: [shift.low, shift.estimate, shift.high],
            line: "class=\"axis\"".to_owned(),
            class: row.judgement().as_str().to_owned(),
        })
    };
    let known: Vec<Dot> = rows.iter().filter_map(dot).collect();
    let axis = Axis { title: "difference of B from A", unit: Unit::Ratio, column: "", log: false };
    let ends = known.iter().flat_map(|dot| dot.ends).map(|end| end.min(MAX_DIFFERENCE));
    let scale = Scale::from_values(axis, ends.chain([-MIN_DIFFERENCE, MIN_DIFFERENCE]));
    dots(file, caption, scale, &["class", "quantity", "low", "estimate", "high"], &known)
}

pub(super) fn label(subflow: &Subflow, index: usize) -> String {
    let over = subflow.interface.map(|name| format!(" {}", printable(&name.text())));
    format!("{}{}", index + 1, over.unwrap_or_default())
}

/// The RTTs of each subflow: minimum, median, 99th percentile.
pub(super) fn rtts(connection: &Connection) -> String {
    let ends = |subflow: &Subflow| {
        let value = subflow.rtt_p50?.seconds();
        let low = subflow.rtt_min.map_or(value, Micros::seconds).min(value);
        Some([low, value, subflow.rtt_p99?.seconds()])
    };
    let columns = ["subflow", "min_s", "median_s", "p99_s"];
    by_subflow(connection, ("rtt", Unit::Seconds), "RTT: min, median (dot), 99th percentile", columns, ends)
}

/// The energy above idle of each subflow, with its bounds.
pub(super) fn energies(connection: &Connection) -> String {
    let Some(source) = connection.energy.map(|energy| energy.source) else { return String::new() };
    let ends = |subflow: &Subflow| {
        let energy = subflow.energy?;
        let value = energy.active?.joules();
        let [low, high] = [energy.lo, energy.hi].map(|bound| bound.map_or(value, Microjoules::joules));
        Some([low, value, high])
    };
    let kind = if source.is_measured() { "measured" } else { "ESTIMATED" };
    let caption = format!("Energy above idle (dot) and its bounds; {kind} ({})", source.as_str());
    let columns = ["subflow", "low_joules", "active_joules", "high_joules"];
    by_subflow(connection, ("energy", Unit::Joules), &caption, columns, ends)
}

/// A dot for each subflow with a known value. Empty: all values are zero or unknown.
fn by_subflow(
    connection: &Connection,
    (name, unit): (&str, Unit),
    caption: &str,
    columns: [&str; 4],
    ends: impl Fn(&Subflow) -> Option<[f64; 3]>,
) -> String {
    let dot = |(index, subflow): (usize, &Subflow)| {
        let (ends, name) = (ends(subflow)?, label(subflow, index));
        Some(Dot {
            cells: vec![crate::csv::cell(&name)],
            name,
            ends,
            line: format!("class=\"l{}\" stroke-width=\"8\" opacity=\"0.4\"", colour(index)),
            class: format!("f{}", colour(index)),
        })
    };
    let known: Vec<Dot> = connection.subflows.iter().enumerate().filter_map(dot).collect();
    if known.iter().all(|dot| dot.ends[2] <= 0.0) {
        return String::new();
    }
    let axis = Axis { title: "", unit, column: "", log: false };
    let scale = Scale::from_values(axis, known.iter().flat_map(|dot| dot.ends));
    dots(&format!("{name}-{}", connection.id.short()), caption, scale, &columns, &known)
}
