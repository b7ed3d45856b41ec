// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input of a decision: the state of a connection.

use std::net::SocketAddr;

use mpwatch_model::flow::bottleneck::{DetectionMethod, PairVerdict};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::kernel::lifecycle::{CarriedBy, TcpState};
use mpwatch_model::unit::{Bytes, Micros};

/// A connection in one snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConnectionState {
    pub(crate) id: ConnectionId,
    /// Whether subflows may be removed from it. If not, only the watch after an earlier action goes on.
    pub(crate) is_selected: bool,
    /// The method that found the groups.
    pub(crate) method: DetectionMethod,
    /// Payload that the peer has acknowledged.
    pub(crate) acked: Bytes,
    pub(crate) subflows: Vec<SubflowState>,
    /// Its subflows, grouped by bottleneck. Empty: there are no verdicts.
    pub(crate) groups: Vec<Vec<SubflowId>>,
    /// The verdicts on pairs of subflows.
    pub(crate) pairs: Vec<PairVerdict>,
}

/// An open subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SubflowState {
    pub(crate) id: SubflowId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Whether it carries data: established, no backup, and not failed.
    pub(crate) is_usable: bool,
    /// Payload that the peer has acknowledged on it.
    pub(crate) acked: Bytes,
    /// Smoothed RTT. `None`: no sample yet.
    pub(crate) srtt: Option<Micros>,
}

impl ConnectionState {
    /// `None`: it does not use MPTCP, or cannot send.
    pub(crate) fn from_connection(connection: &Connection, is_selected: bool) -> Option<Self> {
        let is_sending = connection.is_open()
            && connection.state == TcpState::Established
            && connection.carried_by() == CarriedBy::Mptcp;
        if !is_sending {
            return None;
        }
        // Kernels before 6.5 do not count the bytes of a connection.
        let of_subflows = || connection.subflows.iter().map(|subflow| subflow.bytes_acked).sum();
        let open = connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        let found = connection.bottlenecks.as_ref();
        Some(Self {
            id: connection.id,
            is_selected,
            method: found.map(|found| found.method).unwrap_or_default(),
            acked: connection.bytes_acked.unwrap_or_else(of_subflows),
            subflows: open.map(SubflowState::from_subflow).collect(),
            groups: found.map(|found| found.groups.clone()).unwrap_or_default(),
            pairs: found.map(|found| found.pairs.clone()).unwrap_or_default(),
        })
    }
}

impl SubflowState {
    fn from_subflow(subflow: &Subflow) -> Self {
        Self {
            id: subflow.id,
            local: subflow.local,
            remote: subflow.remote,
            is_usable: subflow.state == TcpState::Established && !subflow.backup && !subflow.is_failed(),
            acked: subflow.bytes_acked,
            srtt: subflow.srtt,
        }
    }
}
