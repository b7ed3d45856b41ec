// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline of a connection, stored without saying anything twice: that it was opened, that a subflow was opened, established
//! and closed follows from the times that their rows hold anyway. Only what is left is an event of its own.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};

use super::names::Numbers;
use super::row::{EventRow, TOLD_CLOSING, TOLD_END, TOLD_OPENING, TOLD_SYN, number};
use super::write::nanos;

/// How a timeline is stored.
#[derive(Default)]
pub(super) struct Told<'a> {
    /// Flags of the connection's row.
    pub(super) of_connection: i64,
    subflows: HashMap<SubflowId, ToldOfSubflow>,
    /// What follows from no row.
    pub(super) apart: Vec<&'a TimelineEntry>,
}

/// What the row of a subflow tells.
#[derive(Clone, Copy, Default)]
pub(super) struct ToldOfSubflow {
    /// Flags of its row.
    pub(super) flags: i64,
    /// When it was established.
    pub(super) established: Option<Timestamp>,
}

impl Told<'_> {
    pub(super) fn of_subflow(&self, id: SubflowId) -> ToldOfSubflow {
        self.subflows.get(&id).copied().unwrap_or_default()
    }
}

/// Takes a timeline apart. Where putting it together would give another one, all entries are stored as they are.
pub(super) fn told(connection: &Connection) -> Told<'_> {
    let told = divide(connection);
    let again = together(connection, &told);
    if again.iter().eq(connection.timeline.iter()) {
        return told;
    }
    Told { apart: connection.timeline.iter().collect(), ..Told::default() }
}

fn divide(connection: &Connection) -> Told<'_> {
    let mut told = Told::default();
    for entry in &connection.timeline {
        if entry.source == ObservedBy::Sampled || !follows(connection, entry, &mut told) {
            told.apart.push(entry);
        }
    }
    told
}

/// Whether an entry follows from what rows say; notes it there.
fn follows(connection: &Connection, entry: &TimelineEntry, told: &mut Told<'_>) -> bool {
    let find = |id: SubflowId| connection.subflows.iter().find(|subflow| subflow.id == id);
    let mut once = |id: SubflowId, bit: i64| {
        let flags = &mut told.subflows.entry(id).or_default().flags;
        let is_new = *flags & bit == 0;
        *flags |= bit;
        is_new
    };
    match entry.event {
        TimelineEvent::Opened if connection.opened_at == Some(entry.at) => {
            note(&mut told.of_connection, TOLD_OPENING)
        }
        TimelineEvent::Closed if connection.closed_at == Some(entry.at) => {
            note(&mut told.of_connection, TOLD_CLOSING)
        }
        TimelineEvent::SubflowOpened { subflow } => {
            find(subflow).is_some_and(|s| s.created_at == Some(entry.at)) && once(subflow, TOLD_SYN)
        }
        TimelineEvent::SubflowClosed { subflow, reason } => {
            let is_it =
                |closed: mpwatch_model::subflow::Closed| closed.at == entry.at && closed.reason == reason;
            find(subflow).and_then(|s| s.closed).is_some_and(is_it) && once(subflow, TOLD_END)
        }
        TimelineEvent::SubflowEstablished { subflow } => {
            let established = &mut told.subflows.entry(subflow).or_default().established;
            find(subflow).is_some() && established.replace(entry.at).is_none()
        }
        _ => false,
    }
}

fn note(flags: &mut i64, bit: i64) -> bool {
    let is_new = *flags & bit == 0;
    *flags |= bit;
    is_new
}

/// Puts a timeline together from what rows tell of a connection, and the events apart.
fn together(connection: &Connection, told: &Told<'_>) -> Vec<TimelineEntry> {
    let mut entries: Vec<TimelineEntry> = told.apart.iter().map(|entry| (*entry).clone()).collect();
    entries.extend(implied(connection, told.of_connection, |id| told.of_subflow(id)));
    in_order(&mut entries);
    entries
}

