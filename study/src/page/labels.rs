// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of cells and factors in the plots of a study, and the axes of plots.

use mpwatch_model::metric::Unit;
use mpwatch_report::html::axis::Axis;

use crate::data::{CellResults, ExperimentResults, Factor, key};

/// Maximum ratio of two values on a linear axis; with a larger ratio, the smaller value would be invisible.
const MAX_LINEAR_RATIO: f64 = 10.0;

/// The values of the factors that vary among the cells. If no factor varies, the names and values of all factors.
pub(super) fn cell_name(experiment: &ExperimentResults, cell: &CellResults) -> String {
    let name = bar_name(experiment, cell, "");
    if name.is_empty() { key(&cell.factors) } else { name }
}

/// The values of the factors that vary, beginning with the factor `over`. Numbers and short values have the name of the factor or a unit.
pub(super) fn bar_name(experiment: &ExperimentResults, cell: &CellResults, over: &str) -> String {
    let varies = |factor: &&Factor| experiment.values_of(&factor.name).len() > 1;
    let (first, others): (Vec<_>, Vec<_>) =
        cell.factors.iter().filter(varies).partition(|factor| factor.name == over);
    let words = first.into_iter().chain(others).map(|factor| {
        let value = &factor.value;
        let is_clear = value.len() > 3 && value.parse::<f64>().is_err();
        if is_clear { value.clone() } else { with_unit(factor) }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// An axis for these values and intervals. It is logarithmic if the smallest value would be invisible on a linear axis.
pub(super) fn value_axis<'a>(
    title: &'a str,
    unit: Unit,
    column: &'a str,
    values: impl Iterator<Item = (f64, Option<(f64, f64)>)>,
) -> Axis<'a> {
    let ends = values.map(|(value, interval)| (value, interval.map_or(value, |(_, high)| high)));
    let (smallest, largest) = ends.fold((f64::INFINITY, 0.0_f64), |(smallest, largest), (value, end)| {
        (smallest.min(value), largest.max(end))
    });
    let log = smallest > 0.0 && largest > smallest * MAX_LINEAR_RATIO;
    Axis { title, unit, column, log }
}

/// The value of a factor with its unit or with the name of the factor, unless the value is clear without them.
pub(super) fn with_unit(Factor { name, value }: &Factor) -> String {
    match name.as_str() {
        "rate" => format!("{value} Mbit/s"),
        "rtt_ms" => format!("RTT {value} ms"),
        "transport" | "topology" | "traffic" | "method" | "congestion" => value.clone(),
        _ => format!("{name} {value}"),
    }
}

/// The title of a factor on an axis.
pub(super) fn factor_title(name: &str) -> &str {
    match name {
        "rtt_ms" => "RTT (ms)",
        "rate" => "rate (Mbit/s)",
        "background" => "background flows",
        "paths" => "number of paths",
        "subflows" => "number of subflows",
        _ => name,
    }
}

/// The unit of a factor.
pub(super) fn unit_of(factor: &str) -> Unit {
    if factor == "bytes" { Unit::Bytes } else { Unit::Count }
}
