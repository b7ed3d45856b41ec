// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a connection to rows and back.

use std::borrow::Cow;

use jiff::Timestamp;
use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::series::CounterSample;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SubflowId};
use mpwatch_model::settle;
use mpwatch_model::unit::Nanos;

use super::columns::damaged;
use super::names::Netns;
use super::rows::{BottleneckColumns, ConnectionRow, EventRow, PairRow, SampleRow, SubflowRow};
use super::timeline;
use super::values::{Derived, Groups, nanos, timestamp};

/// The values of a connection's row that the store assigns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Number of the connection.
    pub(crate) id: i64,
    /// Number of the last run that observed it.
    pub(crate) run: i64,
    /// Number of runs that observed it.
    pub(crate) runs: i64,
    /// When it was last observed.
    pub(crate) seen_at: Timestamp,
    /// Number of this change; a later change has a larger number. An export reads the rows that changed after the last row that it sent.
    pub(crate) changed: i64,
}

/// Maximum number of verdicts that are stored and exported per connection: all pairs of 45 subflows. The kernel limits the subflows that are
/// open at a time, but a peer can open and close thousands one after the other.
pub(crate) const MAX_PAIRS: usize = 1_000;

/// When a connection was opened or first observed, and its age.
fn lifetime(connection: &Connection, seen_at: Timestamp) -> (Timestamp, Nanos) {
    let until = nanos(connection.closed_at.unwrap_or(seen_at));
    let began = match (connection.opened_at, connection.closed_at) {
        (Some(opened), Some(_)) => return (opened, Nanos((until - nanos(opened)).max(0).unsigned_abs())),
        (Some(opened), None) => opened,
        (None, _) => timestamp(until - whole_nanos(connection.age_s)),
    };
    (began, Nanos(whole_nanos(connection.age_s).unsigned_abs()))
}

/// An age in seconds as nanoseconds.
#[allow(clippy::cast_possible_truncation, reason = "an `as` cast saturates, which is right for a broken age")]
pub(crate) fn whole_nanos(seconds: f64) -> i64 {
    (seconds.max(0.0) * 1e9).round() as i64
}

pub(crate) fn connection_row(connection: &Connection, key: Key) -> ConnectionRow<'_> {
    let (began, age) = lifetime(connection, key.seen_at);
    let id = connection.id;
    ConnectionRow {
        id: key.id,
        run: key.run,
        runs: key.runs,
        netns: Netns {
            cookie: id.netns.0,
            inode: connection.netns_inode,
            name: connection.netns.as_str().into(),
        },
        token: id.token.known(),
        birth: id.birth,
        began,
        age,
        seen_open: connection.opened_at.is_some(),
        closed: connection.closed_at.is_some(),
        partly_observed: connection.is_partly_observed(),
        connection: Cow::Borrowed(connection),
        bottlenecks: connection
            .bottlenecks
            .as_ref()
            .map(|found| bottleneck_columns(found, &connection.subflows)),
        derived: Derived(Some(connection)),
        changed: key.changed,
    }
}

pub(crate) fn subflow_rows(connection: &Connection, id: i64) -> impl Iterator<Item = SubflowRow<'_>> {
    connection.subflows.iter().map(move |subflow| SubflowRow {
        connection: id,
        place: subflow.place,
        subflow: Cow::Borrowed(subflow),
        established: timeline::established_at(&connection.timeline, subflow.id),
        derived: Derived(Some(subflow)),
    })
}

/// The rows of the verdicts. Verdicts with evidence come first, because the number of rows is bounded.
pub(crate) fn pair_rows(connection: &Connection, id: i64) -> impl Iterator<Item = PairRow> {
    let pairs = connection.bottlenecks.as_ref().map_or(&[][..], |found| &found.pairs);
    let with_evidence = |wanted| pairs.iter().filter(move |pair| pair.evidence.is_some() == wanted);
    let first = with_evidence(true).chain(with_evidence(false)).take(MAX_PAIRS);
    first.filter_map(move |&PairVerdict { a, b, verdict, probability, since, evidence }| {
        // `None`: a subflow does not belong to this connection.
        let (a, b) = (place(&connection.subflows, a)?, place(&connection.subflows, b)?);
        Some(PairRow { connection: id, a, b, verdict, probability, since, evidence })
    })
}

