// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all drawings of a connection are made of, and two of them: the RTTs and the energy. Every drawing has its numbers in the
//! tables beside it; unknown values are left out.

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Microjoules, Micros};

use super::escape;

/// Measures of a small drawing, in its own units.
const HALF: f64 = 360.0;
const LEFT: f64 = 120.0;
const ROW: f64 = 26.0;
/// Room for the end of an axis, and for brackets.
const RIGHT: f64 = 20.0;
/// Colours in the style sheet.
const COLOURS: usize = 6;

pub(super) fn colour(place: usize) -> usize {
    place % COLOURS + 1
}

/// From a value, zero or more, to a place.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// The value at the right end.
    pub(super) to: f64,
    /// Where zero is.
    pub(super) left: f64,
    /// Of the whole drawing.
    pub(super) width: f64,
    /// Into how many parts lines divide it at most: more labels than fit would run into each other.
    pub(super) parts: u32,
}

impl Scale {
    pub(super) fn place(self, value: f64) -> f64 {
        let part = if self.to > 0.0 { value / self.to } else { 0.0 };
        self.left + part.clamp(0.0, 1.0) * (self.width - self.left - RIGHT)
    }

    /// Lines at round values, with these.
    pub(super) fn axis(self, bottom: f64, show: impl Fn(f64) -> String) -> String {
        let step = self.step();
        let mut text = String::new();
        for nth in 0..=self.parts {
            let value = step * f64::from(nth);
            if nth > 0 && (value > self.to || step <= 0.0) {
                break;
            }
            let x = self.place(value);
            let anchor = match x {
                x if x < RIGHT => "start",
                x if x > self.width - 2.0 * RIGHT => "end",
                _ => "middle",
            };
            let shown = if nth == 0 { "0".to_owned() } else { show(value) };
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{shown}</text>",
                bottom + 15.0
            );
        }
        text
    }

    /// From one line to the next: 1, 2 or 5 of some power of ten. Zero: there is nothing to divide.
    fn step(self) -> f64 {
        let least = self.to / f64::from(self.parts);
        if least <= 0.0 || !least.is_finite() {
            return 0.0;
        }
        let power = 10_f64.powf(least.log10().floor());
        [1.0, 2.0, 5.0].into_iter().map(|one| one * power).find(|step| *step >= least).unwrap_or(10.0 * power)
    }
}

pub(super) fn seconds(value: f64) -> String {
    metric::display(Unit::Seconds, Some(value))
}

/// A drawing of this width and height. `class`: for which screens.
pub(super) fn svg(class: &str, caption: &str, size: (f64, f64), body: &str) -> String {
    let (width, height) = size;
    format!(
        "<svg{class} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{caption}\">\n{body}</svg>"
    )
}

pub(super) fn figure(class: &str, caption: &str, drawings: &str) -> String {
    format!("<figure class=\"{class}\"><figcaption>{caption}</figcaption>{drawings}</figure>\n")
}

/// The name of a lane: place and interface.
pub(super) fn name(subflow: &Subflow, place: usize) -> String {
    let over = subflow.interface.map(|name| {
        let name = name.text();
        format!(" {}", mpwatch_model::endpoint::printable(&name))
    });
    escape(&format!("{}{}", place + 1, over.unwrap_or_default()))
}

/// What a bar shows: from the least to the most, and the value in between.
struct Range {
    low: f64,
    value: f64,
    high: f64,
}

fn ranges(
    connection: &Connection,
    caption: &str,
    read: impl Fn(&Subflow) -> Option<Range>,
    show: impl Fn(f64) -> String,
) -> String {
    let known: Vec<(usize, &Subflow, Range)> = connection
        .subflows
        .iter()
        .enumerate()
        .filter_map(|(place, subflow)| Some((place, subflow, read(subflow)?)))
        .collect();
    let highest = known.iter().map(|(_, _, range)| range.high).fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let scale = Scale { to: highest, left: LEFT, width: HALF, parts: 3 };
    let bottom = ROW * known.len() as f64;
    let mut body = scale.axis(bottom, show);
    for (row, (place, subflow, range)) in known.iter().enumerate() {
        let y = ROW * (row as f64 + 0.5);
        let class = colour(*place);
        let [low, value, high] = [range.low, range.value, range.high].map(|value| scale.place(value));
        let _ = writeln!(
            body,
            "<text x=\"0\" y=\"{:.1}\">{}</text>\n\
             <line class=\"l{class}\" stroke-width=\"8\" opacity=\"0.4\" x1=\"{low:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"f{class}\" cx=\"{value:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            y + 4.0,
            name(subflow, *place),
            high.max(low + 1.0)
        );
    }
    figure("ranges", caption, &svg("", caption, (HALF, bottom + 20.0), &body))
}

/// Of each subflow the RTTs from the lowest to the 99th percentile, and the median.
pub(super) fn rtts(connection: &Connection) -> String {
    let seconds_of = |time: Micros| time.0 as f64 / 1e6;
    let range = |subflow: &Subflow| {
        let value = seconds_of(subflow.rtt_p50?);
        let low = subflow.rtt_min.map_or(value, seconds_of).min(value);
        Some(Range { low, value, high: seconds_of(subflow.rtt_p99?) })
    };
    ranges(connection, "RTT: lowest, median (dot), 99th percentile", range, seconds)
}

/// Of each subflow the energy above idle, and between what it lies.
pub(super) fn energies(connection: &Connection) -> String {
    let Some(source) = connection.energy.map(|energy| energy.source) else { return String::new() };
    let range = |subflow: &Subflow| {
        let energy = subflow.energy?;
        let value = energy.active?.joules();
        let or_value = |bound: Option<Microjoules>| bound.map_or(value, Microjoules::joules);
        Some(Range { low: or_value(energy.lo), value, high: or_value(energy.hi) })
    };
    let kind = if source.is_measured() { "measured" } else { "ESTIMATED" };
    let caption =
        format!("Energy above idle (dot), and between what it may lie; {kind} ({})", source.as_str());
    ranges(connection, &caption, range, |value| metric::display(Unit::Joules, Some(value)))
}
