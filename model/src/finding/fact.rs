// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding as data.
#![allow(missing_docs, reason = "the fields are named after what they hold")]

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::flow::bottleneck::DetectionMethod;
use crate::flow::timeline::Offset;
use crate::host::energy::FlowEnergy;
use crate::id::ConnectionId;
use crate::kernel::endpoint::Name;
use crate::kernel::lifecycle::{CloseReason, FallbackReason};
use crate::unit::{BitsPerSecond, Micros, Nanos};
use crate::why::answer::Cause;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something failed, or data was lost.
    Failure,
    /// The connection works, but multipath gains less than it could.
    Warning,
    /// The connection works as intended.
    Good,
    /// Information, neither good nor bad.
    Note,
}

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The connection with this finding. `None`: it is a finding about the host.
    pub connection: Option<ConnectionId>,
    /// The fact.
    pub fact: Fact,
}

/// A fact about a connection or the host, most important first. Subflows are named by their number, from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A kind of data loss with its count, as a phrase.
    DataLost(String),
    /// Number of invalid DSS mappings on this host.
    InvalidMappings(u64),
    /// Number of DSS checksum failures on this host.
    ChecksumFailures(u64),
    PathFailed(FailedPath),
    /// A subflow was reset long after the connection had closed, so its path may have failed earlier.
    ClosedLate {
        /// Number of the subflow.
        subflow: usize,
        reason: CloseReason,
        at: Offset,
    },
    /// The connection was not established.
    NotConnected(CloseReason),
    JoinFailed(FailedJoin),
    /// Data waits because the peer's receive window is closed.
    LimitedByReceiver {
        since: Option<Offset>,
    },
    /// A reset ended the connection.
    Aborted {
        by_this_host: bool,
    },
    Outage(MainOutage),
    /// The connection fell back to plain TCP.
    FellBack(FallbackReason, Option<Arc<Cause>>),
    SharedBottleneck(SharedBottleneck),
    /// Subflows share a rate limit without sharing a queue.
    SharedCap {
        subflows: Vec<String>,
        /// Total rate of these subflows.
        sum: BitsPerSecond,
        since: Micros,
    },
    /// The median RTT of a path is so long, compared with the best path, that it can delay data of the other paths.
    SlowPath {
        subflow: usize,
        rtt: Micros,
        best: usize,
        best_rtt: Micros,
    },
    /// No second subflow joined.
    SinglePath {
        is_long: bool,
        cause: Option<Arc<Cause>>,
    },
    /// Bottlenecks were detected by a method other than the default.
    DetectedBy(DetectionMethod),
    OtherPairs(OtherPairs),
    Closed {
        at: Timestamp,
        /// Age of the connection when it closed, seconds.
        lasted: f64,
        /// The reason for which the last subflow ended.
        reason: Option<CloseReason>,
    },
}

/// How long a path did not work, in total if it worked for short times in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownTime {
    /// Until the path worked again.
    UntilRecovery(Micros),
    /// At most this time: mpwatch was restarted meanwhile, and the path worked when it started.
    UntilRestart(Micros),
    /// Until mpwatch last observed the connection, which ended while mpwatch was not running.
    UntilLastObserved(Micros),
    /// Until the connection closed.
    UntilClose(Micros),
    /// Until this instant, at which the open connection was read.
    SoFar(Micros, Offset),
}

/// Subflows that did not join, all for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedJoin {
    /// Number of the first of these subflows.
    pub subflow: usize,
    pub local: IpAddr,
    pub remote: IpAddr,
    pub interface: Option<Name>,
    pub reason: CloseReason,
    /// Number of further subflows with this reason.
    pub others: usize,
}

/// A path that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedPath {
    /// Number of the subflow.
    pub subflow: usize,
    pub local: IpAddr,
    pub remote: IpAddr,
    pub interface: Option<Name>,
    /// When the path failed. `None`: no event reports it.
    pub at: Option<Offset>,
    pub noticed: Option<Offset>,
    /// When the path recovered without failing again. `None`: it did not recover.
    pub recovered: Option<Offset>,
    /// Number of intervals in which the path failed. 0: unknown.
    pub intervals: usize,
    /// How long the path did not work. `None`: unknown.
    pub down: Option<DownTime>,
    /// Why and when the subflow ended. `None`: it is open, but gets no acknowledgements.
    pub ended: Option<(CloseReason, Offset)>,
}

impl FailedPath {
    /// How long the path did not work, or has not worked so far. `None`: unknown.
    pub(super) fn duration(&self) -> Option<Micros> {
        use DownTime::{SoFar, UntilClose, UntilLastObserved, UntilRecovery, UntilRestart};
        let (UntilRecovery(time)
        | UntilRestart(time)
        | UntilLastObserved(time)
        | UntilClose(time)
        | SoFar(time, _)) = self.down?;
        Some(time)
    }
}

