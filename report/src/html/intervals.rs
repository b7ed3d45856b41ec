// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relative differences with their intervals, a row each, with a line at zero. Differences whose interval contains
//! zero have hollow dots.

use std::fmt::Write as _;

use super::axis::{number, round_step};
use super::download;
use super::markup::{escape, figure, svg};
use crate::comparison::{Judgement, Row};

const WIDTH: f64 = 400.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 30.0;
const ROW: f64 = 26.0;
/// Room below the rows.
const BOTTOM: f64 = 40.0;
/// Larger differences are drawn at the edge.
const MAX_DIFFERENCE: f64 = 3.0;

/// The differences of some rows. Empty: none is relative and has an interval.
pub(super) fn intervals(file: &str, caption: &str, rows: &[Row]) -> String {
    let known: Vec<(&Row, [f64; 3])> = rows.iter().filter_map(|row| Some((row, ends(row)?))).collect();
    if known.is_empty() {
        return String::new();
    }
    let size = (WIDTH, ROW * known.len() as f64 + BOTTOM);
    let body = body(&known);
    let caption = escape(caption);
    let links = download::links(file, &download::standalone(size, &caption, &body), &csv(&known));
    figure("plot", &caption, &format!("{}{links}", svg("", &caption, size, &body)))
}

/// Lower end, estimate and upper end of a relative difference.
fn ends(row: &Row) -> Option<[f64; 3]> {
    let shift = row.difference.filter(|difference| difference.relative)?.shift;
    Some([shift.low, shift.estimate, shift.high])
}

fn csv(rows: &[(&Row, [f64; 3])]) -> String {
    let header = ["class", "quantity", "low", "estimate", "high"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|(row, ends)| {
        let names = [row.class.as_str(), row.quantity.name].map(str::to_owned);
        names.into_iter().chain(ends.map(number)).collect()
    });
    crate::csv::text(std::iter::once(header).chain(cells)).unwrap_or_default()
}

fn body(rows: &[(&Row, [f64; 3])]) -> String {
    let ends = || rows.iter().flat_map(|(_, ends)| ends).map(|end| end.min(MAX_DIFFERENCE));
    let (low, high) = (ends().fold(-0.05, f64::min), ends().fold(0.05, f64::max));
    let at = |value: f64| LEFT + ((value - low) / (high - low)).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    let bottom = ROW * rows.len() as f64;
    let mut text = axis(low, high, bottom, at);
    for ((row, [low, estimate, high]), nth) in rows.iter().zip(0_u32..) {
        let y = ROW * (f64::from(nth) + 0.5);
        let class = match row.judgement() {
            Judgement::Better => "better",
            Judgement::Worse => "worse",
            Judgement::Undecided => "undecided",
        };
        let _ = writeln!(
            text,
            "<text x=\"0\" y=\"{:.1}\">{}</text><path class=\"axis\" d=\"M{:.1} {y:.1}H{:.1}\"/>\
             <circle class=\"{class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            y + 4.0,
            escape(row.quantity.name),
            at(*low),
            at(*high),
            at(*estimate)
        );
    }
    text
}

fn axis(low: f64, high: f64, bottom: f64, at: impl Fn(f64) -> f64) -> String {
    let step = round_step(high - low, 4);
    let mut text = String::new();
    let mut value = (low / step).ceil() * step;
    while value <= high {
        let x = at(value);
        // A rounding error must not become "-0 %".
        let percent = (value * 100.0).round() + 0.0;
        let sign = if percent > 0.0 { "+" } else { "" };
        let class = if percent == 0.0 { "axis" } else { "grid" };
        let _ = writeln!(
            text,
            "<path class=\"{class}\" d=\"M{x:.1} 0V{bottom:.1}\"/><text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sign}{percent} %</text>",
            bottom + 15.0
        );
        value += step;
    }
    let _ = writeln!(
        text,
        "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">difference of B from A</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        bottom + 33.0
    );
    text
}
