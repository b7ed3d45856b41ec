// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bottlenecks of a connection: a row for each pair of subflows; method, groups and shared caps are columns of the connection. Subflows are
//! named by their places, from 1.

use std::fmt::Write as _;

use mpwatch_model::bottleneck::{Bottlenecks, PairVerdict, SharedCap};
use mpwatch_model::id::SubflowId;
use mpwatch_model::subflow::Subflow;

use crate::columns::{Shared, damaged};
use crate::rows::{ConnectionRow, PairRow};

fn place(subflows: &[Subflow], id: SubflowId) -> Option<u64> {
    Some(1 + subflows.iter().position(|subflow| subflow.id == id)? as u64)
}

fn id(subflows: &[Subflow], place: u64) -> rusqlite::Result<SubflowId> {
    let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
    let found = index.and_then(|index| subflows.get(index)).map(|subflow| subflow.id);
    found.ok_or_else(|| damaged(0, format!("a verdict on subflow {place}, which is not stored")))
}

/// The groups as JSON.
pub(crate) fn groups(found: &Bottlenecks, subflows: &[Subflow]) -> Shared<'static> {
    let mut text = String::with_capacity(64);
    text.push('[');
    for group in &found.groups {
        text.push_str(if text.len() == 1 { "[" } else { ",[" });
        let places = group.iter().filter_map(|id| place(subflows, *id)).zip(0..);
        places.for_each(|(place, nth)| {
            write!(text, "{}{place}", if nth == 0 { "" } else { "," }).unwrap_or_default()
        });
        text.push(']');
    }
    text.push(']');
    Shared(text.into())
}

/// The shared caps as JSON. `None`: there are none.
pub(crate) fn shared_caps(found: &Bottlenecks) -> rusqlite::Result<Option<String>> {
    let caps = Some(&found.shared_caps).filter(|caps| !caps.is_empty());
    let text = caps.map(serde_json::to_string).transpose();
    text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The row of a verdict. `None`: one of the subflows is not of this connection.
pub(crate) fn pair_row(pair: &PairVerdict, subflows: &[Subflow], connection: i64) -> Option<PairRow> {
    let PairVerdict { a, b, verdict, probability, since, evidence } = *pair;
    let (a, b) = (place(subflows, a)?, place(subflows, b)?);
    Some(PairRow { connection, a, b, verdict, probability, since, evidence })
}

/// Puts them together; pairs in the order of the subflows. `None`: there was no detection.
pub(crate) fn restore(
    row: &ConnectionRow<'_>,
    mut pairs: Vec<PairRow>,
    subflows: &[Subflow],
) -> rusqlite::Result<Option<Bottlenecks>> {
    let (Some(method), Some(Shared(groups))) = (row.bottleneck_method, &row.bottleneck_groups) else {
        return Ok(None);
    };
    let unreadable = |error: serde_json::Error| damaged(0, format!("bottlenecks: {error}"));
    let groups: Vec<Vec<u64>> = serde_json::from_str(groups).map_err(unreadable)?;
    let groups = groups.into_iter().map(|group| group.into_iter().map(|place| id(subflows, place)).collect());
    pairs.sort_by_key(|pair| (pair.a.min(pair.b), pair.a.max(pair.b)));
    let pairs = pairs.into_iter().map(|pair| {
        let PairRow { connection: _, a, b, verdict, probability, since, evidence } = pair;
        let (a, b) = (id(subflows, a)?, id(subflows, b)?);
        Ok(PairVerdict { a, b, verdict, probability, since, evidence })
    });
    let caps: Option<Vec<SharedCap>> =
        row.shared_caps.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?;
    Ok(Some(Bottlenecks {
        method,
        groups: groups.collect::<rusqlite::Result<_>>()?,
        pairs: pairs.collect::<rusqlite::Result<_>>()?,
        shared_caps: caps.unwrap_or_default(),
    }))
}
