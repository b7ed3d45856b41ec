// SPDX-License-Identifier: MIT OR Apache-2.0
//! Axes of plots: round values, their labels, and positions.

use mpwatch_model::metric::{self, Unit};

use super::markup::{MIDDLE, text};

/// The quantity of an axis.
#[derive(Clone, Copy)]
pub struct Axis<'a> {
    /// Its title without the unit.
    pub title: &'a str,
    /// Unit of the values; labels may have a multiple of it.
    pub unit: Unit,
    /// Name of its column in CSV; ends in its unit.
    pub column: &'a str,
    /// Whether the axis is logarithmic. All values are then greater than zero.
    pub log: bool,
}

/// A logarithmic axis covers an interval only down to the value divided by this number. The rest is outside of the axis.
const MAX_LOW: f64 = 4.0;
/// Minimum distance between two labels, as a share of the length of a part of the axis.
const MIN_DISTANCE: f64 = 0.8;
/// Maximum number of decades between two labels.
const MAX_STEP: usize = 20;
/// Half the width of the bar at the end of an interval, and the length of the arrow at an end outside of the axis.
const CAP: f64 = 4.0;
const ARROW: f64 = 5.0;
/// Labels closer to the edge of a drawing are not centred.
const EDGE: f64 = 20.0;

pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// An axis over a range of values.
#[derive(Clone, Copy)]
pub(super) struct Scale<'a> {
    axis: Axis<'a>,
    low: f64,
    high: f64,
    /// Size of the unit of the labels, in units of the axis, and its name.
    unit: (f64, &'static str),
}

impl<'a> Scale<'a> {
    /// An axis for these values. It begins at zero or the lowest negative value, a logarithmic axis at the lowest positive value.
    pub(super) fn from_values(axis: Axis<'a>, values: impl Iterator<Item = f64> + Clone) -> Self {
        let high = values.clone().fold(0.0, f64::max);
        let positive = values.clone().filter(|value| *value > 0.0);
        let (low, high) = match (axis.log, high > 0.0) {
            (true, true) => (positive.fold(high, f64::min) / 1.1, high * 1.1),
            (true, false) => (0.1, 1.0),
            (false, true) => (values.fold(0.0, f64::min), high),
            (false, false) => (0.0, 1.0),
        };
        Self { axis, low, high, unit: unit_of(axis.unit, high) }
    }

    /// Extends a linear axis to the next labelled value, so that the largest value is between two labels.
    #[must_use]
    pub(super) fn up_to_label(mut self, parts: u32) -> Self {
        let step = self.step(parts);
        if !self.axis.log && step > 0.0 {
            self.high = (self.high / step - 1e-9).ceil() * step;
        }
        self
    }

