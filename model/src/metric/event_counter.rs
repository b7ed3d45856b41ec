// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of events in the life of a flow. Each flow counts once, so the counters never decrease.

use crate::flow::connection::Connection;
use crate::flow::subflow::Subflow;
use crate::kernel::lifecycle::{CloseReason, FallbackReason, Role};

/// An event that happens at most once to a connection or subflow.
pub struct EventCounter<T: 'static> {
    /// Full name, `mpwatch_host_<what>_total`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// The label for the kind of event.
    pub label: &'static str,
    /// All values of the label; each series exists from the start.
    pub values: &'static [&'static str],
    /// The kind of event that happened. `None`: it has not happened, or is unknown.
    pub kind: fn(&T) -> Option<&'static str>,
}

const ROLES: &[&str] = &["client", "server", "unknown"];

fn role(connection: &Connection) -> &'static str {
    connection.role.map_or("unknown", Role::as_str)
}

/// Events of connections.
pub static CONNECTION_EVENTS: &[EventCounter<Connection>] = &[
    EventCounter {
        name: "mpwatch_host_connections_opened_total",
        help: "Connections whose opening was traced.",
        label: "role",
        values: ROLES,
        kind: |c| c.seen_open.then(|| role(c)),
    },
    EventCounter {
        name: "mpwatch_host_connections_closed_total",
        help: "Connections that closed.",
        label: "role",
        values: ROLES,
        kind: |c| c.closed_at.map(|_| role(c)),
    },
    EventCounter {
        name: "mpwatch_host_fallbacks_total",
        help: "Connections that fell back to plain TCP, of those whose opening was traced.",
        label: "reason",
        values: FallbackReason::WORDS,
        kind: |c| c.fallback.filter(|_| c.seen_open).map(|fallback| fallback.reason.as_str()),
    },
];

/// Events of subflows.
pub static SUBFLOW_EVENTS: &[EventCounter<Subflow>] = &[
    EventCounter {
        name: "mpwatch_host_subflows_opened_total",
        help: "Subflows whose SYN was traced.",
        label: "kind",
        values: &["initial", "join"],
        kind: |s| s.created_at.map(|_| if s.initial { "initial" } else { "join" }),
    },
    EventCounter {
        name: "mpwatch_host_subflows_closed_total",
        help: "Subflows that ended.",
        label: "reason",
        values: CloseReason::WORDS,
        kind: |s| s.closed.map(|closed| closed.reason.as_str()),
    },
];
