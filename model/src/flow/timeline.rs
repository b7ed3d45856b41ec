// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline of a connection: its events, their times, and how mpwatch learned of them.

use std::fmt;
use std::net::SocketAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::elimination::EliminationStep;
use crate::id::SubflowId;
use crate::kernel::lifecycle::{CloseReason, FallbackReason};
use crate::unit::Micros;
use crate::words::json_words;

/// One event in the life of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEntry {
    /// Time of the event; for `sampled` entries, time of the first sample that shows the event.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// How mpwatch learned of the event.
    pub source: ObservedBy,
    /// The event.
    #[serde(flatten)]
    pub event: TimelineEvent,
}

json_words! {
    /// How mpwatch learned of an event.
    pub enum ObservedBy {
        /// A kernel tracepoint reported it: the time is exact.
        Tracepoint = "tracepoint",
        /// Two successive samples differ: the time is up to one interval late.
        Sampled = "sampled",
        /// mpwatch itself caused the event (`mpwatch control`, or the daemon): the time is the time of the preceding snapshot.
        Control = "control",
    }
}

/// An event in the life of a connection or of its subflows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TimelineEvent {
    /// The connection was opened.
    Opened,
    /// The connection was already open when the agent started.
    Adopted,
    /// A subflow sent or answered its SYN.
    SubflowOpened {
        /// The subflow.
        subflow: SubflowId,
    },
    /// A subflow reached ESTABLISHED.
    SubflowEstablished {
        /// The subflow.
        subflow: SubflowId,
    },
    /// A subflow ended.
    SubflowClosed {
        /// The subflow.
        subflow: SubflowId,
        /// Reason of the end.
        reason: CloseReason,
    },
    /// The path of a subflow failed (see `progress` of a subflow), or works again.
    SubflowStale {
        /// The subflow.
        subflow: SubflowId,
        /// `true`: the path failed. `false`: the path works again.
        stale: bool,
        /// Time without an acknowledgement of data or probes when the failure was detected. `null`: unknown, or the path works again.
        #[serde(rename = "silent_us", default)]
        silent: Option<Micros>,
    },
    /// A subflow became a backup, or is no longer a backup.
    PriorityChanged {
        /// The subflow.
        subflow: SubflowId,
        /// Whether the subflow is a backup now.
        backup: bool,
    },
    /// This host announced addresses (ADD_ADDR sent).
    AddressAnnounced {
        /// Number of announcements so far.
        total: u8,
    },
    /// The peer announced an address (ADD_ADDR received).
    PeerAddressAnnounced {
        /// Id of the address.
        address_id: u8,
        /// The address and port. `null`: unknown.
        #[schemars(with = "Option<String>")]
        address: Option<SocketAddr>,
    },
    /// The peer withdrew an address (REMOVE_ADDR received).
    PeerAddressRemoved {
        /// Id of the address.
        address_id: u8,
    },
    /// No subflow made progress although data was in flight; after a path failure this is the failover gap.
    Stalled {
        /// Time without progress.
        #[serde(rename = "gap_us")]
        gap: Micros,
        /// Longest retransmission timeout of the subflows before the stall, or after it, but then at most 1 s: a longer stall is an outage. `null`:
        /// recorded by an earlier version.
        #[serde(rename = "timeout_us", default)]
        timeout: Option<Micros>,
    },
    /// The connection fell back to plain TCP.
    FellBack {
        /// Reason for the fallback.
        reason: FallbackReason,
    },
    /// A step of the elimination of an extra subflow, by `mpwatch control eliminate` or the daemon.
    Elimination(EliminationStep),
    /// The connection closed.
    Closed,
}

impl ObservedBy {
    /// A legend: the accuracy of the times of each source.
    pub fn legend() -> String {
        format!(
            "{}: exact time, {}: up to one interval late",
            Self::Tracepoint.as_str(),
            Self::Sampled.as_str()
        )
    }
}