    /// Position of a value: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn part(&self, value: f64) -> f64 {
        let part = if self.axis.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    fn shows(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The title with the unit of the labels.
    pub(super) fn title(&self) -> String {
        let Axis { title, log, .. } = self.axis;
        match self.unit.1 {
            "" => title.to_owned(),
            _ if log => format!("{title} (logarithmic)"),
            unit => format!("{title} ({unit})"),
        }
    }

    /// The labelled values, for an axis of at most about `parts` parts. Without a title, each label has its unit.
    pub(super) fn ticks(&self, parts: u32) -> Vec<Tick> {
        if self.axis.log && self.high / self.low >= 5.0 {
            return self.decades(parts);
        }
        let step = self.step(parts);
        if step <= 0.0 {
            return Vec::new();
        }
        let (size, step_shown) = (self.unit.0, step / self.unit.0);
        let decimals = [0.999_999, 0.099_999, 0.009_999].iter().filter(|limit| step_shown < **limit).count();
        let first = (self.low / step - 1e-9).ceil();
        let label = |value: f64| match self.axis {
            Axis { log: false, title: "", .. } if value == 0.0 => "0".to_owned(),
            Axis { log: false, title, .. } if !title.is_empty() => {
                format!("{:.decimals$}", value / size + 0.0)
            }
            _ => short(self.axis.unit, value),
        };
        let values = (0..=parts).map(|nth| (first + f64::from(nth)) * step);
        let inside = values.take_while(|value| *value <= self.high * 1.000_001);
        inside.map(|value| Tick { value, label: label(value) }).collect()
    }

    fn step(&self, parts: u32) -> f64 {
        round_step((self.high - self.low) / self.unit.0, parts) * self.unit.0
    }

    /// Labels at 1, 2 and 5 times the powers of ten, or at fewer multiples if these labels are too close together.
    fn decades(&self, parts: u32) -> Vec<Tick> {
        let distance = |pair: &[Tick]| self.part(pair[1].value) - self.part(pair[0].value);
        let is_clear =
            |ticks: &Vec<Tick>| ticks.windows(2).all(|pair| distance(pair) * f64::from(parts) > MIN_DISTANCE);
        let powers = |step: usize| self.multiples(&[1.0]).into_iter().step_by(step).collect();
        let dense = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]].map(|factors| self.multiples(factors));
        let mut choices = dense.into_iter().chain((1..=MAX_STEP).map(powers));
        let mut ticks: Vec<Tick> = choices.find(is_clear).unwrap_or_default();
        // Other powers of ten get a line without a label.
        let has =
            |value: f64| ticks.iter().any(|tick| tick.value >= value * 0.99 && tick.value <= value * 1.01);
        let others: Vec<Tick> = self.multiples(&[1.0]).into_iter().filter(|tick| !has(tick.value)).collect();
        ticks.extend(others.into_iter().map(|tick| Tick { label: String::new(), ..tick }));
        ticks
    }

    #[expect(clippy::cast_possible_truncation, reason = "powers of ten of a float")]
    fn multiples(&self, factors: &[f64]) -> Vec<Tick> {
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let values = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let inside = values.filter(|value| self.shows(*value));
        inside.map(|value| Tick { value, label: short(self.axis.unit, value) }).collect()
    }

    /// An interval as a path along the axis: each end is a bar, or an arrow if the interval continues outside. `at`: the position of a value
    /// along the axis; `across`: the position of the path in the other direction.
    pub(super) fn interval(
        &self,
        interval: (f64, f64),
        at: impl Fn(f64) -> f64,
        across: f64,
        is_vertical: bool,
    ) -> String {
        let place = |along: f64, across: f64| {
            let (x, y) = if is_vertical { (across, along) } else { (along, across) };
            format!("{x:.1} {y:.1}")
        };
        let (from, to) = (at(interval.0), at(interval.1));
        let end = |value: f64, along: f64, towards: f64| {
            let back = if self.shows(value) { along } else { along + (towards - along).signum() * ARROW };
            format!("M{}L{}L{}", place(back, across - CAP), place(along, across), place(back, across + CAP))
        };
        let ends = [end(interval.0, from, to), end(interval.1, to, from)].concat();
        format!("M{}L{}{ends}", place(from, across), place(to, across))
    }
}

/// A horizontal axis between two positions of a drawing.
#[derive(Clone, Copy)]
pub(super) struct Horizontal<'a> {
    pub(super) scale: Scale<'a>,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Horizontal<'_> {
    pub(super) fn at(&self, value: f64) -> f64 {
        self.left + self.scale.part(value) * (self.right - self.left)
    }

    /// Lines at round values between two heights, with their labels and the title below.
    pub(super) fn grid(&self, parts: u32, (top, bottom): (f64, f64)) -> String {
        let has_title = !self.scale.axis.title.is_empty();
        let lines = self.scale.ticks(parts).into_iter().map(|tick| {
            let x = self.at(tick.value);
            // Labels with a unit are long: at the edges they must not leave the drawing.
            let class = match x {
                x if x < EDGE && !has_title => "soft",
                x if x > self.right - EDGE && !has_title => "end",
                _ => "mid",
            };
            let label = text(&format!("class=\"{class}\""), (x, bottom + 15.0), &tick.label);
            format!("<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>{label}")
        });
        let middle = (f64::midpoint(self.left, self.right), bottom + 33.0);
        lines.chain(has_title.then(|| text(MIDDLE, middle, &self.scale.title()))).collect()
    }
}

/// The range that an axis must cover for a value with an interval. An interval may begin outside of the axis, see [`MAX_LOW`].
pub(super) fn ends(value: f64, interval: Option<(f64, f64)>) -> [f64; 2] {
    interval.map_or([value; 2], |(low, high)| [low.max(value / MAX_LOW), high.max(value)])
}

/// A number for CSV, with six significant digits: more than a drawing resolves.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scale = 10_f64.powf(5.0 - value.abs().log10().floor());
    ((value * scale).round() / scale).to_string()
}

/// A round value without superfluous digits: `10 ms`, not `10.0 ms`.
fn short(unit: Unit, value: f64) -> String {
    metric::trimmed(&metric::display(unit, Some(value)))
}

