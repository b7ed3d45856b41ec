// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the bottlenecks of a connection to a row for each pair of subflows, and columns of the connection for method, groups and caps.

use std::fmt::Write as _;

use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict, SharedCap};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::SubflowId;

use super::columns::damaged;
use super::rows::{BottleneckColumns, PairRow};
use super::values::{Shared, json};

fn place(subflows: &[Subflow], id: SubflowId) -> Option<u64> {
    Some(1 + subflows.iter().position(|subflow| subflow.id == id)? as u64)
}

fn id(subflows: &[Subflow], place: u64) -> rusqlite::Result<SubflowId> {
    let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
    let found = index.and_then(|index| subflows.get(index)).map(|subflow| subflow.id);
    found.ok_or_else(|| damaged(0, format!("a verdict on subflow {place}, which is not stored")))
}

/// The columns of the connection.
pub(crate) fn columns(found: &Bottlenecks, subflows: &[Subflow]) -> rusqlite::Result<BottleneckColumns> {
    let shared_caps = Some(&found.shared_caps).filter(|caps| !caps.is_empty()).map(json).transpose()?;
    Ok(BottleneckColumns {
        method: found.method,
        groups: Shared(groups(found, subflows).into()),
        shared_caps,
    })
}

fn groups(found: &Bottlenecks, subflows: &[Subflow]) -> String {
    let mut text = String::with_capacity(64);
    for group in &found.groups {
        text.push_str(if text.is_empty() { "[[" } else { ",[" });
        for (place, nth) in group.iter().filter_map(|id| place(subflows, *id)).zip(0..) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{place}", if nth == 0 { "" } else { "," });
        }
        text.push(']');
    }
    text.push_str(if text.is_empty() { "[]" } else { "]" });
    text
}

/// The row of a verdict. `None`: a subflow does not belong to this connection.
pub(crate) fn pair_row(pair: &PairVerdict, subflows: &[Subflow], connection: i64) -> Option<PairRow> {
    let PairVerdict { a, b, verdict, probability, since, evidence } = *pair;
    let (a, b) = (place(subflows, a)?, place(subflows, b)?);
    Some(PairRow { connection, a, b, verdict, probability, since, evidence })
}

/// Restores the bottlenecks, with pairs in the order of the subflows. `None`: they were not evaluated.
pub(crate) fn restore(
    columns: Option<&BottleneckColumns>,
    mut pairs: Vec<PairRow>,
    subflows: &[Subflow],
) -> rusqlite::Result<Option<Bottlenecks>> {
    let Some(BottleneckColumns { method, groups, shared_caps }) = columns else { return Ok(None) };
    let unreadable = |error: serde_json::Error| damaged(0, format!("bottlenecks: {error}"));
    let groups: Vec<Vec<u64>> = serde_json::from_str(&groups.0).map_err(unreadable)?;
    let groups = groups.into_iter().map(|group| group.into_iter().map(|place| id(subflows, place)).collect());
    pairs.sort_by_key(|pair| (pair.a.min(pair.b), pair.a.max(pair.b)));
    let pairs = pairs.into_iter().map(|pair| {
        let PairRow { connection: _, a, b, verdict, probability, since, evidence } = pair;
        let (a, b) = (id(subflows, a)?, id(subflows, b)?);
        Ok(PairVerdict { a, b, verdict, probability, since, evidence })
    });
    let caps: Option<Vec<SharedCap>> =
        shared_caps.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?;
    Ok(Some(Bottlenecks {
        method: *method,
        groups: groups.collect::<rusqlite::Result<_>>()?,
        pairs: pairs.collect::<rusqlite::Result<_>>()?,
        shared_caps: caps.unwrap_or_default(),
    }))
}
