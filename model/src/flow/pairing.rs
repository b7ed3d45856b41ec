// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs the two ends of a connection. If both ends are on one host, as in a lab, each end has a record of its own. The two records become
//! one flow, so that sums count its payload once.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::flow::connection::Connection;
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::id::Token;
use crate::kernel::cpu::CpuTimes;
use crate::kernel::lifecycle::{CarriedBy, Role};
use crate::unit::{Bytes, sum_if_all_known};

/// Two records without tokens are ends of one connection only if they begin at most this many seconds apart, because ports are reused.
const MAX_BEGIN_DIFFERENCE: f64 = 5.0;

/// A connection with one end or both ends in the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow<'a> {
    /// The end that connected, or the only end in the report.
    pub end: &'a Connection,
    /// The other end. `None`: it is not in the report, for example because it is on another host.
    pub other: Option<&'a Connection>,
}

impl<'a> Flow<'a> {
    /// The ends of the connection, the connecting end first.
    pub fn ends(self) -> impl Iterator<Item = &'a Connection> {
        std::iter::once(self.end).chain(self.other)
    }

    /// The subflows of all ends.
    pub fn subflows(self) -> impl Iterator<Item = &'a Subflow> {
        self.ends().flat_map(|end| &end.subflows)
    }

    /// The end that sent more payload.
    pub fn sender(self) -> &'a Connection {
        let sent = |end: &Connection| end.bytes_sent.unwrap_or_default();
        self.other.filter(|other| sent(other) > sent(self.end)).unwrap_or(self.end)
    }

    /// The end that observed more payload.
    pub fn best_observed(self) -> &'a Connection {
        let payload = Connection::observed_payload;
        self.other.filter(|other| payload(other) > payload(self.end)).unwrap_or(self.end)
    }

    /// Observed payload in both directions, each byte counted once, of the end that observed more.
    pub fn observed_payload(self) -> Bytes {
        self.best_observed().observed_payload()
    }

    /// CPU time of all ends. `None`: unknown at one end.
    pub fn cpu(self) -> Option<CpuTimes> {
        sum_if_all_known(self.ends().map(|end| end.cpu))
    }

    /// Energy of all ends, with its ratio to the payload. `None`: unknown at one end.
    pub fn energy(self) -> Option<FlowEnergy> {
        let energies: Vec<FlowEnergy> = self.ends().map(|end| end.energy).collect::<Option<_>>()?;
        Some(FlowEnergy::sum(&energies).over(self.observed_payload()))
    }
}

/// The connections of a report as flows, in the order of their first records.
///
/// Two records of an MPTCP connection are its ends if their tokens are swapped. Without tokens (plain TCP, some fallbacks), their addresses
/// must be swapped, their protocols must be equal, and they must begin within 5 s; loopback addresses must be in one network namespace.
pub fn flows(connections: &[Connection]) -> Vec<Flow<'_>> {
    let mut flows: Vec<Flow<'_>> = Vec::with_capacity(connections.len());
    let mut single: HashMap<EndsKey, Vec<usize>> = HashMap::new();
    for connection in connections {
        let Some(key) = EndsKey::new(connection) else {
            flows.push(Flow { end: connection, other: None });
            continue;
        };
        let waiting = single.entry(key).or_default();
        if let Some(nth) = waiting.iter().position(|&place| are_ends(flows[place].end, connection)) {
            let flow = &mut flows[waiting.swap_remove(nth)];
            *flow = joined(flow.end, connection);
        } else {
            waiting.push(flows.len());
            flows.push(Flow { end: connection, other: None });
        }
    }
    flows
}

fn joined<'a>(a: &'a Connection, b: &'a Connection) -> Flow<'a> {
    let b_connected = b.role == Some(Role::Client) && a.role != Some(Role::Client);
    let (end, other) = if b_connected { (b, a) } else { (a, b) };
    Flow { end, other: Some(other) }
}

/// A key that is the same for both ends of a connection.
#[derive(PartialEq, Eq, Hash)]
enum EndsKey {
    Tokens(Token, Token),
    Addresses(SocketAddr, SocketAddr),
}

impl EndsKey {
    /// `None`: tokens and addresses are unknown.
    fn new(connection: &Connection) -> Option<Self> {
        if let (Some(ours), Some(theirs)) = (connection.token, connection.remote_token) {
            return Some(Self::Tokens(ours.min(theirs), ours.max(theirs)));
        }
        let (local, remote) = (connection.local?, connection.remote?);
        Some(Self::Addresses(local.min(remote), local.max(remote)))
    }
}

/// Whether the connection is plain TCP on the wire. If the server has no MPTCP, the client's end is a fallback, the server's end plain TCP.
fn is_plain(connection: &Connection) -> bool {
    connection.carried_by() != CarriedBy::Mptcp
}

/// Whether two records with the same key are the two ends of a connection.
fn are_ends(a: &Connection, b: &Connection) -> bool {
    if a.id == b.id {
        return false;
    }
    if a.token.is_some() && a.remote_token.is_some() {
        return a.token == b.remote_token && a.remote_token == b.token;
    }
    let is_loopback = a.local.is_some_and(|address| address.ip().is_loopback());
    let begin_together = match (a.opened_at, b.opened_at) {
        (Some(a), Some(b)) => a.duration_since(b).as_secs_f64().abs() <= MAX_BEGIN_DIFFERENCE,
        // Both records are older than mpwatch.
        (None, None) => true,
        _ => false,
    };
    a.local == b.remote
        && a.remote == b.local
        && is_plain(a) == is_plain(b)
        && begin_together
        && (!is_loopback || a.netns_inode == b.netns_inode)
}
