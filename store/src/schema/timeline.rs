// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts timelines. Opening, establishment and end are columns of connections and subflows; all other entries are rows of `event`.

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::id::SubflowId;
use serde_json::{Map, Value};

use super::columns::damaged;
use super::rows::EventRow;
use super::values::TextId;

/// The time at which a subflow was established, as reported by a tracepoint.
pub(crate) fn established_at(timeline: &[TimelineEntry], id: SubflowId) -> Option<Timestamp> {
    let is_wanted = |entry: &&TimelineEntry| {
        entry.source == ObservedBy::Tracepoint
            && matches!(entry.event, TimelineEvent::SubflowEstablished { subflow } if subflow == id)
    };
    timeline.iter().find(is_wanted).map(|entry| entry.at)
}

/// The rows of entries that do not follow from columns. If a step was reported several times, each report has a row.
pub(crate) fn event_rows(connection: &Connection, number: i64) -> rusqlite::Result<Vec<EventRow>> {
    let timeline = &connection.timeline;
    let established: Vec<_> =
        connection.subflows.iter().map(|subflow| established_at(timeline, subflow.id)).collect();
    let of_columns = entries_of_columns(connection, &established);
    let apart: Vec<_> = timeline.iter().filter(|entry| !of_columns.contains(entry)).collect();
    if apart.is_empty() {
        return Ok(Vec::new());
    }
    let is_apart = |entry: &&TimelineEntry| {
        apart.iter().any(|other| std::ptr::eq(*other, *entry) || is_same_step(&other.event, &entry.event))
    };
    timeline.iter().filter(is_apart).zip(0..).map(|(entry, nth)| event_row(entry, number, nth)).collect()
}

/// Restores a timeline. `established`: time of establishment of each subflow.
pub(crate) fn restore(
    connection: &Connection,
    established: &[Option<Timestamp>],
    rows: &[EventRow],
) -> rusqlite::Result<Vec<TimelineEntry>> {
    let mut entries = rows.iter().map(entry).collect::<rusqlite::Result<Vec<_>>>()?;
    let of_columns = entries_of_columns(connection, established);
    // If a step has rows, they contain all its reports.
    let added: Vec<_> = of_columns
        .into_iter()
        .filter(|entry| !entries.iter().any(|row| is_same_step(&row.event, &entry.event)))
        .collect();
    entries.extend(added);
    Ok(entries)
}

fn entries_of_columns(connection: &Connection, established: &[Option<Timestamp>]) -> Vec<TimelineEntry> {
    let mut entries = Vec::new();
    let mut add = |at: Option<Timestamp>, event: TimelineEvent| {
        entries.extend(at.map(|at| TimelineEntry { at, source: ObservedBy::Tracepoint, event }));
    };
    add(connection.opened_at, TimelineEvent::Opened);
    for (subflow, established) in connection.subflows.iter().zip(established) {
        let id = subflow.id;
        add(subflow.created_at, TimelineEvent::SubflowOpened { subflow: id });
        add(*established, TimelineEvent::SubflowEstablished { subflow: id });
        if let Some(Closed { at, reason }) = subflow.closed {
            add(Some(at), TimelineEvent::SubflowClosed { subflow: id, reason });
        }
    }
    add(connection.closed_at, TimelineEvent::Closed);
    entries
}

/// Whether two events report the same step in the life of the same connection or subflow.
fn is_same_step(a: &TimelineEvent, b: &TimelineEvent) -> bool {
    use TimelineEvent::{Closed, Opened, SubflowClosed, SubflowEstablished, SubflowOpened};
    match (a, b) {
        (Opened, Opened) | (Closed, Closed) => true,
        (SubflowOpened { subflow: a }, SubflowOpened { subflow: b })
        | (SubflowEstablished { subflow: a }, SubflowEstablished { subflow: b })
        | (SubflowClosed { subflow: a, .. }, SubflowClosed { subflow: b, .. }) => a == b,
        _ => false,
    }
}

fn event_row(entry: &TimelineEntry, connection: i64, number: i64) -> rusqlite::Result<EventRow> {
    let unwritable = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let Value::Object(mut fields) = serde_json::to_value(&entry.event).map_err(unwritable)? else {
        return Err(damaged(0, "an event is not a JSON object".to_owned()));
    };
    let event =
        fields.remove("event").and_then(|event| event.as_str().map(str::to_owned)).unwrap_or_default();
    let subflow = fields.remove("subflow").and_then(|id| id.as_str()?.parse().ok()).map(TextId);
    let detail = if fields.is_empty() { None } else { Some(Value::Object(fields).to_string()) };
    let source = entry.source.as_str().to_owned();
    Ok(EventRow { connection, number, at: entry.at, source, event, subflow, detail })
}

fn entry(row: &EventRow) -> rusqlite::Result<TimelineEntry> {
    let unreadable = |error: serde_json::Error| damaged(0, format!("event `{}`: {error}", row.event));
    let detail = row.detail.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?;
    let mut fields: Map<String, Value> = detail.unwrap_or_default();
    fields.insert("event".to_owned(), row.event.clone().into());
    fields.extend(row.subflow.map(|id| ("subflow".to_owned(), id.0.to_string().into())));
    let event = serde_json::from_value(Value::Object(fields)).map_err(unreadable)?;
    let source = serde_json::from_value(row.source.clone().into()).map_err(unreadable)?;
    Ok(TimelineEntry { at: row.at, source, event })
}
