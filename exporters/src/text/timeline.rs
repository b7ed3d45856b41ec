// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to a connection, with times from its opening.

use std::fmt::Write as _;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::timeline::What;
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

/// The section of a connection's report. Empty without entries.
pub(super) fn section(connection: &Connection) -> String {
    if connection.timeline.is_empty() {
        return String::new();
    }
    let from = if connection.opened_at.is_some() { "its opening" } else { "when mpwatch first saw it" };
    let mut text = format!("  timeline, from {from}\n");
    let lines: Vec<_> = connection
        .timeline
        .iter()
        .map(|entry| {
            let mark = if is_trouble(&entry.what) { '!' } else { ' ' };
            let sentence = entry.what.sentence(|subflow| place(connection, subflow));
            (offset(micros_after(connection, entry.at)), mark, sentence, entry.source.word())
        })
        .collect();
    let time_width = lines.iter().map(|line| line.0.width()).max().unwrap_or(0);
    let sentence_width = lines.iter().map(|line| line.2.width()).max().unwrap_or(0);
    for (time, mark, sentence, source) in lines {
        let _ = writeln!(text, "  {mark} {time:>time_width$}  {sentence:sentence_width$}  [{source}]");
    }
    text
}

fn is_trouble(what: &What) -> bool {
    match what {
        What::SubflowStale { stale, .. } => *stale,
        What::SubflowClosed { reason, .. } => reason.is_failure(),
        What::Stalled { .. } | What::FellBack { .. } => true,
        What::Opened
        | What::Adopted
        | What::SubflowOpened { .. }
        | What::SubflowEstablished { .. }
        | What::PriorityChanged { .. }
        | What::AddressAnnounced { .. }
        | What::PeerAddressAnnounced { .. }
        | What::PeerAddressRemoved { .. }
        | What::Closed => false,
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
