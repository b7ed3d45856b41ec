// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to a connection, with times from its opening.

use std::fmt::Write as _;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::timeline::{TimelineEntry, TimelineEvent};
use unicode_width::UnicodeWidthStr;

use super::place;

/// The time that a connection's times count from: its opening; where that was not seen, the first thing that was.
pub(super) fn beginning(connection: &Connection) -> Option<Timestamp> {
    connection.opened_at.or_else(|| connection.timeline.first().map(|entry| entry.at))
}

/// Microseconds from the beginning to a time; negative before it.
pub(super) fn micros_after(connection: &Connection, at: Timestamp) -> i128 {
    let from = beginning(connection).unwrap_or(at);
    (at.as_nanosecond() - from.as_nanosecond()) / 1_000
}

/// `+1.234567 s`: always to the microsecond, so that the points of all lines stand below each other.
pub(super) fn offset(micros: i128) -> String {
    let sign = if micros < 0 { '-' } else { '+' };
    let size = micros.unsigned_abs();
    format!("{sign}{}.{:06} s", size / 1_000_000, size % 1_000_000)
}

/// One thing that happened, as it is told.
pub(crate) struct Line {
    /// Time from the beginning.
    pub(crate) offset: String,
    /// Something went wrong.
    pub(crate) is_trouble: bool,
    /// What happened.
    pub(crate) sentence: String,
    /// How it is known.
    pub(crate) source: &'static str,
}

/// What happened, in order.
pub(crate) fn lines(connection: &Connection) -> Vec<Line> {
    let line = |entry: &TimelineEntry| Line {
        offset: offset(micros_after(connection, entry.at)),
        is_trouble: is_trouble(&entry.event),
        sentence: entry.event.sentence(|subflow| place(connection, subflow)),
        source: entry.source.as_str(),
    };
    connection.timeline.iter().map(line).collect()
}

/// What the times count from, in words.
pub(crate) fn since(connection: &Connection) -> &'static str {
    if connection.opened_at.is_some() { "its opening" } else { "when mpwatch first saw it" }
}

/// The section of a connection's report. Empty without entries.
pub(super) fn section(connection: &Connection) -> String {
    let lines = lines(connection);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("  timeline, from {}\n", since(connection));
    let time_width = lines.iter().map(|line| line.offset.width()).max().unwrap_or(0);
    let sentence_width = lines.iter().map(|line| line.sentence.width()).max().unwrap_or(0);
    for Line { offset, is_trouble, sentence, source } in lines {
        let mark = if is_trouble { '!' } else { ' ' };
        let _ = writeln!(text, "  {mark} {offset:>time_width$}  {sentence:sentence_width$}  [{source}]");
    }
    text
}

/// Whether it is something that went wrong.
fn is_trouble(what: &TimelineEvent) -> bool {
    match what {
        TimelineEvent::SubflowStale { stale, .. } => *stale,
        TimelineEvent::SubflowClosed { reason, .. } => reason.is_failure(),
        TimelineEvent::Stalled { .. } | TimelineEvent::FellBack { .. } => true,
        TimelineEvent::Opened
        | TimelineEvent::Adopted
        | TimelineEvent::SubflowOpened { .. }
        | TimelineEvent::SubflowEstablished { .. }
        | TimelineEvent::PriorityChanged { .. }
        | TimelineEvent::AddressAnnounced { .. }
        | TimelineEvent::PeerAddressAnnounced { .. }
        | TimelineEvent::PeerAddressRemoved { .. }
        | TimelineEvent::Closed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_keep_their_sign_and_their_microseconds() {
        assert_eq!(offset(0), "+0.000000 s");
        assert_eq!(offset(-1_500_000), "-1.500000 s");
        assert_eq!(offset(61_000_001), "+61.000001 s");
    }
}