impl TimelineEvent {
    /// The place of the event in the order of events at the same time.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Opened | Self::Adopted => 0,
            Self::SubflowOpened { .. } => 1,
            Self::SubflowEstablished { .. } => 2,
            Self::Closed => 4,
            _ => 3,
        }
    }

    /// Whether the event is a failure. For stalls see [`crate::flow::outage::is_failure`].
    pub fn is_failure(&self) -> bool {
        match self {
            Self::SubflowStale { stale, .. } => *stale,
            Self::SubflowClosed { reason, .. } => reason.is_failure(),
            Self::FellBack { .. } => true,
            Self::Elimination(step) => step.is_failure(),
            _ => false,
        }
    }

    /// The event as a phrase; `name` gives the name of a subflow (1 is the first).
    pub fn sentence(&self, name: impl Fn(SubflowId) -> String) -> String {
        match self {
            Self::Opened => "connection opened".to_owned(),
            Self::Adopted => "already open when mpwatch started".to_owned(),
            Self::SubflowOpened { subflow } => format!("subflow {} opened (SYN)", name(*subflow)),
            Self::SubflowEstablished { subflow } => format!("subflow {} established", name(*subflow)),
            Self::SubflowClosed { subflow, reason } => {
                format!("subflow {} ended: {}", name(*subflow), reason.description())
            }
            Self::SubflowStale { subflow, stale: true, .. } => {
                format!("subflow {} failed: no acknowledgements", name(*subflow))
            }
            Self::SubflowStale { subflow, stale: false, .. } => {
                format!("subflow {} works again", name(*subflow))
            }
            Self::PriorityChanged { subflow, backup: true } => {
                format!("subflow {} became a backup", name(*subflow))
            }
            Self::PriorityChanged { subflow, backup: false } => {
                format!("subflow {} is no longer a backup", name(*subflow))
            }
            Self::AddressAnnounced { total } => format!("announced an address to the peer ({total} so far)"),
            Self::PeerAddressAnnounced { address_id, address: Some(address) } => {
                format!("peer announced address {address} (id {address_id})")
            }
            Self::PeerAddressAnnounced { address_id, address: None } => {
                format!("peer announced an address (id {address_id})")
            }
            Self::PeerAddressRemoved { address_id } => format!("peer withdrew address id {address_id}"),
            Self::Stalled { gap, .. } => format!("no progress for {:.0} ms", gap.0 as f64 / 1e3),
            Self::Elimination(step) => step.describe(&name),
            Self::FellBack { reason } => format!("fell back to plain TCP: {}", reason.description()),
            Self::Closed => "connection closed".to_owned(),
        }
    }
}

/// Format of calendar times in sentences; `--since` and `--until` accept it.
pub const CLOCK: &str = "%Y-%m-%d %H:%M:%SZ";

/// Format of the times of a timeline. It has the date only if the connection has events on several days.
pub fn clock_format(timeline: &[TimelineEntry]) -> &'static str {
    let day = |entry: Option<&TimelineEntry>| entry.map(|entry| entry.at.strftime("%F").to_string());
    if day(timeline.first()) == day(timeline.last()) { "%H:%M:%S" } else { "%m-%d %H:%M:%S" }
}

/// A time in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset {
    /// Microseconds since the opening of the connection; negative before the opening.
    pub micros: i64,
    /// Calendar time.
    pub at: Timestamp,
}

impl Offset {
    /// The offset of `to` from `from`.
    pub fn between(from: Timestamp, to: Timestamp) -> Self {
        let micros = (to.as_nanosecond() - from.as_nanosecond()) / 1_000;
        Self { micros: i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX }), at: to }
    }
}

/// Prints `+1.234567 s`, always with microseconds unless a precision is given, so that columns align. `{:#}` puts the calendar time (UTC) first.
impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, size) = (if self.micros < 0 { '-' } else { '+' }, self.micros.unsigned_abs());
        let offset = match f.precision() {
            Some(digits) => format!("{:+.digits$} s", self.micros as f64 / 1e6),
            None => format!("{sign}{}.{:06} s", size / 1_000_000, size % 1_000_000),
        };
        if f.alternate() { write!(f, "{} ({offset})", self.at.strftime(CLOCK)) } else { f.write_str(&offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_keep_their_sign_and_their_microseconds() {
        let at = "2026-03-01T12:00:07Z".parse().unwrap();
        let offset = |micros| Offset { micros, at };
        assert_eq!(offset(0).to_string(), "+0.000000 s");
        assert_eq!(offset(-1_500_000).to_string(), "-1.500000 s");
        assert_eq!(offset(61_000_001).to_string(), "+61.000001 s");
        assert_eq!(format!("{:.2}", offset(5_600_200)), "+5.60 s");
        assert_eq!(format!("{:#}", offset(5_600_200)), "2026-03-01 12:00:07Z (+5.600200 s)");
    }
}
