// SPDX-License-Identifier: MIT OR Apache-2.0
//! A drawing with its caption and the links that save it. Plots of values with bounds: each value is a dot in its own row.

use std::fmt::Write as _;

use super::axis::{Horizontal, Scale, number};
use super::download;
use super::markup::{escape, text};

const WIDTH: f64 = 400.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 30.0;
const ROW: f64 = 26.0;
const PARTS: u32 = 4;
/// Number of colours in the style sheet.
const COLOURS: usize = 6;

pub(super) fn colour(index: usize) -> usize {
    index % COLOURS + 1
}

/// A drawing as SVG. `class`: an attribute that selects the window widths that show it.
pub(super) fn svg(class: &str, caption: &str, (width, height): (f64, f64), body: &str) -> String {
    format!(
        "<svg{class} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{caption}\">\n{body}</svg>"
    )
}

pub(super) fn figure(class: &str, caption: &str, drawings: &str) -> String {
    format!("<figure class=\"{class}\"><figcaption>{caption}</figcaption>{drawings}</figure>\n")
}

/// A drawing below its caption, with links that save it and its data under the name `file`.
pub(super) fn plot(file: &str, caption: &str, (size, body): ((f64, f64), String), csv: &str) -> String {
    let caption = escape(caption);
    let links = download::links(file, &download::standalone(size, &caption, &body), Some(csv));
    figure("plot", &caption, &format!("{}{links}", svg("", &caption, size, &body)))
}

/// A value with its bounds.
pub(super) struct Dot {
    pub(super) name: String,
    /// The first cells of its row in the CSV.
    pub(super) cells: Vec<String>,
    /// Lower bound, value, upper bound.
    pub(super) ends: [f64; 3],
    /// Attributes of the line between the bounds.
    pub(super) line: String,
    /// CSS class of the dot.
    pub(super) class: String,
}

/// Values with their bounds on one axis, as a figure. Empty: there are none. `columns`: the header of the CSV.
pub(super) fn dots(file: &str, caption: &str, scale: Scale<'_>, columns: &[&str], dots: &[Dot]) -> String {
    if dots.is_empty() {
        return String::new();
    }
    let axis = Horizontal { scale, left: LEFT, right: WIDTH - RIGHT };
    let bottom = ROW * dots.len() as f64;
    let zero = axis.at(0.0);
    let mut body = axis.grid(PARTS, (0.0, bottom));
    let _ = writeln!(body, "<path class=\"axis\" d=\"M{zero:.1} 0V{bottom:.1}\"/>");
    for (row, dot) in dots.iter().enumerate() {
        let y = ROW * (row as f64 + 0.5);
        let [low, value, high] = dot.ends.map(|end| axis.at(end));
        let _ = writeln!(
            body,
            "{}<path {} d=\"M{low:.1} {y:.1}H{:.1}\"/><circle class=\"{}\" cx=\"{value:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            text("", (0.0, y + 4.0), &escape(&dot.name)),
            dot.line,
            high.max(low + 1.0),
            dot.class
        );
    }
    let rows = dots.iter().map(|dot| dot.cells.iter().cloned().chain(dot.ends.map(number)));
    let csv = crate::csv::text(columns, rows).unwrap_or_default();
    plot(file, caption, ((WIDTH, bottom + 40.0), body), &csv)
}
