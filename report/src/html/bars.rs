// SPDX-License-Identifier: MIT OR Apache-2.0
//! Horizontal bars with intervals, and with published values if there are any.

use std::fmt::Write as _;

use super::axis::{Axis, Horizontal, Scale, ends, number};
use super::drawing;
use super::markup::{escape, text};

const WIDTH: f64 = 400.0;
/// Bounds of the position at which bars begin. It depends on the length of the names.
const MIN_LEFT: f64 = 140.0;
const MAX_LEFT: f64 = 250.0;
/// Estimated width of a letter.
const LETTER: f64 = 6.8;
const RIGHT: f64 = 22.0;
const ROW: f64 = 26.0;
const BAR: f64 = 14.0;
/// Maximum number of parts of the axis. A logarithmic axis has fewer, because its labels include the unit.
const PARTS: u32 = 4;
const LOG_PARTS: u32 = 3;
const MARK: f64 = 20.0;

/// Values of several groups.
pub struct Bars<'a> {
    /// Name of the downloaded files, without extension.
    pub file: String,
    /// Text above the drawing.
    pub caption: String,
    /// The axis of the values.
    pub axis: Axis<'a>,
    /// Name of the CSV column that holds the names of the groups.
    pub groups_are: &'a str,
    /// Name of the CSV column of the counts, which the drawing shows in brackets.
    pub counted: &'static str,
    /// The bars, from top to bottom.
    pub rows: Vec<Bar>,
}

/// One bar.
pub struct Bar {
    /// The group.
    pub name: String,
    /// Length of the bar, in the unit of the axis.
    pub value: f64,
    /// Interval of the value, in the unit of the axis. `None`: unknown.
    pub interval: Option<(f64, f64)>,
    /// Number of runs or connections in the group.
    pub count: usize,
    /// A published value. `None`: there is none.
    pub published: Option<f64>,
}

impl Bars<'_> {
    /// The figure with its links for download. Empty: there are no bars.
    pub fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let size = (WIDTH, ROW * self.rows.len() as f64 + 40.0);
        drawing::plot(&self.file, &self.caption, (size, self.body()), &self.csv())
    }

    fn body(&self) -> String {
        let values = |row: &Bar| ends(row.value, row.interval).into_iter().chain(row.published);
        let scale = Scale::from_values(self.axis, self.rows.iter().flat_map(values)).up_to_label(PARTS);
        let (left, right, bottom) = (self.left(), WIDTH - RIGHT, ROW * self.rows.len() as f64);
        let axis = Horizontal { scale, left, right };
        let mut body = axis.grid(if self.axis.log { LOG_PARTS } else { PARTS }, (0.0, bottom));
        let _ = writeln!(body, "<path class=\"axis\" d=\"M{left:.1} 0V{bottom:.1}H{right:.1}\"/>");
        for (row, nth) in self.rows.iter().zip(0_u32..) {
            let (x, y) = (axis.at(row.value), ROW * (f64::from(nth) + 0.5));
            let name = format!("{} <tspan class=\"soft\">({})</tspan>", escape(&row.name), row.count);
            body.push_str(&text("", (0.0, y + 4.0), &name));
            // A logarithmic axis has no zero, so bars would have no beginning.
            let _ = if self.axis.log {
                writeln!(body, "<circle class=\"f1\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>")
            } else {
                let (top, width) = (y - BAR / 2.0, (x - left).max(1.0));
                writeln!(
                    body,
                    "<rect class=\"f1\" opacity=\"0.55\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
                )
            };
            if let Some(interval) = row.interval {
                let path = scale.interval(interval, |value| axis.at(value), y, false);
                let _ = writeln!(body, "<path class=\"axis\" d=\"{path}\"/>");
            }
            if let Some(x) = row.published.map(|value| axis.at(value)) {
                let _ =
                    writeln!(body, "<path class=\"published\" d=\"M{x:.1} {:.1}v{MARK}\"/>", y - MARK / 2.0);
            }
        }
        body
    }

    /// Position at which bars begin, so that names fit to its left unless they are very long.
    fn left(&self) -> f64 {
        let letters = |row: &Bar| row.name.chars().count() + row.count.to_string().len() + 4;
        (self.rows.iter().map(letters).max().unwrap_or(0) as f64 * LETTER).clamp(MIN_LEFT, MAX_LEFT)
    }

    /// A row for each bar. Empty bounds: unknown.
    fn csv(&self) -> String {
        let bound = |bound: Option<f64>| bound.map(number).unwrap_or_default();
        let mut header = vec![self.groups_are, self.counted, self.axis.column, "low", "high"];
        let has_published = self.rows.iter().any(|row| row.published.is_some());
        header.extend(has_published.then_some("published"));
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.interval.unzip();
            let numbers = [row.count.to_string(), number(row.value), bound(low), bound(high)];
            let published = has_published.then(|| bound(row.published));
            std::iter::once(crate::csv::cell(&row.name)).chain(numbers).chain(published)
        });
        crate::csv::text(&header, rows).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::metric::Unit;

    use super::*;

    fn bars(name: &str, published: Option<f64>) -> Bars<'static> {
        let bar = Bar { name: name.to_owned(), value: 1.0, interval: None, count: 3, published };
        Bars {
            file: String::new(),
            caption: String::new(),
            axis: Axis { title: "power", unit: Unit::Watts, column: "power_w", log: false },
            groups_are: "cell",
            counted: "runs",
            rows: vec![bar],
        }
    }

    #[test]
    fn a_published_value_is_on_the_axis_and_in_the_table() {
        let with = bars("cubic", Some(4.0));
        assert!(
            with.csv().starts_with("cell,runs,power_w,low,high,published\r\ncubic,3,1,,,4"),
            "{}",
            with.csv()
        );
        assert!(with.html().contains("class=\"published"));
        assert!(!bars("cubic", None).csv().contains("published"));
    }

    #[test]
    fn a_logarithmic_axis_has_dots_and_no_bars() {
        let log = |log| {
            let mut bars = bars("cubic", None);
            bars.axis.log = log;
            let html = bars.html();
            (html.contains("<circle"), html.contains("<rect class=\"f1\""))
        };
        assert_eq!([log(false), log(true)], [(false, true), (true, false)]);
    }

    #[test]
    fn bars_begin_behind_the_longest_name() {
        assert!((bars("tcp", None).left() - MIN_LEFT).abs() < 1e-9);
        assert!(bars("cubic, long, elimination off", None).left() > MIN_LEFT);
    }
}