/// The longest outage of a connection: a time in which no path made progress.
#[derive(Clone, Debug, PartialEq)]
pub struct MainOutage {
    pub from: Offset,
    pub duration: Micros,
    /// Sum of the stalls in the outage.
    pub stalled: Micros,
    pub stalls: usize,
    /// Whether the outage had not ended when the connection was read.
    pub lasts: bool,
    /// Whether it lasted at most `duration`, because it ended while mpwatch was not running.
    pub is_bound: bool,
    /// Number of outages of the connection.
    pub outages: usize,
    /// Start of a shorter outage that had not ended when the connection was read. `None`: there is none.
    pub shorter_lasts_since: Option<Offset>,
}

/// Subflows that share a bottleneck. All but the first are extra subflows, which add no throughput.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedBottleneck {
    pub subflows: Vec<String>,
    pub certainty: Certainty,
    /// Share of the sent payload that the extra subflows carried.
    pub extra_share: Option<f64>,
    pub extra_energy: Option<FlowEnergy>,
    pub extra_cpu: Option<Nanos>,
}

/// The verdicts on the pairs of subflows that do not share a cap.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherPairs {
    /// Number of all pairs of the connection.
    pub all: usize,
    /// Number of pairs with separate bottlenecks.
    pub separate: usize,
    /// How certain the verdict of separate bottlenecks is.
    pub certainty: Certainty,
    /// Number of pairs without a congested subflow.
    pub not_congested: usize,
    /// Number of pairs without a verdict.
    pub undecided: usize,
    /// Whether no path has failed, and at least two subflows still work or the connection has closed.
    pub add_throughput: bool,
    /// Whether this end sends too little for a verdict.
    pub mostly_receives: bool,
}

/// How certain a verdict on some pairs of subflows is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certainty {
    /// Time from the opening of the connection to the last of these verdicts.
    pub since: Option<Micros>,
    /// Probability of sharing of the least certain pair, which is the value closest to 0.5.
    pub probability: Option<f64>,
    /// Number of connections from whose rates the verdicts were derived, and their rate over the common link. `None`: one connection.
    pub pooled: Option<(u32, Option<BitsPerSecond>)>,
}

impl Finding {
    /// The severity of the finding.
    pub fn severity(&self) -> Severity {
        self.rank().0
    }

    /// The place of the finding in the order of importance. It is the same for all findings of a kind.
    pub fn rank(&self) -> (Severity, u8) {
        let (severity, place, _) = self.kind();
        (severity, place)
    }

    /// The rank of the finding, and its kind in a few words.
    pub fn kind(&self) -> (Severity, u8, &'static str) {
        use Severity::{Failure, Good, Note, Warning};
        match &self.fact {
            Fact::DataLost(_) => (Failure, 0, "lost data"),
            Fact::InvalidMappings(_) => (Failure, 1, "invalid mappings"),
            Fact::ChecksumFailures(_) => (Failure, 2, "checksum failures"),
            Fact::PathFailed(path) if path.recovered.is_none() => (Failure, 3, "failed path"),
            Fact::NotConnected(reason) => (Failure, 4, reason.short()),
            Fact::Aborted { .. } => (Failure, 4, "aborted"),
            Fact::Outage(_) => (Failure, 5, "outage"),
            Fact::PathFailed(_) => (Warning, 5, "path failed for a time"),
            Fact::FellBack(..) => (Warning, 6, "fell back to TCP"),
            Fact::SharedBottleneck(_) => (Warning, 7, "shared bottleneck"),
            Fact::SharedCap { .. } => (Warning, 8, "shared cap"),
            Fact::ClosedLate { .. } => (Warning, 9, "subflow closed late"),
            Fact::JoinFailed(_) => (Warning, 10, "failed join"),
            Fact::SlowPath { .. } => (Warning, 11, "slow path"),
            Fact::SinglePath { is_long: true, .. } => (Warning, 12, "one path only"),
            Fact::OtherPairs(pairs) if pairs.are_good() => (Good, 13, "separate bottlenecks"),
            Fact::LimitedByReceiver { .. } => (Note, 14, "limited by the receiver"),
            Fact::DetectedBy(_) => (Note, 15, "method"),
            Fact::OtherPairs(_) => (Note, 16, "verdicts"),
            Fact::SinglePath { is_long: false, .. } => (Note, 17, "one path only"),
            Fact::Closed { .. } => (Note, 18, "closed"),
        }
    }

    /// Whether a report lists the finding as a problem.
    pub fn is_problem(&self) -> bool {
        matches!(self.severity(), Severity::Failure | Severity::Warning)
    }

    /// Whether the finding is about shared bottlenecks.
    pub fn is_about_bottlenecks(&self) -> bool {
        use Fact::{DetectedBy, OtherPairs, SharedBottleneck, SharedCap};
        matches!(self.fact, SharedBottleneck(_) | SharedCap { .. } | DetectedBy(_) | OtherPairs(_))
    }
}

impl OtherPairs {
    /// Whether every subflow has a bottleneck of its own, or no subflow is congested.
    fn are_good(&self) -> bool {
        (self.separate == self.all && self.add_throughput) || self.not_congested == self.all
    }
}
