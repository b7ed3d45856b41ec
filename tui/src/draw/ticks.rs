// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round numbers for the axes of charts.

use mpwatch_model::metric::round_up;

/// Possible lengths of a time axis, in seconds.
const WINDOWS: [f64; 13] =
    [2.0, 4.0, 10.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0, 600.0, 1200.0, 3600.0, 7200.0];

/// The length in seconds of the shortest time axis that covers `seconds`.
pub(super) fn window(seconds: f64) -> f64 {
    WINDOWS.into_iter().find(|window| *window >= seconds).unwrap_or(seconds)
}

/// A round number of at least `max` whose half is also round.
pub(super) fn above(max: f64) -> f64 {
    round_up(max, &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
}

/// The label of a time that is `seconds` before the latest value.
pub(super) fn ago(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        seconds if seconds >= 120.0 => format!("-{:.0} min", seconds / 60.0),
        seconds => format!("-{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let tops = [0.9, 1.0, 1.1, 2.5, 47e6, 0.0031, 7.0, 9.9].map(above);
        let wanted = [1.0, 1.0, 2.0, 3.0, 60e6, 0.004, 8.0, 10.0];
        for (top, wanted) in tops.into_iter().zip(wanted) {
            assert!((top / wanted - 1.0).abs() < 1e-9, "{top} for {wanted}");
        }
        assert_eq!([0.0, 8.0, 55.0, 119.0].map(window).map(ago), ["-2 s", "-10 s", "-60 s", "-2 min"]);
        assert_eq!(ago(window(1e6)), "-16667 min");
        assert_eq!(ago(0.0), "0 s");
    }
}
