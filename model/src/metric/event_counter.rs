// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of events in the life of a flow. Each flow counts once, so the counters never decrease.

use crate::flow::connection::Connection;
use crate::flow::subflow::Subflow;
use crate::kernel::lifecycle::{CloseReason, FallbackReason, Protocol, Role, TcpState};

/// An event that happens at most once to a connection or subflow.
pub struct EventCounter<T: 'static> {
    /// Full name, `mpwatch_host_<what>_total`.
    pub name: &'static str,
    /// Description in one sentence.
    pub help: &'static str,
    /// Name of the label with the kind of event.
    pub label: &'static str,
    /// All values of the label. The series of each value exists from the start.
    pub values: &'static [&'static str],
    /// The kind of event that happened. `None`: the event has not happened, or its kind is unknown.
    pub kind: fn(&T) -> Option<&'static str>,
    /// Full name of the same counter by interface (subflows) or by listener (connections). `None`: there is none.
    pub apart: Option<&'static str>,
}

const ROLES: &[&str] = &["client", "server", "unknown"];

fn role(connection: &Connection) -> &'static str {
    connection.role.map_or("unknown", Role::as_str)
}

/// What a client got from a listener of this host. `None`: this host opened the connection, its opening was not traced, or the process is
/// still unknown.
fn accepted(connection: &Connection) -> Option<&'static str> {
    let is_known = connection.process.is_some() || connection.closed_at.is_some();
    (connection.role == Some(Role::Server) && connection.seen_open && is_known).then_some(())?;
    Some(match (connection.protocol, connection.fallback) {
        (Protocol::Tcp, _) => "tcp",
        (Protocol::Mptcp, Some(_)) => "fell_back",
        (Protocol::Mptcp, None) => "mptcp",
    })
}

/// Outcomes of a join.
const JOINS: &[&str] =
    &["established", "refused", "unanswered", "option_removed", "host_unreachable", "not_sent", "other"];

/// How a join ended, or that it became a path. `None`: no join, its SYN was not traced, or the peer has not answered yet.
fn join(subflow: &Subflow) -> Option<&'static str> {
    subflow.created_at.filter(|_| !subflow.initial)?;
    let reason = || subflow.closed.map(|closed| closed.reason.as_str());
    if subflow.is_path() {
        return (subflow.closed.is_some() || subflow.state == TcpState::Established).then_some("established");
    }
    reason().map(|reason| JOINS.iter().find(|known| **known == reason).copied().unwrap_or("other"))
}

/// The only name of a list. `None`: it is empty.
const fn only(names: &[&'static str]) -> Option<&'static str> {
    match names {
        [name] => Some(*name),
        _ => None,
    }
}

/// Declares tables of event counters: name, label, values of the label, help, the kind of event, and the name of the counter by interface or listener.
macro_rules! events {
    ($($(#[$doc:meta])* $table:ident: $subject:ty { $($name:literal $label:literal $values:expr, $help:literal $kind:expr $(, $interface:literal)?;)* })*) => {
        $($(#[$doc])*
        pub static $table: &[EventCounter<$subject>] =
            &[$(EventCounter {
                name: $name,
                help: $help,
                label: $label,
                values: $values,
                kind: $kind,
                apart: only(&[$($interface)?]),
            }),*];)*
    };
}

events! {
    /// Events of connections.
    CONNECTION_EVENTS: Connection {
        "mpwatch_host_connections_opened_total" "role" ROLES, "Connections whose opening was traced." |c| c.seen_open.then(|| role(c));
        "mpwatch_host_connections_closed_total" "role" ROLES, "Connections that closed." |c| c.closed_at.map(|_| role(c));
        "mpwatch_host_accepted_connections_total" "got" &["mptcp", "fell_back", "tcp"], "Connections that listeners of this host accepted, by the protocol that the client got; plain TCP only with `--tcp`." accepted, "mpwatch_listener_accepted_connections_total";
        "mpwatch_host_fallbacks_total" "reason" FallbackReason::WORDS, "Connections that fell back to plain TCP and whose opening was traced." |c| c.fallback.filter(|_| c.seen_open).map(|fallback| fallback.reason.as_str());
    }
    /// Events of subflows.
    SUBFLOW_EVENTS: Subflow {
        "mpwatch_host_subflows_opened_total" "kind" &["initial", "join"], "Subflows whose SYN was traced." |s| s.created_at.map(|_| if s.initial { "initial" } else { "join" });
        "mpwatch_host_subflows_closed_total" "reason" CloseReason::WORDS, "Subflows that ended." |s| s.closed.map(|closed| closed.reason.as_str());
        "mpwatch_host_joins_total" "result" JOINS, "Joins (MP_JOIN) whose SYN was traced, by their outcome. Only established joins are paths." join, "mpwatch_interface_joins_total";
    }
}
