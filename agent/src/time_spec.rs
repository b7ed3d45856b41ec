// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time specifications of the command line: a duration before now, or a date. Pure; the caller supplies the clock.

use std::str::FromStr;

use anyhow::bail;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mpwatch_store::Period;

use crate::error::Failure;
use mpwatch_model::quantity::parse_duration;

/// A time as the user gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSpec {
    /// This long before now.
    Ago(SignedDuration),
    At(Timestamp),
}

impl TimeSpec {
    pub(crate) fn resolve(self, now: Timestamp) -> Result<Timestamp, jiff::Error> {
        match self {
            Self::Ago(duration) => now.checked_sub(duration),
            Self::At(time) => Ok(time),
        }
    }
}

/// The period that `--since` and `--until` mean. Fails if it ends before it begins.
pub(crate) fn period(
    since: Option<TimeSpec>,
    until: Option<TimeSpec>,
    now: Timestamp,
) -> anyhow::Result<Period> {
    let at = |spec: Option<TimeSpec>| {
        let time = spec.map(|spec| spec.resolve(now)).transpose();
        time.map_err(|_| Failure::usage("--since or --until is longer ago than the calendar reaches"))
    };
    let period = Period { since: at(since)?, until: at(until)? };
    if let (Some(since), Some(until)) = (period.since, period.until)
        && since > until
    {
        bail!(Failure::usage(format!("the period ends before it begins: from {since} until {until}")));
    }
    Ok(period)
}

impl FromStr for TimeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = parse_duration(text).and_then(|duration| SignedDuration::try_from(duration).ok());
        let zoned = || text.parse::<Timestamp>().ok();
        // mpwatch prints all times in UTC, so a date without a zone is UTC too.
        let civil = || Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
        ago.map(Self::Ago).or_else(|| zoned().or_else(civil).map(Self::At)).ok_or_else(|| {
            "use a number with s, m, h, d or w, for example 2h or 7d (before now), or a date in UTC, for example \
             2026-03-01 or 2026-03-01T12:00:00Z"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TimeSpec, String> {
        text.parse()
    }

    #[test]
    fn durations_and_dates_are_distinguished() {
        assert_eq!(parse("2h"), Ok(TimeSpec::Ago(SignedDuration::from_hours(2))));
        assert_eq!(parse("7d"), parse("1w"));
        let day = parse("2026-03-01").unwrap();
        assert_eq!(day, parse("2026-03-01T00:00:00Z").unwrap());
        assert_eq!(parse("2026-03-01T12:00").unwrap(), parse("2026-03-01T13:00:00+01:00").unwrap());
        for wrong in ["", "h", "-1h", "7", "yesterday", "2026-13-01", "99999999999999999w", "2hé"] {
            assert!(parse(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_duration_is_subtracted_from_now() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(parse("90m").unwrap().resolve(now).unwrap().to_string(), "2026-03-01T10:30:00Z");
        assert!(parse("7000000d").unwrap().resolve(now).is_err());
    }
}
