// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plot with axes, units and a legend. Curves differ in colour and in dashes, so that they differ in print too.

use std::fmt::Write as _;

use super::axis::{Axis, Horizontal, Scale, ends, number};
use super::drawing;
use super::marker::CurveStyle;
use super::markup::{MIDDLE, escape, text};

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 150.0;
/// Minimum space to the left of the curves; more if labels are long.
const LEFT: f64 = 52.0;
/// Space for the title of the vertical axis to the left of its labels.
const Y_TITLE: f64 = 28.0;
const RIGHT: f64 = 18.0;
/// Space above the curves for half of a label.
const TOP: f64 = 8.0;
/// Space below the curves for labels and title.
const BOTTOM: f64 = 40.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 18.0;
/// Length of the line next to a name in the legend.
const SAMPLE: f64 = 28.0;
/// Estimated width of a letter.
const LETTER: f64 = 6.8;
/// Maximum number of parts of the axes.
const X_PARTS: u32 = 6;
const Y_PARTS: u32 = 5;
/// Distance between the intervals of two curves with the same x, so that both are visible.
const DODGE: f64 = 4.0;
/// Maximum length of the title of the vertical axis; a longer title is condensed.
const MAX_Y_TITLE: f64 = HEIGHT + TOP + BOTTOM - 14.0;
/// Curves over a horizontal axis.
pub struct Plot<'a> {
    /// Name of the downloaded files, without extension.
    pub file: String,
    /// Text above the drawing.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// Name of the CSV column that holds the names of the curves.
    pub curves_are: &'static str,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Minimum end of the horizontal axis, so that neighbouring plots have the same axis.
    pub x_to: f64,
}

/// A curve with its points in the order of the horizontal axis.
#[derive(Default)]
pub struct Curve {
    /// Its entry in the legend.
    pub name: String,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
    /// Whether each value holds until the next point.
    pub steps: bool,
    /// The interval of each point. Empty: no point has an interval.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// Whether a paper reports the curve.
    pub paper: bool,
}

impl Curve {
    /// Its points with their intervals.
    pub fn with_intervals(&self) -> impl Iterator<Item = ((f64, f64), Option<(f64, f64)>)> + Clone {
        let intervals = self.intervals.iter().copied().chain(std::iter::repeat(None));
        self.points.iter().copied().zip(intervals)
    }
}

impl Plot<'_> {
    /// The figure with its links for download. Empty: no curve has points.
    pub fn html(&self) -> String {
        if self.curves.iter().all(|curve| curve.points.is_empty()) {
            return String::new();
        }
        drawing::plot(&self.file, &self.caption, self.drawing(), &self.csv())
    }

    /// A row for each point.
    pub fn csv(&self) -> String {
        let has_intervals = self.curves.iter().any(|curve| !curve.intervals.is_empty());
        let columns = if has_intervals { 5 } else { 3 };
        let header = [self.curves_are, self.x.column, self.y.column, "low", "high"];
        let rows = self.curves.iter().flat_map(|curve| {
            curve.with_intervals().map(|((x, y), interval)| {
                let (low, high) = interval.unzip();
                let bound = |bound: Option<f64>| bound.map(number).unwrap_or_default();
                let cells = [crate::csv::cell(&curve.name), number(x), number(y), bound(low), bound(high)];
                cells.into_iter().take(columns)
            })
        });
        crate::csv::text(&header[..columns], rows).unwrap_or_default()
    }

    fn drawing(&self) -> ((f64, f64), String) {
        let points = || self.curves.iter().flat_map(Curve::with_intervals);
        let y = Scale::from_values(self.y, points().flat_map(|((_, y), interval)| ends(y, interval)))
            .up_to_label(Y_PARTS);
        let letters = y.ticks(Y_PARTS).iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
        let left = (Y_TITLE + LETTER * letters as f64).max(LEFT);
        let (legend, lines) = self.legend(left);
        let scale = Scale::from_values(self.x, points().map(|((x, _), _)| x).chain([self.x_to]));
        let x = Horizontal { scale, left, right: WIDTH - RIGHT };
        let area = Area { x, y, top: TOP + LEGEND_LINE * lines, shift: 0.0 };
        let mut body = legend;
        body.push_str(&area.axes());
        for (index, (curve, style)) in self.curves.iter().zip(self.styles()).enumerate() {
            let area = Area { shift: self.shift(index), ..area };
            let _ = writeln!(body, "<path class=\"curve {}\" d=\"{}\"/>", style.line(), area.path(curve));
            body.push_str(&area.intervals(curve, style));
        }
        ((WIDTH, area.bottom() + BOTTOM), body)
    }

    fn styles(&self) -> Vec<CurveStyle> {
        CurveStyle::from_papers(self.curves.iter().map(|curve| curve.paper))
    }

    /// Horizontal shift of a curve, so that the intervals of several curves do not overlap.
    fn shift(&self, index: usize) -> f64 {
        let has_any = |curve: &Curve| curve.intervals.iter().any(Option::is_some);
        let with = self.curves.iter().filter(|curve| has_any(curve)).count();
        let before = self.curves[..index].iter().filter(|curve| has_any(curve)).count();
        if with > 1 && has_any(&self.curves[index]) {
            (before as f64 - (with - 1) as f64 / 2.0) * DODGE
        } else {
            0.0
        }
    }

    /// The names of the curves, each after a piece of its line, and the number of lines of text.
    fn legend(&self, left: f64) -> (String, f64) {
        let (mut legend, mut x, mut line) = (String::new(), left, 0.0);
        for (curve, style) in self.curves.iter().zip(self.styles()) {
            let width = SAMPLE + 24.0 + LETTER * curve.name.chars().count() as f64;
            if x > left && x + width > WIDTH {
                (x, line) = (left, line + 1.0);
            }
            let y = LEGEND_LINE * (line + 0.5);
            if curve.points.len() > 1 {
                let _ =
                    write!(legend, "<path class=\"curve {}\" d=\"M{x:.1} {y:.1}h{SAMPLE}\"/>", style.line());
            }
            if !curve.intervals.is_empty() {
                legend.push_str(&style.mark(x + SAMPLE / 2.0, y));
            }
            // A name that is too long is condensed.
            let is_long = width > WIDTH - left;
            let attributes = if is_long { condensed(WIDTH - x - SAMPLE - 8.0) } else { String::new() };
            legend.push_str(&text(&attributes, (x + SAMPLE + 6.0, y + 4.0), &escape(&curve.name)));
            x += width;
        }
        (legend, line + 1.0)
    }
}

