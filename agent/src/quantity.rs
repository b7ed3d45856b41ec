// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations and sizes as the command line and the configuration spell them.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Name of a unit, and its value in the base unit.
type Unit = (&'static str, u64);

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
pub(crate) const SIZES: &[Unit] = &[("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// The one grammar of durations: numbers with units from `ns` to `w`, such as `500ms`, `1.5h` or `1d 12h`. A day has 24 hours.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let duration = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

/// A duration in the largest unit of which it is a multiple; [`parse_duration`] reads it back.
pub(crate) fn in_time_units(duration: Duration) -> String {
    u64::try_from(duration.as_nanos())
        .map_or_else(|_| format!("{}s", duration.as_secs()), |nanos| in_units(nanos, TIMES))
}

/// A whole number of bytes with a unit.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = SIZES.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

/// The payload from which on all connections are kept. It may end in B.
pub(crate) fn parse_sample(text: &str) -> Result<u64, String> {
    let size = parse_size(text.strip_suffix('B').unwrap_or(text)).filter(|size| *size > 0);
    size.ok_or_else(|| "use a whole number with K, M or G, such as 10M".to_owned())
}

/// How long something is kept.
#[cfg(feature = "clickhouse")]
pub(crate) fn parse_days(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_hours(1)..=Duration::from_hours(3_650 * 24);
    let duration = parse_duration(text).filter(|duration| allowed.contains(duration));
    duration.ok_or_else(|| "use a number with d or h, 1h to 3650d".to_owned())
}

/// In the largest unit of which the value is a multiple.
pub(crate) fn in_units(value: u64, units: &[Unit]) -> String {
    let fits = units.iter().find(|(_, unit)| value > 0 && value.is_multiple_of(*unit));
    fits.map_or_else(|| value.to_string(), |(name, unit)| format!("{}{name}", value / unit))
}

/// Longest time between two snapshots.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_mins(1);

/// Time between two snapshots.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_up_to(MAX_INTERVAL, text)
}

/// What [`parse_up_to`] accepts.
fn expected(longest: Duration) -> String {
    format!("use 100ms to {}s, for example 500ms, 2s or 1m", longest.as_secs())
}

/// Duration of a step of the calibration.
pub(crate) fn parse_step(text: &str) -> Result<Duration, String> {
    parse_up_to(Duration::from_mins(10), text)
}

/// A bare number counts seconds.
fn parse_up_to(longest: Duration, text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(100)..=longest;
    let duration = parse_duration(text).or_else(|| parse_duration(&format!("{text}s")));
    duration.filter(|duration| allowed.contains(duration)).ok_or_else(|| expected(longest))
}

/// Size of a ring buffer. The kernel wants a power of two of at least one page.
pub(crate) fn parse_ring_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().or_else(|| parse_size(&text.to_uppercase()));
    size.filter(|size| size.is_power_of_two() && (4096..=1 << 30).contains(size))
        .and_then(|size| u32::try_from(size).ok())
        .ok_or_else(|| "use a power of two between 4K and 1024M".to_owned())
}

/// A share as [`parse_budget`] reads it, to four decimals of a percent.
pub(crate) fn in_percent(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// Share of the machine's CPU time, 0 to 1.
pub(crate) fn parse_budget(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| {
        "use more than 0% and at most 100%, for example 1%; the least that mpwatch can do is trace with `--ledger off --no-bottlenecks`"
            .to_owned()
    })
}

/// Probability of a verdict. Below one half it would be a verdict of the contrary.
#[cfg(feature = "control")]
pub(crate) fn parse_probability(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.5..=1.0).contains(value));
    value.ok_or_else(|| "use 0.5 to 1, for example 0.95".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_outside_their_range_are_refused() {
        assert_eq!(parse_interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_interval("1m"), Ok(MAX_INTERVAL));
        for wrong in ["", "x", "5m", "10ms", "61s", "-1s", "nan"] {
            assert!(parse_interval(wrong).is_err(), "{wrong} was accepted");
        }
        for written in ["500ms", "100500us", "333333333ns", "1m"] {
            assert_eq!(parse_interval(written).map(in_time_units).as_deref(), Ok(written));
        }
        for (written, hours) in [("36h", 36), ("7d", 7 * 24), ("1w", 7 * 24), ("1d 12h", 36)] {
            assert_eq!(parse_duration(written), Some(Duration::from_hours(hours)));
        }
        assert_eq!(
            (parse_budget("1%"), parse_budget("0.5"), parse_budget("100%")),
            (Ok(0.01), Ok(0.005), Ok(1.0))
        );
        assert_eq!([0.07, 0.0125, 1.0].map(in_percent), ["7%", "1.25%", "100%"]);
        assert_eq!(parse_probability("0.95"), Ok(0.95));
        for wrong in ["", "0.4", "1.1", "nan", "95%"] {
            assert!(parse_probability(wrong).is_err(), "{wrong} was accepted");
        }
        for wrong in ["", "%", "0", "0%", "-1%", "100.1%", "nan", "inf", "1s"] {
            assert!(parse_budget(wrong).is_err(), "{wrong} was accepted");
        }
        assert_eq!((parse_ring_size("4K"), parse_ring_size("1m")), (Ok(4096), Ok(1 << 20)));
        assert_eq!(parse_ring_size("1G"), Ok(1 << 30));
        for wrong in ["0", "4095", "3M", "2G", "99999999M"] {
            assert!(parse_ring_size(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
