// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over the subflows of a connection.

use mpwatch_model::unit::Bytes;

use super::flow::Flow;
use super::subflow::SubflowState;

impl Flow {
    /// Payload sent and received, each byte counted once; from the only subflow if the MPTCP socket has no counters. `None`: unknown.
    pub(super) fn bytes(&self) -> Option<(Bytes, Bytes)> {
        let counted = self.msk.as_ref().and_then(|msk| msk.bytes);
        let in_syn: Bytes = self.subflows.iter().map(|subflow| subflow.record.syn_bytes).sum();
        counted.map(|bytes| (bytes.sent + in_syn, bytes.received)).or_else(|| {
            let tcp = self.only_subflow()?;
            Some((tcp.unique_sent(), tcp.received()))
        })
    }

    /// The only subflow of a connection that cannot have a second subflow. `None`: it can have several, or see `bytes_are_apart`.
    pub(super) fn only_subflow(&self) -> Option<&SubflowState> {
        let has_payload = self.msk.as_ref().is_none_or(|msk| self.fell_back && !msk.bytes_are_apart);
        self.subflows.first().filter(|_| has_payload)
    }

    /// Payload sent by all subflows, each byte counted once per subflow.
    pub(super) fn sent_by_subflows(&self) -> Bytes {
        let dropped = self.dropped.iter().map(|dropped| dropped.observed.bytes_sent);
        self.subflows.iter().map(SubflowState::unique_sent).chain(dropped).sum()
    }

    /// Bytes that the subflows sent in excess of the connection's payload. With one subflow there is no reinjection. `None`: plain TCP, or a
    /// subflow may have ended before tracing began.
    pub(super) fn reinjected(&self) -> Option<Bytes> {
        let (sent, _) = self.bytes().filter(|_| self.msk.is_some() && self.opened.is_some())?;
        Some(if self.subflows.len() < 2 { Bytes(0) } else { self.sent_by_subflows().since(sent) })
    }

    /// The subflows in the order of their creation.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &SubflowState> {
        let mut all: Vec<&SubflowState> = self.subflows.iter().collect();
        all.sort_by_key(|subflow| subflow.order());
        all.into_iter()
    }
}