/// The entries that follow from the rows of a connection.
pub(super) fn implied(
    connection: &Connection,
    flags: i64,
    of_subflow: impl Fn(SubflowId) -> ToldOfSubflow,
) -> Vec<TimelineEntry> {
    let mut entries = Vec::new();
    let mut tell = |at: Option<Timestamp>, what: TimelineEvent| {
        entries.extend(at.map(|at| TimelineEntry { at, source: ObservedBy::Tracepoint, event: what }));
    };
    tell(connection.opened_at.filter(|_| flags & TOLD_OPENING != 0), TimelineEvent::Opened);
    let mut seen = HashSet::new();
    for subflow in connection.subflows.iter().filter(|subflow| seen.insert(subflow.id)) {
        let (id, told) = (subflow.id, of_subflow(subflow.id));
        tell(
            subflow.created_at.filter(|_| told.flags & TOLD_SYN != 0),
            TimelineEvent::SubflowOpened { subflow: id },
        );
        tell(told.established, TimelineEvent::SubflowEstablished { subflow: id });
        if let Some(closed) = subflow.closed.filter(|_| told.flags & TOLD_END != 0) {
            tell(Some(closed.at), TimelineEvent::SubflowClosed { subflow: id, reason: closed.reason });
        }
    }
    tell(connection.closed_at.filter(|_| flags & TOLD_CLOSING != 0), TimelineEvent::Closed);
    entries
}

/// By time; of one moment, the order in which the tracker tells things.
pub(super) fn in_order(entries: &mut [TimelineEntry]) {
    let rank = |what: &TimelineEvent| match what {
        TimelineEvent::Opened | TimelineEvent::Adopted => 0,
        TimelineEvent::SubflowOpened { .. } => 1,
        TimelineEvent::SubflowEstablished { .. } => 2,
        TimelineEvent::Closed => 4,
        _ => 3,
    };
    entries.sort_by_key(|entry| (entry.at, rank(&entry.event)));
}

/// The row of an event.
pub(super) fn event_row(
    entry: &TimelineEntry,
    connection: i64,
    seq: i64,
    began_ns: i64,
    numbers: &mut impl Numbers,
) -> rusqlite::Result<EventRow> {
    let parts = Parts::of(&entry.event);
    Ok(EventRow {
        connection,
        seq,
        after_ns: nanos(entry.at) - began_ns,
        source: numbers.word(entry.source.as_str())?,
        kind: numbers.word(parts.kind)?,
        subflow: parts.subflow.map(|id| id.to_string()),
        number: parts.number,
        word: numbers.maybe(parts.word)?,
        address: parts.address,
    })
}

/// What happened, in columns.
struct Parts {
    kind: &'static str,
    subflow: Option<SubflowId>,
    number: Option<i64>,
    word: Option<&'static str>,
    address: Option<String>,
}

impl Parts {
    fn of(what: &TimelineEvent) -> Self {
        let plain = |kind| Self { kind, subflow: None, number: None, word: None, address: None };
        match *what {
            TimelineEvent::Opened => plain("opened"),
            TimelineEvent::Adopted => plain("adopted"),
            TimelineEvent::SubflowOpened { subflow } => {
                Self { subflow: Some(subflow), ..plain("subflow_opened") }
            }
            TimelineEvent::SubflowEstablished { subflow } => {
                Self { subflow: Some(subflow), ..plain("subflow_established") }
            }
            TimelineEvent::SubflowClosed { subflow, reason } => {
                Self { subflow: Some(subflow), word: Some(reason.as_str()), ..plain("subflow_closed") }
            }
            TimelineEvent::SubflowStale { subflow, stale } => {
                Self { subflow: Some(subflow), number: Some(stale.into()), ..plain("subflow_stale") }
            }
            TimelineEvent::PriorityChanged { subflow, backup } => {
                Self { subflow: Some(subflow), number: Some(backup.into()), ..plain("priority_changed") }
            }
            TimelineEvent::AddressAnnounced { total } => {
                Self { number: Some(total.into()), ..plain("address_announced") }
            }
            TimelineEvent::PeerAddressAnnounced { address_id, address } => Self {
                number: Some(address_id.into()),
                address: address.map(|address| address.to_string()),
                ..plain("peer_address_announced")
            },
            TimelineEvent::PeerAddressRemoved { address_id } => {
                Self { number: Some(address_id.into()), ..plain("peer_address_removed") }
            }
            TimelineEvent::Stalled { gap } => Self { number: Some(number(gap.0)), ..plain("stalled") },
            TimelineEvent::FellBack { reason } => Self { word: Some(reason.as_str()), ..plain("fell_back") },
            TimelineEvent::Closed => plain("closed"),
        }
    }
}
