// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened to a connection, in order, with the source of each statement.

use std::net::SocketAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::lifecycle::{CloseReason, FallbackReason};
use crate::unit::Micros;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEntry {
    /// When; for `sampled` entries the time of the sample in which it first showed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// How it is known.
    pub source: ObservedBy,
    /// What happened.
    #[serde(flatten)]
    pub event: TimelineEvent,
}

/// How an entry is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservedBy {
    /// Stamped by a kernel tracepoint: exact.
    Tracepoint,
    /// Noticed by comparing two samples: up to one interval late.
    Sampled,
}

impl ObservedBy {
    /// The word that outputs show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tracepoint => "tracepoint",
            Self::Sampled => "sampled",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TimelineEvent {
    /// The connection was opened.
    Opened,
    /// The connection was already there when the agent came.
    Adopted,
    /// A subflow sent or answered its SYN.
    SubflowOpened {
        /// Which one.
        subflow: SubflowId,
    },
    /// A subflow reached ESTABLISHED.
    SubflowEstablished {
        /// Which one.
        subflow: SubflowId,
    },
    /// A subflow ended.
    SubflowClosed {
        /// Which one.
        subflow: SubflowId,
        /// Why.
        reason: CloseReason,
    },
    /// The kernel took a subflow for dead (`stale`), or back into use.
    SubflowStale {
        /// Which one.
        subflow: SubflowId,
        /// `false`: it recovered.
        stale: bool,
    },
    /// A subflow became a backup, or stopped being one.
    PriorityChanged {
        /// Which one.
        subflow: SubflowId,
        /// Its new role.
        backup: bool,
    },
    /// This host announced addresses (ADD_ADDR sent).
    AddressAnnounced {
        /// How many so far.
        total: u8,
    },
    /// The peer announced an address (ADD_ADDR received).
    PeerAddressAnnounced {
        /// Its id.
        address_id: u8,
        /// The address, where it is known.
        #[schemars(with = "Option<String>")]
        address: Option<SocketAddr>,
    },
    /// The peer withdrew an address (REMOVE_ADDR received).
    PeerAddressRemoved {
        /// Its id.
        address_id: u8,
    },
    /// Sent data went unacknowledged on every subflow at once: after the failure of a path, the failover gap.
    Stalled {
        /// How long.
        #[serde(rename = "gap_us")]
        gap: Micros,
    },
    /// The connection goes on as plain TCP.
    FellBack {
        /// Why.
        reason: FallbackReason,
    },
    /// The connection closed.
    Closed,
}

impl TimelineEvent {
    /// A plain sentence; subflows are named by their place in the connection (1 is the first).
    pub fn sentence(&self, place: impl Fn(SubflowId) -> String) -> String {
        match self {
            Self::Opened => "connection opened".to_owned(),
            Self::Adopted => "already open when mpwatch came".to_owned(),
            Self::SubflowOpened { subflow } => format!("subflow {} opened (SYN)", place(*subflow)),
            Self::SubflowEstablished { subflow } => format!("subflow {} established", place(*subflow)),
            Self::SubflowClosed { subflow, reason } => {
                format!("subflow {} ended: {}", place(*subflow), reason.description())
            }
            Self::SubflowStale { subflow, stale: true } => {
                format!(
                    "subflow {} failed: no acknowledgements, data goes to other subflows",
                    place(*subflow)
                )
            }
            Self::SubflowStale { subflow, stale: false } => {
                format!("subflow {} works again", place(*subflow))
            }
            Self::PriorityChanged { subflow, backup: true } => {
                format!("subflow {} became a backup", place(*subflow))
            }
            Self::PriorityChanged { subflow, backup: false } => {
                format!("subflow {} is no longer a backup", place(*subflow))
            }
            Self::AddressAnnounced { total } => format!("announced an address to the peer ({total} so far)"),
            Self::PeerAddressAnnounced { address_id, address: Some(address) } => {
                format!("peer announced address {address} (id {address_id})")
            }
            Self::PeerAddressAnnounced { address_id, address: None } => {
                format!("peer announced an address (id {address_id})")
            }
            Self::PeerAddressRemoved { address_id } => format!("peer withdrew address id {address_id}"),
            Self::Stalled { gap } => format!("no progress for {:.0} ms", gap.0 as f64 / 1e3),
            Self::FellBack { reason } => format!("fell back to plain TCP: {}", reason.description()),
            Self::Closed => "connection closed".to_owned(),
        }
    }
}
