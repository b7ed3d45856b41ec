// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time specifications of the command line: a duration before now, a time of the day, or a date. Pure; the caller supplies the clock.

use std::str::FromStr;

use anyhow::bail;
use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, Span, Timestamp, Zoned};
use mpwatch_store::Period;

use crate::error::Failure;
use mpwatch_model::quantity::parse_duration;

/// A time as the user gave it. Without a zone it is local, as `journalctl` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSpec {
    /// This long before now.
    Ago(SignedDuration),
    At(Timestamp),
    /// A local date with a time.
    Local(DateTime),
    /// A local time of the day.
    Clock(Time),
    /// Midnight, this many days before today.
    DaysAgo(i64),
}

impl TimeSpec {
    /// The time. A time of the day is the first one after `begin`; without `begin`, the last one that is not after now.
    fn resolve_after(self, begin: Option<Timestamp>, now: &Zoned) -> Result<Timestamp, jiff::Error> {
        let zone = now.time_zone();
        let local = |at: DateTime| Ok(at.to_zoned(zone.clone())?.timestamp());
        match (self, begin) {
            (Self::Ago(duration), _) => now.timestamp().checked_sub(duration),
            (Self::At(time), _) => Ok(time),
            (Self::Local(time), _) => local(time),
            (Self::DaysAgo(days), _) => {
                local(now.date().checked_sub(Span::new().days(days))?.to_datetime(Time::midnight()))
            }
            (Self::Clock(time), Some(begin)) => {
                let day = begin.to_zoned(zone.clone()).date();
                let at = local(day.to_datetime(time))?;
                if at >= begin { Ok(at) } else { local(day.tomorrow()?.to_datetime(time)) }
            }
            (Self::Clock(time), None) => {
                let at = local(now.date().to_datetime(time))?;
                if at <= now.timestamp() { Ok(at) } else { local(now.date().yesterday()?.to_datetime(time)) }
            }
        }
    }

    pub(crate) fn resolve(self, now: &Zoned) -> Result<Timestamp, jiff::Error> {
        self.resolve_after(None, now)
    }
}

/// The period that `--since` and `--until` mean. Fails if it ends before it begins.
pub(crate) fn period(
    since: Option<TimeSpec>,
    until: Option<TimeSpec>,
    now: &Zoned,
) -> anyhow::Result<Period> {
    let at = |spec: Option<TimeSpec>, begin| {
        let time = spec.map(|spec| spec.resolve_after(begin, now)).transpose();
        time.map_err(|_| Failure::usage("--since or --until is longer ago than the calendar reaches"))
    };
    let since = at(since, None)?;
    let period = Period { since, until: at(until, since)? };
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
        let ago = || SignedDuration::try_from(parse_duration(text)?).ok().map(Self::Ago);
        let day = || ["today", "yesterday"].iter().zip(0..).find(|(word, _)| **word == text);
        let zoned = || text.parse().ok().map(Self::At);
        let date = || text.parse().ok().map(Self::Local);
        let clock = || text.contains(':').then(|| text.parse().ok().map(Self::Clock)).flatten();
        let found = ago().or_else(|| day().map(|(_, days)| Self::DaysAgo(days)));
        found.or_else(zoned).or_else(clock).or_else(date).ok_or_else(|| {
            "use a number with s, m, h, d or w, for example 2h or 7d (before now), a time of the day (14:05), today, \
             yesterday, or a date (2026-03-01, 2026-03-01T12:00); local time unless it ends in Z (UTC) or an offset"
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
    fn a_time_is_before_now_of_the_day_or_a_date() {
        assert_eq!(parse("2h"), Ok(TimeSpec::Ago(SignedDuration::from_hours(2))));
        assert_eq!(parse("7d"), parse("1w"));
        for wrong in
            ["", "h", "-1h", "7", "14", "25:00", "tomorrow", "2026-13-01", "99999999999999999w", "2hé"]
        {
            assert!(parse(wrong).is_err(), "{wrong} was accepted");
        }
    }

    fn now() -> Zoned {
        "2026-03-01T12:00:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    #[test]
    fn times_are_local_unless_they_have_a_zone() {
        for (text, time) in [
            ("90m", "2026-03-01T09:30:00Z"),
            ("2026-02-28", "2026-02-27T23:00:00Z"),
            ("2026-02-28 13:00", "2026-02-28T12:00:00Z"),
            ("2026-02-28 13:00:05Z", "2026-02-28T13:00:05Z"),
            ("2026-02-28T13:00+03:00", "2026-02-28T10:00:00Z"),
            ("11:59", "2026-03-01T10:59:00Z"),
            // Not yet: the last one was yesterday.
            ("14:05", "2026-02-28T13:05:00Z"),
            ("today", "2026-02-28T23:00:00Z"),
            ("yesterday", "2026-02-27T23:00:00Z"),
        ] {
            assert_eq!(parse(text).unwrap().resolve(&now()).unwrap().to_string(), time, "{text}");
        }
        assert!(parse("7000000d").unwrap().resolve(&now()).is_err());
    }

    #[test]
    fn a_period_ends_at_the_first_such_time_after_its_start() {
        for (since, until, end) in [
            ("14:05", "14:10", "2026-02-28T13:10:00Z"),
            ("23:50", "00:10", "2026-02-28T23:10:00Z"),
            ("yesterday", "08:00", "2026-02-28T07:00:00Z"),
        ] {
            let period = period(parse(since).ok(), parse(until).ok(), &now()).unwrap();
            assert_eq!(period.until.unwrap().to_string(), end, "{since} {until}");
        }
        assert!(period(parse("today").ok(), parse("yesterday").ok(), &now()).is_err());
    }
}
