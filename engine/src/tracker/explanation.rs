// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explanations of connections, because no second path joined or they fell back. Each connection is asked about once.

use std::sync::Arc;

use mpwatch_model::kernel::event::SubflowRecord;
use mpwatch_model::kernel::lifecycle::{FallbackReason, TcpState};
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_model::why::answer::Cause;
use serde::{Deserialize, Serialize};

use super::close;

/// Age at which a connection is asked about: an unanswered join has been retransmitted once.
pub(super) const AGE: Nanos = Nanos(3_000_000_000);

/// Whether a connection was asked about, and the answer.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Explained {
    /// Whether it had fallen back when it was asked about. `None`: it was not asked about.
    asked_after_fallback: Option<bool>,
    answer: Option<Arc<Cause>>,
}

impl Explained {
    pub(super) fn asked(fell_back: bool, answer: Option<Arc<Cause>>) -> Self {
        Self { asked_after_fallback: Some(fell_back), answer }
    }

    /// Whether the answer is, or will be, about the present state of the connection.
    pub(super) fn was_asked(&self, fell_back: bool) -> bool {
        self.asked_after_fallback == Some(fell_back)
    }

    pub(super) fn answer(&self, fell_back: bool) -> Option<&Arc<Cause>> {
        self.answer.as_ref().filter(|_| self.was_asked(fell_back))
    }
}

/// Whether a second path joined.
pub(super) fn has_joined(subflow: &SubflowRecord) -> bool {
    // The join of a subflow that was found open was not traced.
    let is_found_open = !subflow.seen_open && subflow.state != TcpState::SynSent;
    subflow.mp_join && (subflow.established.is_some() || is_found_open)
}

/// Whether the answer to a join may still arrive in time.
pub(super) fn is_joining(subflow: &SubflowRecord) -> bool {
    subflow.state == TcpState::SynSent && subflow.tcp.segments_retransmitted == 0
}

/// Whether the peer confirmed data of a subflow. Before, no subflow can join (RFC 8684 section 3.1). The SYN counts as one byte.
pub(super) fn has_carried_data(subflow: &SubflowRecord) -> bool {
    subflow.tcp.bytes_acked > Bytes(1) || subflow.tcp.bytes_received > Bytes(0)
}

/// Whether the connection with this initial subflow fell back for a reason that is known.
pub(super) fn fell_back_for_known_reason(initial: &SubflowRecord) -> bool {
    close::fallback_reason(initial) != FallbackReason::Unknown
}
