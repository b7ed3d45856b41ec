// SPDX-License-Identifier: MIT OR Apache-2.0
//! Horizontal bars with intervals, and possibly values to compare them with.

use std::fmt::Write as _;

use super::axis::{Axis, Range, ends, number};
use super::download;
use super::markup::{escape, figure, svg};

const WIDTH: f64 = 400.0;
/// Where bars begin at least; more if names are long.
const LEFT: f64 = 140.0;
/// Where they begin at most.
const MAX_LEFT: f64 = 250.0;
/// Estimated width of a letter.
const LETTER: f64 = 6.8;
const RIGHT: f64 = 22.0;
const ROW: f64 = 26.0;
const BAR: f64 = 14.0;
/// Into how many parts labels divide the axis at most; fewer if it is logarithmic, as each label has its unit then.
const PARTS: u32 = 4;
const LOG_PARTS: u32 = 3;
/// Radius of the dot that is drawn instead of a bar on a logarithmic axis.
const DOT: f64 = 4.0;
/// Half the height of the ends of an interval.
const CAP: f64 = 5.0;
/// Half the width of the arrow of an interval that goes on outside.
const ARROW: f64 = 3.0;
/// Half the height of the mark of a published value.
const MARK: f64 = 10.0;

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
    /// From top to bottom.
    pub rows: Vec<Bar>,
}

/// One bar.
pub struct Bar {
    /// The group.
    pub name: String,
    /// Length of the bar, in the unit of the axis.
    pub value: f64,
    /// `None`: unknown.
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
        let (body, caption) = (self.body(), escape(&self.caption));
        let links = download::links(&self.file, &download::standalone(size, &caption, &body), &self.csv());
        figure("plot", &caption, &format!("{}{links}", svg("", &caption, size, &body)))
    }

    fn body(&self) -> String {
        let values = |row: &Bar| ends(row.value, row.interval).into_iter().chain(row.published);
        let range = Range::from_values(self.axis, self.rows.iter().flat_map(values)).up_to_label(PARTS);
        let left = self.left();
        let at = |value: f64| left + range.part(value) * (WIDTH - left - RIGHT);
        let bottom = ROW * self.rows.len() as f64;
        let mut text = String::new();
        let parts = if self.axis.log { LOG_PARTS } else { PARTS };
        for tick in range.ticks(parts) {
            let x = at(tick.value);
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{x:.1} 0V{bottom:.1}\"/><text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                tick.label
            );
        }
        let _ = writeln!(text, "<path class=\"axis\" d=\"M{left:.1} 0V{bottom:.1}H{:.1}\"/>", WIDTH - RIGHT);
        for (row, nth) in self.rows.iter().zip(0_u32..) {
            let y = ROW * (f64::from(nth) + 0.5);
            text.push_str(&name(row, y));
            // A logarithmic axis has no zero from which a bar could begin.
            text.push_str(&if self.axis.log { dot(at(row.value), y) } else { bar(left, at(row.value), y) });
            text.push_str(&marks(row, y, &range, at));
        }
        let _ = writeln!(
            text,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, WIDTH - RIGHT),
            bottom + 33.0,
            range.title()
        );
        text
    }

    /// Where bars begin: the names fit before them.
    fn left(&self) -> f64 {
        let letters = |row: &Bar| row.name.chars().count() + row.count.to_string().len() + 4;
        let longest = self.rows.iter().map(letters).max().unwrap_or(0);
        (longest as f64 * LETTER).clamp(LEFT, MAX_LEFT)
    }

    /// A row for each bar. Empty bounds: unknown.
    fn csv(&self) -> String {
        let bound = |bound: Option<f64>| bound.map(number).unwrap_or_default();
        let mut header = vec![self.groups_are, self.counted, self.axis.column, "low", "high"];
        let has_published = self.rows.iter().any(|row| row.published.is_some());
        header.extend(has_published.then_some("published"));
        let header = header.into_iter().map(str::to_owned).collect();
        let rows = self.rows.iter().map(|row| {
            let (low, high) = row.interval.unzip();
            let numbers = [row.count.to_string(), number(row.value), bound(low), bound(high)];
            let published = has_published.then(|| bound(row.published));
            std::iter::once(crate::csv::cell(&row.name)).chain(numbers).chain(published).collect()
        });
        crate::csv::text(std::iter::once(header).chain(rows)).unwrap_or_default()
    }
}

fn name(row: &Bar, y: f64) -> String {
    let (name, count) = (escape(&row.name), row.count);
    format!("<text x=\"0\" y=\"{:.1}\">{name} <tspan class=\"soft\">({count})</tspan></text>\n", y + 4.0)
}

fn bar(left: f64, right: f64, y: f64) -> String {
    let (top, width) = (y - BAR / 2.0, (right - left).max(1.0));
    format!(
        "<rect class=\"f1\" opacity=\"0.55\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>\n"
    )
}

fn dot(x: f64, y: f64) -> String {
    format!("<circle class=\"f1\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\"/>\n")
}

/// The interval, and the published value.
fn marks(row: &Bar, y: f64, range: &Range<'_>, at: impl Fn(f64) -> f64) -> String {
    let mut text = String::new();
    if let Some((low, high)) = row.interval {
        // The end of an interval is a bar, or an arrow if it is outside.
        let end = |value: f64, x: f64, inside: f64| {
            if range.shows(value) {
                return format!("M{x:.1} {:.1}v{}", y - CAP, 2.0 * CAP);
            }
            let back = x + inside * CAP;
            format!("M{back:.1} {:.1}L{x:.1} {y:.1}L{back:.1} {:.1}", y - ARROW, y + ARROW)
        };
        let [left, right] = [low, high].map(&at);
        let ends = [end(low, left, 1.0), end(high, right, -1.0)].concat();
        let _ = writeln!(text, "<path class=\"axis\" d=\"M{left:.1} {y:.1}H{right:.1}{ends}\"/>");
    }
    if let Some(published) = row.published.map(&at) {
        let _ = writeln!(
            text,
            "<path class=\"published\" d=\"M{published:.1} {:.1}v{}\"/>",
            y - MARK,
            2.0 * MARK
        );
    }
    text
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
        assert!((bars("tcp", None).left() - LEFT).abs() < 1e-9);
        assert!(bars("cubic, long, elimination off", None).left() > LEFT);
    }
}
