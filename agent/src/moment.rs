// SPDX-License-Identifier: MIT OR Apache-2.0
//! A point in time as people give it: so long ago, or a date. Pure: who asks brings the clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// What was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long before now.
    Ago(SignedDuration),
    /// A time.
    At(Timestamp),
}

impl Moment {
    /// The time that is meant.
    pub(crate) fn before(self, now: Timestamp) -> Result<Timestamp, jiff::Error> {
        match self {
            Self::Ago(duration) => now.checked_sub(duration),
            Self::At(time) => Ok(time),
        }
    }
}

/// Reads one.
pub(crate) fn parse(text: &str) -> Result<Moment, String> {
    let time = || text.parse::<Timestamp>().ok();
    // Without a zone: UTC, as everything that mpwatch shows.
    let civil = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    ago(text).map(Moment::Ago).or_else(|| time().or_else(civil).map(Moment::At)).ok_or_else(|| {
        "a time is a number with s, m, h, d or w, for example 2h or 7d (so long ago), or a date, for example 2026-03-01 \
         or 2026-03-01T12:00:00Z (UTC)"
            .to_owned()
    })
}

fn ago(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number: i64 = text[..text.len() - 1].parse().ok().filter(|number| *number >= 0)?;
    number.checked_mul(seconds).map(SignedDuration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_dates_are_told_apart() {
        assert_eq!(parse("2h"), Ok(Moment::Ago(SignedDuration::from_hours(2))));
        assert_eq!(parse("7d"), parse("1w"));
        let day = parse("2026-03-01").unwrap();
        assert_eq!(day, parse("2026-03-01T00:00:00Z").unwrap());
        assert_eq!(parse("2026-03-01T12:00").unwrap(), parse("2026-03-01T13:00:00+01:00").unwrap());
        for wrong in ["", "h", "-1h", "1.5h", "yesterday", "2026-13-01", "99999999999999999w", "2hé"] {
            assert!(parse(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn so_long_ago_counts_from_now() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(parse("90m").unwrap().before(now).unwrap().to_string(), "2026-03-01T10:30:00Z");
        assert!(parse("99999999d").unwrap().before(now).is_err());
    }
}
