// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about a traced connection. The BPF programs know more about it than the socket tables: who opened it, and how it fell back.

use mpwatch_model::flow::connection::Connection as Traced;
use mpwatch_model::flow::subflow::Subflow as TracedSubflow;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason, Role};
use mpwatch_model::why::facts::{Connection, Subflow};

/// A question about a traced connection.
#[derive(Clone, Debug)]
pub struct Question {
    /// The connection.
    pub id: ConnectionId,
    /// Inode of its network namespace.
    pub netns_inode: u32,
    /// The facts about it.
    pub facts: Connection,
    /// Whether it had a join, also one that failed.
    pub has_join: bool,
}

impl Question {
    /// `None`: the addresses of the connection are unknown.
    pub fn new(traced: &Traced) -> Option<Self> {
        Some(Self {
            id: traced.id,
            netns_inode: traced.netns_inode,
            facts: facts(traced)?,
            has_join: traced.subflows.iter().any(|subflow| !subflow.initial),
        })
    }
}

/// The facts about a traced connection. `None`: its addresses are unknown.
fn facts(traced: &Traced) -> Option<Connection> {
    use FallbackReason::{AfterHandshake, NoMpCapableInSynAck, NotAttempted, OptionOmitted};
    let fallback = traced.fallback.map(|fallback| fallback.reason);
    let initial = traced.subflows.iter().find(|subflow| subflow.initial);
    let open = traced.subflows.iter().filter(|subflow| subflow.closed.is_none());
    Some(Connection {
        token: traced.token,
        local: traced.local?,
        remote: traced.remote?,
        carried_by: traced.carried_by(),
        role: traced.role.unwrap_or(Role::Client),
        asked: !matches!(fallback, Some(NotAttempted | OptionOmitted)),
        peer_has_mptcp: matches!(fallback, None | Some(AfterHandshake)),
        retransmissions: match fallback {
            // The kernel omits the option after retransmissions of the SYN, or because it remembers earlier ones.
            Some(OptionOmitted | NoMpCapableInSynAck) => initial.map_or(0, |tcp| tcp.segments_retransmitted),
            _ => 0,
        },
        subflows: open.map(subflow).collect(),
        program: traced.process.map(|process| process.comm.text().into_owned()),
        failed_join: failed_join(traced),
    })
}

fn failed_join(traced: &Traced) -> Option<CloseReason> {
    let joins = traced.subflows.iter().filter(|subflow| !subflow.initial);
    let ends = joins.filter_map(|join| join.closed).filter(|end| end.reason.is_failed_handshake());
    ends.max_by_key(|end| end.at).map(|end| end.reason)
}

fn subflow(traced: &TracedSubflow) -> Subflow {
    Subflow {
        local: traced.local,
        remote: traced.remote,
        state: traced.state,
        local_id: traced.local_id,
        retransmits: u8::try_from(traced.segments_retransmitted).unwrap_or(u8::MAX),
        backup_here: traced.backup,
        backup_there: false,
    }
}
