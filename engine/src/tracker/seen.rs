// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes when a socket was last listed or a record of it arrived, and whether it has vanished: disappeared without a final record.

use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

/// A socket has vanished if it was not listed for this many ticks (the BPF iterator may skip a socket while others are removed) ...
pub(super) const MIN_MISSED_TICKS: u32 = 10;
/// ... and for at least this time: the BPF programs list an idle socket only every 8 to 16 seconds (snapshot.bpf.c).
pub(super) const MAX_UNSEEN: Nanos = Nanos(40_000_000_000);

/// When a socket was last listed, or a record of it last arrived.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Whether the socket was listed, or a record of it arrived, since the last tick.
    is_new: bool,
    /// Time of the last tick at which `is_new` was set.
    at: Nanos,
    /// Number of consecutive ticks in which `is_new` was not set.
    missed_ticks: u32,
    has_vanished: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self { is_new: true, at: Nanos(0), missed_ticks: 0, has_vanished: false }
    }
}

impl Seen {
    /// Notes that the socket was listed, or that a record of it arrived.
    pub(super) fn note(&mut self) {
        self.is_new = true;
    }

    /// Sets the time at which the socket was last listed, when its idle connection becomes active.
    pub(super) fn resume(&mut self, at: Nanos) {
        (self.at, self.missed_ticks) = (self.at.max(at), 0);
    }

    /// Ends a tick. Returns whether the socket has just vanished.
    pub(super) fn on_tick(&mut self, now: Nanos) -> bool {
        if std::mem::take(&mut self.is_new) {
            *self = Self { is_new: false, at: now, missed_ticks: 0, has_vanished: false };
            return false;
        }
        self.missed_ticks = self.missed_ticks.saturating_add(1);
        let had_vanished = self.has_vanished;
        self.has_vanished = self.missed_ticks >= MIN_MISSED_TICKS && now.since(self.at) >= MAX_UNSEEN;
        self.has_vanished && !had_vanished
    }

    /// Whether the socket has vanished, so that no more records will arrive.
    pub(super) fn has_vanished(&self) -> bool {
        self.has_vanished
    }

    /// Whether the socket was listed, or a record of it arrived, in the last tick.
    pub(super) fn is_current(&self) -> bool {
        self.missed_ticks == 0
    }

    /// Whether the socket was listed, or a record of it arrived, within [`MAX_UNSEEN`].
    pub(super) fn is_recent(&self, now: Nanos) -> bool {
        now.since(self.at) < MAX_UNSEEN
    }
}
