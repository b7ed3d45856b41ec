// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the bottlenecks of a connection to a row for each pair of subflows, and columns of the connection for method, groups and caps.

use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::SubflowId;

use super::columns::damaged;
use super::rows::{BottleneckColumns, PairRow};
use super::values::Groups;

fn place(subflows: &[Subflow], id: SubflowId) -> Option<u64> {
    Some(1 + subflows.iter().position(|subflow| subflow.id == id)? as u64)
}

fn id(subflows: &[Subflow], place: u64) -> rusqlite::Result<SubflowId> {
    let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
    let found = index.and_then(|index| subflows.get(index)).map(|subflow| subflow.id);
    found.ok_or_else(|| damaged(0, format!("a verdict on subflow {place}, which is not stored")))
}

/// The columns of the connection.
pub(crate) fn columns(found: &Bottlenecks, subflows: &[Subflow]) -> BottleneckColumns {
    let places = |group: &Vec<SubflowId>| group.iter().filter_map(|id| place(subflows, *id)).collect();
    BottleneckColumns {
        method: found.method,
        groups: Groups(found.groups.iter().map(places).collect()),
        shared_caps: Some(found.shared_caps.clone()).filter(|caps| !caps.is_empty()),
    }
}

/// The row of a verdict. `None`: a subflow does not belong to this connection.
pub(crate) fn pair_row(pair: &PairVerdict, subflows: &[Subflow], connection: i64) -> Option<PairRow> {
    let PairVerdict { a, b, verdict, probability, since, evidence } = *pair;
    let (a, b) = (place(subflows, a)?, place(subflows, b)?);
    Some(PairRow { connection, a, b, verdict, probability, since, evidence })
}

/// Restores the bottlenecks, with pairs in the order of the subflows.
pub(crate) fn restore(
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
