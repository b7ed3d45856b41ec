// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time specifications of the command line: a duration before now, a time of the day, or a date. Pure; the caller supplies the clock.

use std::str::FromStr;

use anyhow::bail;
use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, Span, Timestamp, Zoned};
use mpwatch_store::Period;

use crate::error::Failure;
use mpwatch_model::quantity::parse_duration;

/// A time as the user gave it. Without a zone it is local, as in `journalctl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSpec {
    /// This duration before now.
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
    pub(crate) fn resolve(self, now: &Zoned) -> Result<Timestamp, jiff::Error> {
        let local = |at: DateTime| Ok(at.to_zoned(now.time_zone().clone())?.timestamp());
        let today = now.date();
        match self {
            Self::Ago(duration) => now.timestamp().checked_sub(duration),
            Self::At(time) => Ok(time),
            Self::Local(time) => local(time),
            Self::DaysAgo(days) => {
                local(today.checked_sub(Span::new().days(days))?.to_datetime(Time::midnight()))
            }
            // The latest time that is not after now.
            Self::Clock(time) if time > now.time() => local(today.yesterday()?.to_datetime(time)),
            Self::Clock(time) => local(today.to_datetime(time)),
        }
    }

    /// As [`Self::resolve`], but a time of the day means its first occurrence from `begin` on.
    fn resolve_after(self, begin: Timestamp, now: &Zoned) -> Result<Timestamp, jiff::Error> {
        let Self::Clock(time) = self else { return self.resolve(now) };
        let begin = begin.to_zoned(now.time_zone().clone());
        let day = if time < begin.time() { begin.date().tomorrow()? } else { begin.date() };
        Ok(day.to_datetime(time).to_zoned(now.time_zone().clone())?.timestamp())
    }
}

/// The period that `--since` and `--until` mean. Fails if it ends before it begins.
pub(crate) fn period(
    since: Option<TimeSpec>,
    until: Option<TimeSpec>,
    now: &Zoned,
) -> anyhow::Result<Period> {
    let known = |time: Result<Timestamp, _>| {
        time.map_err(|_| Failure::usage("--since or --until is outside of the supported dates"))
    };
    let since = since.map(|since| known(since.resolve(now))).transpose()?;
    let end =
        |until: TimeSpec| since.map_or_else(|| until.resolve(now), |since| until.resolve_after(since, now));
    let period = Period { since, until: until.map(|until| known(end(until))).transpose()? };
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
        found.or_else(zoned).or_else(date).or_else(clock).ok_or_else(|| {
            "use a number with s, m, h, d or w, for example 2h or 7d (before now), a time of the day (14:05 or \
             14:05:09), today, yesterday, or a date (2026-03-01, 2026-03-01T12:00); local time unless it ends in Z (UTC) or an offset"
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
    fn a_duration_is_parsed_and_wrong_times_are_refused() {
        assert_eq!(parse("2h"), Ok(TimeSpec::Ago(SignedDuration::from_hours(2))));
        assert_eq!(parse("7d"), parse("1w"));
        for wrong in
            ["", "h", "-1h", "7", "14", "25:00", "tomorrow", "2026-13-01", "99999999999999999w", "2hé"]
        {
            assert!(parse(wrong).is_err(), "{wrong} was accepted");
        }
    }

    fn now() -> Zoned {
        "2026-03-01T12:00:00+01:00[+01:00]".parse().unwrap()
    }

    #[test]
    fn times_are_local_unless_they_have_a_zone() {
        for (text, time) in [
            ("90m", "2026-03-01T09:30:00Z"),
            ("2026-02-28", "2026-02-27T23:00:00Z"),
            ("2026-02-20 13:00", "2026-02-20T12:00:00Z"),
            ("2026-02-20T11:00", "2026-02-20T10:00:00Z"),
            ("2026-02-28 13:00:05Z", "2026-02-28T13:00:05Z"),
            ("2026-02-28T13:00+03:00", "2026-02-28T10:00:00Z"),
            ("11:59", "2026-03-01T10:59:00Z"),
            ("11:59:58", "2026-03-01T10:59:58Z"),
            // Today's 14:05 is in the future, so yesterday's is meant.
            ("14:05", "2026-02-28T13:05:00Z"),
            ("today", "2026-02-28T23:00:00Z"),
            ("yesterday", "2026-02-27T23:00:00Z"),
        ] {
            assert_eq!(parse(text).unwrap().resolve(&now()).unwrap().to_string(), time, "{text}");
        }
        assert!(parse("7000000d").unwrap().resolve(&now()).is_err());
    }

    #[test]
    fn a_period_ends_at_the_first_occurrence_of_a_time_of_the_day() {
        for (since, until, end) in [
            ("14:05", "14:10", "2026-02-28T13:10:00Z"),
            ("23:50", "00:10", "2026-02-28T23:10:00Z"),
            ("23:50:30", "00:10:05", "2026-02-28T23:10:05Z"),
            ("yesterday", "08:00", "2026-02-28T07:00:00Z"),
        ] {
            let period = period(parse(since).ok(), parse(until).ok(), &now()).unwrap();
            assert_eq!(period.until.unwrap().to_string(), end, "{since} {until}");
        }
        assert!(period(parse("today").ok(), parse("yesterday").ok(), &now()).is_err());
    }
}