/// The unit of labels for values up to `high`.
fn unit_of(unit: Unit, high: f64) -> (f64, &'static str) {
    let units: &[(f64, &'static str)] = match unit {
        Unit::BitsPerSecond => {
            &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s"), (1e12, "Tbit/s")]
        }
        Unit::Bytes => &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")],
        Unit::Seconds => &[(1e-6, "us"), (1e-3, "ms"), (1.0, "s")],
        Unit::Joules => &[(1e-6, "uJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ")],
        Unit::Watts => &[(1e-3, "mW"), (1.0, "W")],
        Unit::JoulesPerGigabyte => &[(1.0, "J/GB")],
        Unit::Ratio => &[(0.01, "%")],
        Unit::Segments => &[(1.0, "segments")],
        Unit::Count => &[(1.0, "")],
    };
    *units.iter().rev().find(|(size, _)| high >= *size).unwrap_or(&units[0])
}

/// Distance between grid lines: 1, 2 or 5 times a power of ten, for at most `parts` parts. Zero: there is nothing to divide.
pub fn round_step(high: f64, parts: u32) -> f64 {
    let min = high / f64::from(parts);
    if min <= 0.0 || !min.is_finite() {
        return 0.0;
    }
    metric::round_up(min, &[1.0, 2.0, 5.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, log: bool, values: &[f64]) -> (Vec<String>, String) {
        let axis = Axis { title: "value", unit, column: "value", log };
        let scale = Scale::from_values(axis, values.iter().copied());
        let labels = scale.ticks(5).into_iter().map(|tick| tick.label).filter(|label| !label.is_empty());
        (labels.collect(), scale.title())
    }

    #[test]
    fn labels_are_round_and_their_unit_is_in_the_title() {
        let (ticks, title) = labels(Unit::BitsPerSecond, false, &[3e6, 94_100_000.0]);
        assert_eq!((ticks.join(" "), title.as_str()), ("0 20 40 60 80".to_owned(), "value (Mbit/s)"));
        let (ticks, title) = labels(Unit::Seconds, false, &[0.0042]);
        assert_eq!((ticks.join(" "), title.as_str()), ("0 1 2 3 4".to_owned(), "value (ms)"));
        let (ticks, _) = labels(Unit::Ratio, false, &[0.0031]);
        assert_eq!(ticks.join(" "), "0.0 0.1 0.2 0.3");
    }

    #[test]
    fn a_logarithmic_axis_has_decades() {
        let (ticks, title) = labels(Unit::Seconds, true, &[0.004, 0.03]);
        assert_eq!(
            (ticks.join(", "), title.as_str()),
            ("5 ms, 10 ms, 20 ms".to_owned(), "value (logarithmic)")
        );
        assert_eq!(labels(Unit::Seconds, true, &[0.35, 0.41]).0.join(", "), "350 ms, 400 ms, 450 ms");
        assert_eq!(
            labels(Unit::Seconds, true, &[0.000_9, 20.0]).0.join(", "),
            "1 ms, 10 ms, 100 ms, 1 s, 10 s"
        );
        assert_eq!(labels(Unit::Count, true, &[1.0, 1e7]).0, ["1", "100", "10000", "1000000"]);
        assert_eq!(labels(Unit::Seconds, true, &[0.004, 0.3]).0.join(", "), "10 ms, 30 ms, 100 ms, 300 ms");
    }

    #[test]
    fn an_axis_without_values_is_drawn() {
        assert_eq!(labels(Unit::Count, false, &[0.0]).0.first().unwrap(), "0.0");
        assert!(!labels(Unit::Seconds, true, &[]).0.is_empty());
    }

    #[test]
    fn numbers_have_six_digits() {
        let numbers = [37_333_333.333, 0.012_345_678, 12.5, 10.0, 0.0, -2.000_000_1].map(number);
        assert_eq!(numbers, ["37333300", "0.0123457", "12.5", "10", "0", "-2"]);
    }

    #[test]
    fn an_axis_reaches_the_next_label() {
        for (value, last) in [(29.1e6, "30"), (30e6, "30"), (170e6, "200"), (94.1e6, "100")] {
            let axis = Axis { title: "rate", unit: Unit::BitsPerSecond, column: "", log: false };
            let scale = Scale::from_values(axis, [value].into_iter()).up_to_label(5);
            let top = scale.ticks(5).pop().unwrap();
            assert_eq!((top.label.as_str(), scale.part(top.value) > 0.999_999), (last, true), "{value}");
        }
    }

    #[test]
    fn positions_grow_from_zero_to_one() {
        for log in [false, true] {
            let scale = Scale::from_values(
                Axis { title: "", unit: Unit::Seconds, column: "", log },
                [1.0, 9.0].into_iter(),
            );
            let parts = [1.0, 3.0, 9.0].map(|value| scale.part(value));
            assert!(parts.is_sorted() && (0.0..=1.0).contains(&parts[0]) && parts[2] <= 1.0, "{parts:?}");
        }
    }
}
