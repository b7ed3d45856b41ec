// SPDX-License-Identifier: MIT OR Apache-2.0
//! Horizontal bars with intervals.

use std::fmt::Write as _;

use super::axis::{Axis, Range, number};
use super::download;
use super::markup::{escape, figure, svg};

const WIDTH: f64 = 400.0;
/// Where bars begin.
const LEFT: f64 = 140.0;
const RIGHT: f64 = 22.0;
const ROW: f64 = 26.0;
const BAR: f64 = 14.0;
/// Half the height of the ends of an interval.
const CAP: f64 = 5.0;

/// Values of several groups.
pub(crate) struct Bars {
    /// Name of the downloaded files, without extension.
    pub(crate) file: String,
    pub(crate) caption: String,
    pub(crate) axis: Axis,
    /// What the groups are, as a column name.
    pub(crate) of: &'static str,
    pub(crate) rows: Vec<Bar>,
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// `None`: unknown.
    pub(crate) interval: Option<(f64, f64)>,
    /// How many connections it is of.
    pub(crate) connections: usize,
}

impl Bars {
    /// The figure with its links for download. Empty: there are no bars.
    pub(crate) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let size = (WIDTH, ROW * self.rows.len() as f64 + 40.0);
        let (body, caption) = (self.body(), escape(&self.caption));
        let links = download::links(&self.file, &download::standalone(size, &body), &self.csv());
        figure("plot", &caption, &format!("{}{links}", svg("", &caption, size, &body)))
    }

    fn body(&self) -> String {
        let highest =
            self.rows.iter().map(|row| row.interval.map_or(row.value, |(_, high)| high.max(row.value)));
        let range = Range::of(self.axis, highest);
        let at = |value: f64| LEFT + range.part(value) * (WIDTH - LEFT - RIGHT);
        let bottom = ROW * self.rows.len() as f64;
        let mut text = String::new();
        for tick in range.ticks(4) {
            let x = at(tick.value);
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{x:.1} 0V{bottom:.1}\"/><text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                tick.label
            );
        }
        for (row, nth) in self.rows.iter().zip(0_u32..) {
            text.push_str(&bar(row, ROW * (f64::from(nth) + 0.5), at));
        }
        let _ = writeln!(
            text,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            bottom + 33.0,
            range.title()
        );
        text
    }

    /// A row for each bar. Empty bounds: unknown.
    fn csv(&self) -> String {
        let bound = |bound: Option<f64>| bound.map(number).unwrap_or_default();
        let header = [self.of, "connections", self.axis.column, "low", "high"].map(str::to_owned).to_vec();
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.interval.unzip();
            let numbers = [row.connections.to_string(), number(row.value), bound(low), bound(high)];
            std::iter::once(crate::csv::cell(&row.name)).chain(numbers).collect()
        });
        crate::csv::text(std::iter::once(header).chain(rows)).unwrap_or_default()
    }
}

fn bar(row: &Bar, y: f64, at: impl Fn(f64) -> f64) -> String {
    let mut text = format!(
        "<text x=\"0\" y=\"{:.1}\">{} <tspan class=\"soft\">({})</tspan></text>\n\
         <rect class=\"f1\" opacity=\"0.55\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>\n",
        y + 4.0,
        escape(&row.name),
        row.connections,
        y - BAR / 2.0,
        (at(row.value) - LEFT).max(1.0)
    );
    if let Some((low, high)) = row.interval {
        let [low, high] = [low, high].map(at);
        let _ = writeln!(
            text,
            "<path class=\"axis\" d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {top:.1}v{length}M{high:.1} {top:.1}v{length}\"/>",
            top = y - CAP,
            length = 2.0 * CAP
        );
    }
    text
}