/// A sample of each open subflow.
pub(crate) fn sample_rows(connection: &Connection, key: Key) -> impl Iterator<Item = SampleRow> {
    let open = connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
    open.map(move |subflow| SampleRow {
        connection: key.id,
        place: subflow.place,
        sample: CounterSample::new(subflow, key.seen_at),
    })
}

/// Restores a connection from its rows.
pub(crate) fn restore(
    row: &ConnectionRow<'static>,
    subflows: Vec<SubflowRow<'static>>,
    pairs: Vec<PairRow>,
    events: &[EventRow],
) -> rusqlite::Result<Connection> {
    let established: Vec<_> = subflows.iter().map(|row| row.established).collect();
    let subflow = |row: SubflowRow<'static>| Subflow { place: row.place, ..row.subflow.into_owned() };
    let subflows: Vec<Subflow> = subflows.into_iter().map(subflow).collect();
    let until = timestamp(nanos(row.began).saturating_add(i64::try_from(row.age.0).unwrap_or(i64::MAX)));
    let bottlenecks = row.bottlenecks.as_ref().map(|columns| bottlenecks(columns, pairs, &subflows));
    let mut connection = Connection {
        id: ConnectionId {
            netns: NetnsCookie(row.netns.cookie),
            token: row.token.unwrap_or_default(),
            birth: row.birth,
        },
        token: row.token,
        netns: row.netns.name.to_string(),
        netns_inode: row.netns.inode,
        opened_at: row.seen_open.then_some(row.began),
        seen_open: row.seen_open,
        age_s: row.age.seconds(),
        closed_at: row.closed.then_some(until),
        bottlenecks: bottlenecks.transpose()?,
        subflows,
        ..row.connection.clone().into_owned()
    };
    connection.timeline = timeline::restore(&connection, &established, events)?;
    Ok(settle::settled(connection))
}

fn place(subflows: &[Subflow], id: SubflowId) -> Option<u64> {
    Some(subflows.iter().find(|subflow| subflow.id == id)?.place.into())
}

/// The subflow at this place.
pub(crate) fn at_place(subflows: &[Subflow], place: u64) -> Option<&Subflow> {
    let index = subflows.binary_search_by_key(&place, |subflow| subflow.place.into()).ok()?;
    subflows.get(index)
}

fn id(subflows: &[Subflow], place: u64) -> rusqlite::Result<SubflowId> {
    let found = at_place(subflows, place).map(|subflow| subflow.id);
    found.ok_or_else(|| damaged(0, format!("there is a verdict on subflow {place}, which is not stored")))
}

/// The columns of bottlenecks in a connection's row.
fn bottleneck_columns(found: &Bottlenecks, subflows: &[Subflow]) -> BottleneckColumns {
    let places = |group: &Vec<SubflowId>| group.iter().filter_map(|id| place(subflows, *id)).collect();
    BottleneckColumns {
        method: found.method,
        groups: Groups(found.groups.iter().map(places).collect()),
        shared_caps: Some(found.shared_caps.clone()).filter(|caps| !caps.is_empty()),
    }
}

/// The bottlenecks, with pairs in the order of the subflows.
fn bottlenecks(
    columns: &BottleneckColumns,
    mut pairs: Vec<PairRow>,
    subflows: &[Subflow],
) -> rusqlite::Result<Bottlenecks> {
    let ids = |group: &Vec<u64>| group.iter().map(|&place| id(subflows, place)).collect();
    pairs.sort_by_key(|pair| (pair.a.min(pair.b), pair.a.max(pair.b)));
    let pairs = pairs.into_iter().map(|pair| {
        let PairRow { connection: _, a, b, verdict, probability, since, evidence } = pair;
        let (a, b) = (id(subflows, a)?, id(subflows, b)?);
        Ok(PairVerdict { a, b, verdict, probability, since, evidence })
    });
    Ok(Bottlenecks {
        method: columns.method,
        groups: columns.groups.0.iter().map(ids).collect::<rusqlite::Result<_>>()?,
        pairs: pairs.collect::<rusqlite::Result<_>>()?,
        shared_caps: columns.shared_caps.clone().unwrap_or_default(),
    })
}
