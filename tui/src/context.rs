// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that rows and cells read: the snapshot that is shown, the history, and the user's choice of mask and units.

use mpwatch_model::finding::Format;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::ConnectionId;

use crate::digest::{Digested, Entry};
use crate::history::{History, Tick};
use crate::mask::Mask;
use crate::units::Units;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Index of the connection in the snapshot that is shown.
    Shown(u32),
    /// Number of the connection among the remembered closed connections.
    Closed(u32),
}

#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The snapshot that is shown. `None`: none has arrived.
    pub(crate) frame: Option<&'a Digested>,
    pub(crate) history: &'a History,
    /// The tick of `frame`.
    pub(crate) tick: Tick,
    pub(crate) mask: &'a Mask,
    pub(crate) units: Units,
}

impl<'a> Context<'a> {
    pub(crate) fn entry(self, location: Location) -> Option<Entry<'a>> {
        match location {
            Location::Shown(index) => self.frame?.entry(index as usize),
            Location::Closed(number) => self.history.closed_at(number)?.entry(),
        }
    }

    pub(crate) fn connection(self, location: Location) -> Option<&'a Connection> {
        self.entry(location).map(|entry| entry.connection)
    }

    /// Finds a connection in the shown snapshot or among the remembered closed connections. `location` is where it usually is, so that no
    /// search is necessary.
    pub(crate) fn find(self, id: ConnectionId, location: Option<Location>) -> Option<&'a Connection> {
        let is_it = |connection: &&Connection| connection.id == id;
        let usual = location.and_then(|location| self.connection(location)).filter(is_it);
        let shown = || self.frame.and_then(|frame| frame.snapshot.connections.iter().find(is_it));
        usual.or_else(shown).or_else(|| self.history.closed().rev().find(is_it))
    }

    /// Calls `write` with the format in which the screen displays findings.
    pub(crate) fn with_format<T>(self, write: impl FnOnce(&Format<'_>) -> T) -> T {
        let energy = |joules| self.units.energy(joules);
        let address = |ip| self.mask.ip(ip);
        write(&Format { energy: &energy, address: &address, names: !self.mask.is_on })
    }
}
