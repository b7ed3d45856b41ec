// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations and sizes in the command line and the configuration, with one grammar for each.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Name of a unit, and the number of base units in it.
pub type Unit = (&'static str, u64);

/// Units of time in nanoseconds, the largest first.
const TIMES: &[Unit] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
/// Units of size in bytes, the largest first.
pub const SIZES: &[Unit] = &[("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// Parses a duration: numbers with units from `ns` to `w`, such as `500ms`, `1.5h` or `1d 12h`. A day has 24 hours. `None`: invalid. A time such
/// as `03:15:44`, which a [`Span`] accepts too, is not a duration.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let span = (!text.contains(':')).then(|| text.parse::<Span>())?;
    let duration = span.ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

/// A duration as text in the largest unit of which it is a multiple; zero is `0`. [`parse_duration`] parses all texts but `0` to the same duration.
pub fn in_time_units(duration: Duration) -> String {
    u64::try_from(duration.as_nanos())
        .map_or_else(|_| format!("{}s", duration.as_secs()), |nanos| in_units(nanos, TIMES))
}

/// Parses a whole number with a unit of [`SIZES`] into bytes. `None`: invalid, or too large.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = SIZES.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

/// A value as text in the largest unit of which it is a multiple.
pub fn in_units(value: u64, units: &[Unit]) -> String {
    let fits = units.iter().find(|(_, unit)| value > 0 && value.is_multiple_of(*unit));
    fits.map_or_else(|| value.to_string(), |(name, unit)| format!("{}{name}", value / unit))
}

/// Parses a duration from 100 ms to `longest`. A number without a unit is in seconds.
pub fn parse_duration_up_to(longest: Duration, text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(100)..=longest;
    let duration = parse_duration(text).or_else(|| parse_duration(&format!("{text}s")));
    let expected = || format!("use 100ms to {}s, for example 500ms, 2s or 1m", longest.as_secs());
    duration.filter(|duration| allowed.contains(duration)).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_back_and_refused_outside_their_range() {
        let parse = |text| parse_duration_up_to(Duration::from_mins(1), text);
        assert_eq!(parse("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "x", "5m", "10ms", "61s", "-1s", "nan"] {
            assert!(parse(wrong).is_err(), "{wrong} was accepted");
        }
        for written in ["500ms", "100500us", "333333333ns", "1m"] {
            assert_eq!(parse(written).map(in_time_units).as_deref(), Ok(written));
        }
        for clock in ["03:15:44", "00:00:05", "00:00:01.5", "1d 02:00:00"] {
            assert!(parse_duration(clock).is_none() && parse(clock).is_err(), "{clock} was accepted");
        }
        for (written, hours) in [("36h", 36), ("7d", 7 * 24), ("1w", 7 * 24), ("1d 12h", 36)] {
            assert_eq!(parse_duration(written), Some(Duration::from_hours(hours)));
        }
        assert_eq!(
            [parse_size("10M"), parse_size("3"), parse_size("99999999999G")],
            [Some(10 << 20), None, None]
        );
    }
}
