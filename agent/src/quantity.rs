// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations and sizes as the command line and the configuration spell them.

use std::time::Duration;

/// Name of a unit, and its value in the base unit.
pub(crate) type Unit = (&'static str, u64);

/// Units of time in seconds, the largest first.
pub(crate) const TIMES: &[Unit] = &[("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
/// Units of size in bytes, the largest first.
pub(crate) const SIZES: &[Unit] = &[("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// A whole number with one of these units, in the base unit.
pub(crate) fn parse_whole(text: &str, units: &[Unit]) -> Option<u64> {
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

/// The payload from which on all connections are kept. It may end in B.
pub(crate) fn parse_sample(text: &str) -> Result<u64, String> {
    let size = parse_whole(text.strip_suffix('B').unwrap_or(text), SIZES).filter(|size| *size > 0);
    size.ok_or_else(|| "use a whole number with K, M or G, such as 10M".to_owned())
}

/// How long something is kept, in whole days or hours.
#[cfg(feature = "clickhouse")]
pub(crate) fn parse_days(text: &str) -> Result<Duration, String> {
    let seconds = parse_whole(text, TIMES).filter(|seconds| (3_600..=3_650 * 86_400).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "use a whole number with d or h, 1h to 3650d".to_owned())
}

/// In the largest unit of which the value is a multiple.
pub(crate) fn in_units(value: u64, units: &[Unit]) -> String {
    let fits = units.iter().find(|(_, unit)| value > 0 && value.is_multiple_of(*unit));
    fits.map_or_else(|| value.to_string(), |(name, unit)| format!("{}{name}", value / unit))
}

/// A duration in milliseconds, without rounding.
pub(crate) fn in_milliseconds(duration: Duration) -> String {
    let (whole, rest) = (duration.as_nanos() / 1_000_000, duration.as_nanos() % 1_000_000);
    if rest == 0 {
        format!("{whole}ms")
    } else {
        format!("{}ms", format!("{whole}.{rest:06}").trim_end_matches('0'))
    }
}

/// Longest time between two snapshots.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_mins(1);

/// Time between two snapshots.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_up_to(MAX_INTERVAL, text)
}

/// What [`parse_up_to`] accepts.
fn expected(longest: Duration) -> String {
    format!("use 100ms to {}s, a number with ms or s, for example 500ms or 2s", longest.as_secs())
}

/// Duration of a step of the calibration.
pub(crate) fn parse_step(text: &str) -> Result<Duration, String> {
    parse_up_to(Duration::from_mins(10), text)
}

fn parse_up_to(longest: Duration, text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let allowed = Duration::from_millis(100)..=longest;
    duration.filter(|duration| allowed.contains(duration)).ok_or_else(|| expected(longest))
}

/// Size of a ring buffer. The kernel wants a power of two of at least one page.
pub(crate) fn parse_ring_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().or_else(|| parse_whole(&text.to_uppercase(), &SIZES[1..]));
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
        for wrong in ["", "x", "5m", "10ms", "61s", "-1s", "nan"] {
            assert!(parse_interval(wrong).is_err(), "{wrong} was accepted");
        }
        for written in ["500ms", "100.5ms", "333.333333ms", "60000ms"] {
            assert_eq!(parse_interval(written).map(in_milliseconds).as_deref(), Ok(written));
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
        for wrong in ["0", "4095", "3M", "1G", "99999999M"] {
            assert!(parse_ring_size(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
