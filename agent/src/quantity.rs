// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses quantities of the command line and the configuration, and checks their limits.

use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "clickhouse")]
use mpwatch_model::quantity::parse_duration;
use mpwatch_model::quantity::{parse_duration_up_to, parse_size};

/// Parses a retention time of 1 h to 3650 d.
#[cfg(feature = "clickhouse")]
pub(crate) fn parse_retention(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_hours(1)..=Duration::from_hours(3_650 * 24);
    let duration = parse_duration(text).filter(|duration| allowed.contains(duration));
    duration.ok_or_else(|| "use a number with d or h, 1h to 3650d".to_owned())
}

/// Parses a whole number above 0.
pub(crate) fn parse_count<T: FromStr + Default + PartialOrd>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| "use a whole number above 0".to_owned())
}

/// Longest time between two snapshots.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_mins(1);

/// Parses the time between two snapshots, 100 ms to [`MAX_INTERVAL`].
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_duration_up_to(MAX_INTERVAL, text)
}

/// Parses a duration of 100 ms to 10 min.
pub(crate) fn parse_step(text: &str) -> Result<Duration, String> {
    parse_duration_up_to(Duration::from_mins(10), text)
}

/// Parses the size of a ring buffer in bytes. The kernel requires a power of two of at least one page.
pub(crate) fn parse_ring_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().or_else(|| parse_size(&text.to_uppercase()));
    size.filter(|size| size.is_power_of_two() && (4096..=1 << 30).contains(size))
        .and_then(|size| u32::try_from(size).ok())
        .ok_or_else(|| "use a power of two between 4K and 1024M".to_owned())
}

/// Formats a share for [`parse_budget`], with up to four decimals of a percent.
pub(crate) fn in_percent(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// Parses a percentage of the machine's CPU time. Returns a share, above 0 and up to 1.
pub(crate) fn parse_budget(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| {
        "use more than 0% and at most 100%, for example 1%; tracing costs least with `--ledger off --no-bottlenecks`"
            .to_owned()
    })
}

/// Parses the probability of a verdict. Below 0.5 the opposite verdict would be more probable.
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
        assert_eq!(
            (parse_budget("1%"), parse_budget("0.5"), parse_budget("100%")),
            (Ok(0.01), Ok(0.005), Ok(1.0))
        );
        assert_eq!([0.07, 0.0125, 1.0].map(in_percent), ["7%", "1.25%", "100%"]);
        assert_eq!((parse_count::<u64>("3"), parse_count::<u32>("0").is_err()), (Ok(3), true));
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
