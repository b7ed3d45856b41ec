// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power as a function of load, and bounds for the power that one of several loads adds, for any order in which the loads started.

use mpwatch_model::host::energy::power::CurvePoint;

/// Power as a function of load: linear between the knots, constant beyond the first and last knot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve(Vec<CurvePoint>);

impl Curve {
    /// `None`: fewer than two knots, loads that do not increase, or values out of range.
    pub(crate) fn new(knots: Vec<CurvePoint>) -> Option<Self> {
        let sane = |knot: &CurvePoint| {
            (0.0..=1.0).contains(&knot.busy) && knot.watts.is_finite() && knot.watts >= 0.0
        };
        let rises = knots.windows(2).all(|pair| pair[0].busy < pair[1].busy);
        (knots.len() >= 2 && rises && knots.iter().all(sane)).then_some(Self(knots))
    }

    /// Power at a load, watts.
    pub(crate) fn power(&self, busy: f64) -> f64 {
        let above = self.0.partition_point(|knot| knot.busy <= busy);
        match (above.checked_sub(1).map(|below| self.0[below]), self.0.get(above)) {
            (Some(low), Some(high)) => {
                low.watts + (high.watts - low.watts) * (busy - low.busy) / (high.busy - low.busy)
            }
            (Some(only), None) => only.watts,
            (None, first) => first.map_or(0.0, |knot| knot.watts),
        }
    }

    /// Power above idle at a load, watts.
    pub(crate) fn dynamic(&self, busy: f64) -> f64 {
        self.power(busy) - self.power(0.0)
    }

    /// Minimum and maximum power in watts that a load of `part` adds within `whole`. On a concave curve, the last load to start adds least.
    pub(crate) fn marginal(&self, part: f64, whole: f64) -> (f64, f64) {
        let room = (whole - part).max(0.0);
        let added = |before: f64| self.power(before + part) - self.power(before);
        // The curve is piecewise linear, so the extremes are where the start or the end of `part` is at a knot.
        let at_knots = self.0.iter().flat_map(|knot| [knot.busy, knot.busy - part]);
        let inside = at_knots.filter(|before| (0.0..=room).contains(before));
        inside
            .chain([0.0, room])
            .map(added)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), added| {
                (least.min(added), most.max(added))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(knots: &[(f64, f64)]) -> Curve {
        Curve::new(knots.iter().map(|(busy, watts)| CurvePoint { busy: *busy, watts: *watts }).collect())
            .unwrap()
    }

    #[test]
    fn on_a_straight_line_both_bounds_are_equal() {
        let (least, most) = curve(&[(0.0, 20.0), (1.0, 80.0)]).marginal(0.1, 0.7);
        assert!((least - 6.0).abs() < 1e-9 && (most - 6.0).abs() < 1e-9);
    }

    #[test]
    fn on_a_concave_curve_the_first_load_adds_most_and_the_last_least() {
        // An EPYC 8024P: a load of 7 % in parallel to a load of 50 % adds 19.8 W if it is the first.
        let epyc = curve(&[(0.0, 17.7), (0.07, 37.5), (0.19, 41.6), (0.5, 49.3), (0.72, 51.3), (1.0, 46.7)]);
        let (least, most) = epyc.marginal(0.07, 0.57);
        assert!((most - 19.8).abs() < 1e-9 && (least - 0.07 * 2.0 / 0.22).abs() < 1e-9, "{least} {most}");
    }

    #[test]
    fn beyond_its_knots_a_curve_is_constant() {
        let short = curve(&[(0.1, 10.0), (0.9, 50.0)]);
        assert!((short.power(0.0) - 10.0).abs() < 1e-9 && (short.power(1.0) - 50.0).abs() < 1e-9);
        assert!((short.power(0.5) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_curve_needs_two_increasing_loads() {
        let knot = |busy| CurvePoint { busy, watts: 1.0 };
        for wrong in [vec![], vec![knot(0.0)], vec![knot(0.5), knot(0.5)], vec![knot(0.5), knot(f64::NAN)]] {
            assert_eq!(Curve::new(wrong), None);
        }
    }
}
