// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a connection that ended while mpwatch was not running.

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::settle::settled;
use mpwatch_model::unit::{BitsPerSecond, Nanos};

use crate::schema::values::nanos;

/// The record of a connection that ended after `at`, while mpwatch was not running.
pub(super) fn ended(mut connection: Connection, at: Timestamp) -> Connection {
    let reason = CloseReason::Unobserved;
    let mut events = vec![TimelineEvent::Closed];
    connection.closed_at = Some(at);
    for subflow in connection.subflows.iter_mut().filter(|subflow| subflow.closed.is_none()) {
        subflow.closed = Some(Closed { at, reason });
        events.push(TimelineEvent::SubflowClosed { subflow: subflow.id, reason });
    }
    let mut add = |at, event| {
        connection.timeline.push(TimelineEntry { at, source: ObservedBy::Sampled, event });
    };
    for event in events {
        add(at, event);
    }
    if let Some(since) = connection.outage_since.take() {
        let gap = Nanos((nanos(at) - nanos(since)).max(0).unsigned_abs()).micros();
        add(since, TimelineEvent::Stalled { gap, timeout: None });
    }
    stop_rates(&mut connection);
    settled(connection)
}

/// The record of a connection that a run has found open, although an earlier run did not list it and so ended it.
pub(super) fn reopened(mut connection: Connection) -> Connection {
    if connection.has_unobserved_end() {
        let end = connection.closed_at.take();
        for subflow in &mut connection.subflows {
            subflow.closed = subflow.closed.filter(|closed| closed.reason != CloseReason::Unobserved);
        }
        connection.timeline.retain(|entry| match entry.event {
            TimelineEvent::SubflowClosed { reason, .. } => reason != CloseReason::Unobserved,
            TimelineEvent::Closed => Some(entry.at) != end,
            _ => true,
        });
    }
    connection
}

/// Sets the rates to 0.
pub(super) fn stop_rates(connection: &mut Connection) {
    let none = Some(BitsPerSecond(0));
    (connection.send, connection.receive) = (none, none);
    connection.subflows.iter_mut().for_each(|subflow| (subflow.send, subflow.receive) = (none, none));
}
