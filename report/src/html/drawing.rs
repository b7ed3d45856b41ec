// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of all drawings, and two small ones: RTTs and energy of each subflow. The tables have all numbers; unknown ones are not drawn.

use std::fmt::Write as _;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::unit::{Microjoules, Micros};

use super::axis::{number, round_step, trimmed};
use super::download;
use super::markup::{escape, figure, svg};

/// Measures of a small drawing, in its own units.
const HALF: f64 = 360.0;
const LEFT: f64 = 120.0;
const ROW: f64 = 26.0;
/// Room for the end of an axis, and for brackets.
const RIGHT: f64 = 20.0;
/// Colours of the style sheet.
const COLOURS: usize = 6;

/// The colour of a subflow by its index.
pub(super) fn colour(index: usize) -> usize {
    index % COLOURS + 1
}

/// Maps values from zero on to horizontal positions.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The value at the right end.
    pub(super) to: f64,
    /// Where zero is.
    pub(super) left: f64,
    /// Width of the drawing.
    pub(super) width: f64,
    /// Maximum number of parts of the axis, so that labels do not overlap.
    pub(super) parts: u32,
}

impl Scale {
    pub(super) fn position(self, value: f64) -> f64 {
        let part = if self.to > 0.0 { value / self.to } else { 0.0 };
        self.left + part.clamp(0.0, 1.0) * (self.width - self.left - RIGHT)
    }

    /// Grid lines at round values, with their labels.
    pub(super) fn axis(self, bottom: f64, show: impl Fn(f64) -> String) -> String {
        let step = round_step(self.to, self.parts);
        let mut text = String::new();
        for nth in 0..=self.parts {
            let value = step * f64::from(nth);
            if nth > 0 && (value > self.to || step <= 0.0) {
                break;
            }
            let x = self.position(value);
            let anchor = match x {
                x if x < RIGHT => "start",
                x if x > self.width - 2.0 * RIGHT => "end",
                _ => "middle",
            };
            let shown = if nth == 0 { "0".to_owned() } else { trimmed(&show(value)) };
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{shown}</text>",
                bottom + 15.0
            );
        }
        text
    }
}

pub(super) fn seconds(value: f64) -> String {
    metric::display(Unit::Seconds, Some(value))
}

/// A subflow's number and interface.
pub(super) fn label(subflow: &Subflow, index: usize) -> String {
    let over = subflow.interface.map(|name| format!(" {}", printable(&name.text())));
    format!("{}{}", index + 1, over.unwrap_or_default())
}

/// The name of a lane, as markup.
pub(super) fn name(subflow: &Subflow, index: usize) -> String {
    escape(&label(subflow, index))
}

/// A value with its bounds.
struct Range {
    low: f64,
    value: f64,
    high: f64,
}

fn ranges(
    connection: &Connection,
    (caption, quantity, columns): (&str, &str, [&str; 3]),
    read: impl Fn(&Subflow) -> Option<Range>,
    show: impl Fn(f64) -> String,
) -> String {
    let known: Vec<(usize, &Subflow, Range)> = connection
        .subflows
        .iter()
        .enumerate()
        .filter_map(|(index, subflow)| Some((index, subflow, read(subflow)?)))
        .collect();
    let highest = known.iter().map(|(_, _, range)| range.high).fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let scale = Scale { to: highest, left: LEFT, width: HALF, parts: 3 };
    let bottom = ROW * known.len() as f64;
    let mut body = scale.axis(bottom, show);
    for (row, (index, subflow, range)) in known.iter().enumerate() {
        let y = ROW * (row as f64 + 0.5);
        let class = colour(*index);
        let [low, value, high] = [range.low, range.value, range.high].map(|value| scale.position(value));
        let _ = writeln!(
            body,
            "<text x=\"0\" y=\"{:.1}\">{}</text>\n\
             <line class=\"l{class}\" stroke-width=\"8\" opacity=\"0.4\" x1=\"{low:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"f{class}\" cx=\"{value:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            y + 4.0,
            name(subflow, *index),
            high.max(low + 1.0)
        );
    }
    let size = (HALF, bottom + 20.0);
    let rows = known.iter().map(|(index, subflow, range)| {
        let values = [range.low, range.value, range.high].map(number);
        std::iter::once(crate::csv::cell(&label(subflow, *index))).chain(values).collect::<Vec<_>>()
    });
    let header = std::iter::once("subflow").chain(columns).map(str::to_owned).collect();
    let data = crate::csv::text(std::iter::once(header).chain(rows)).unwrap_or_default();
    let file = format!("{quantity}-{}", connection.id.short());
    let links = download::links(&file, &download::standalone(size, caption, &body), &data);
    figure("ranges", caption, &format!("{}{links}", svg("", caption, size, &body)))
}

/// The RTTs of each subflow: lowest, median, 99th percentile.
pub(super) fn rtts(connection: &Connection) -> String {
    let range = |subflow: &Subflow| {
        let value = subflow.rtt_p50?.seconds();
        let low = subflow.rtt_min.map_or(value, Micros::seconds).min(value);
        Some(Range { low, value, high: subflow.rtt_p99?.seconds() })
    };
    let caption = "RTT: min, median (dot), 99th percentile";
    ranges(connection, (caption, "rtt", ["min_s", "median_s", "p99_s"]), range, seconds)
}

/// The energy above idle of each subflow, with its bounds.
pub(super) fn energies(connection: &Connection) -> String {
    let Some(source) = connection.energy.map(|energy| energy.source) else { return String::new() };
    let range = |subflow: &Subflow| {
        let energy = subflow.energy?;
        let value = energy.active?.joules();
        let or_value = |bound: Option<Microjoules>| bound.map_or(value, Microjoules::joules);
        Some(Range { low: or_value(energy.lo), value, high: or_value(energy.hi) })
    };
    let kind = if source.is_measured() { "measured" } else { "ESTIMATED" };
    let caption = format!("Energy above idle (dot) and its bounds; {kind} ({})", source.as_str());
    let columns = ["low_joules", "active_joules", "high_joules"];
    ranges(connection, (&caption, "energy", columns), range, |value| {
        metric::display(Unit::Joules, Some(value))
    })
}
