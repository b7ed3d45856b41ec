// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline of a connection.

use mpwatch_model::flow::timeline::{ObservedBy, TimelineEvent};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::SubflowRecord;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason};
use mpwatch_model::unit::Nanos;

use super::close;

/// Maximum number of entries per connection (about 25 kB). The first entries show how the connection began, the last its recent state. Of the
/// entries between them, the oldest is dropped and counted; failures and stalls are dropped last.
const MAX_ENTRIES: usize = 256;
const FIRST_ENTRIES: usize = MAX_ENTRIES / 2;

/// An entry, with its time on the boot clock.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) at: Nanos,
    pub(super) source: ObservedBy,
    pub(super) event: TimelineEvent,
}

#[derive(Clone, Default)]
pub(super) struct Timeline {
    entries: Vec<Entry>,
    dropped: u64,
}

impl Timeline {
    /// The entries, in the order in which they were added.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Number of entries dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Adds an entry that a tracepoint observed.
    pub(super) fn traced(&mut self, at: Nanos, event: TimelineEvent) {
        self.add(at, ObservedBy::Tracepoint, event);
    }

    /// Adds an entry that shows only in a sampled record.
    pub(super) fn sampled(&mut self, at: Nanos, event: TimelineEvent) {
        self.add(at, ObservedBy::Sampled, event);
    }

    pub(super) fn add(&mut self, at: Nanos, source: ObservedBy, event: TimelineEvent) {
        if self.entries.len() == MAX_ENTRIES {
            let stays = |entry: &Entry| {
                entry.event.is_failure() || matches!(entry.event, TimelineEvent::Stalled { .. })
            };
            let spare = self.entries.iter().skip(FIRST_ENTRIES).position(|entry| !stays(entry)).unwrap_or(0);
            self.entries.remove(FIRST_ENTRIES + spare);
            self.dropped += 1;
        }
        self.entries.push(Entry { at, source, event });
    }

    /// Adds the opening of the connection, which replaces an earlier `Adopted` entry.
    pub(super) fn opened(&mut self, at: Nanos) {
        self.traced(at, TimelineEvent::Opened);
        self.entries.retain(|entry| entry.event != TimelineEvent::Adopted);
    }

    /// Adds the fallback of the connection with this initial subflow.
    pub(super) fn fell_back(&mut self, record: &SubflowRecord, at: Nanos) {
        let reason = close::fallback_reason(record);
        let event = TimelineEvent::FellBack { reason };
        // Without MP_CAPABLE, the connection falls back during the handshake. Later fallbacks show only in a sampled record.
        let is_later = matches!(reason, FallbackReason::AfterHandshake | FallbackReason::Unknown);
        match record.established.filter(|_| !is_later) {
            Some(at) => self.traced(at, event),
            None => self.sampled(at, event),
        }
    }

    /// Corrects the reason for which a subflow ended.
    pub(super) fn correct_reason(&mut self, id: SubflowId, now_known: CloseReason) {
        for entry in &mut self.entries {
            match &mut entry.event {
                TimelineEvent::SubflowClosed { subflow, reason } if *subflow == id => *reason = now_known,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::id::SocketCookie;

    use super::*;

    #[test]
    fn the_first_and_the_last_entries_and_failures_between_them_are_kept() {
        const ADDED: usize = 10 * MAX_ENTRIES;
        let subflow = SubflowId { cookie: SocketCookie(1), generation: 0 };
        let mut timeline = Timeline::default();
        for n in 0..ADDED {
            let failure = TimelineEvent::SubflowClosed { subflow, reason: CloseReason::Timeout };
            let event = if n == ADDED / 2 { failure } else { TimelineEvent::SubflowOpened { subflow } };
            timeline.traced(Nanos(n as u64), event);
        }
        let times: Vec<u64> = timeline.entries().iter().map(|entry| entry.at.0).collect();
        let last = ADDED - (MAX_ENTRIES - FIRST_ENTRIES - 1)..ADDED;
        let expected: Vec<u64> =
            (0..FIRST_ENTRIES).chain([ADDED / 2]).chain(last).map(|n| n as u64).collect();
        assert_eq!(times, expected);
        assert_eq!(timeline.take_dropped(), (ADDED - MAX_ENTRIES) as u64);
    }
}