/// Attributes of a text that is condensed to this width.
fn condensed(width: f64) -> String {
    format!(" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"")
}

#[derive(Clone, Copy)]
struct Area<'a> {
    x: Horizontal<'a>,
    y: Scale<'a>,
    top: f64,
    /// Horizontal shift of the curve that is drawn.
    shift: f64,
}

impl Area<'_> {
    fn bottom(&self) -> f64 {
        self.top + HEIGHT
    }

    fn at_x(&self, value: f64) -> f64 {
        self.x.at(value) + self.shift
    }

    fn at_y(&self, value: f64) -> f64 {
        self.bottom() - self.y.part(value) * HEIGHT
    }

    fn axes(&self) -> String {
        let Horizontal { left, right, .. } = self.x;
        let (top, bottom) = (self.top, self.bottom());
        let mut body = self.x.grid(X_PARTS, (top, bottom));
        for tick in self.y.ticks(Y_PARTS) {
            let y = self.at_y(tick.value);
            let label = text("class=\"end\"", (left - 6.0, y + 4.0), &tick.label);
            let _ = write!(body, "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right}\"/>{label}");
        }
        let title = self.y.title();
        let is_long = title.chars().count() as f64 * LETTER > MAX_Y_TITLE;
        let condensed = if is_long { condensed(MAX_Y_TITLE) } else { String::new() };
        // A long title extends below the axis.
        let middle = top + HEIGHT / 2.0 + if is_long { (BOTTOM - 14.0 - TOP) / 2.0 } else { 0.0 };
        let _ = writeln!(
            body,
            "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right}\"/>\n\
             <text {MIDDLE} transform=\"translate(12 {middle:.1}) rotate(-90)\"{condensed}>{title}</text>",
        );
        body
    }

    /// A mark for each point, and its interval.
    fn intervals(&self, curve: &Curve, style: CurveStyle) -> String {
        let mut body = String::new();
        for ((x, y), interval) in curve.with_intervals().take(curve.intervals.len()) {
            let x = self.at_x(x);
            if let Some(interval) = interval {
                let path = self.y.interval(interval, |value| self.at_y(value), x, true);
                let _ = writeln!(body, "<path class=\"whisker {}\" d=\"{path}\"/>", style.stroke());
            }
            body.push_str(&style.mark(x, self.at_y(y)));
        }
        body
    }

    /// The line of a curve. Two values at one position of the drawing are drawn once.
    fn path(&self, curve: &Curve) -> String {
        let mut text = String::new();
        let mut last = None;
        for &(x, y) in &curve.points {
            let place = (format!("{:.1}", self.at_x(x)), format!("{:.1}", self.at_y(y)));
            if last.as_ref() == Some(&place) {
                continue;
            }
            let (x, y) = &place;
            let _ = match (last.is_some(), curve.steps) {
                (false, _) => write!(text, "M{x} {y}"),
                (true, false) => write!(text, "L{x} {y}"),
                (true, true) => write!(text, "H{x}V{y}"),
            };
            last = Some(place);
        }
        text
    }
}
