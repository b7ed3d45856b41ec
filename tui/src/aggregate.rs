// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over the subflows of a path (interface and pair of addresses), a peer, a process, a namespace, or a control group.

use std::net::IpAddr;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::host::energy::{EnergySource, FlowEnergy};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Micros};

use crate::context::{Context, Location};
use crate::digest::{ConnectionDigest, Entry, PathKey, SubflowDigest, sum_of_known};

/// Maximum number of ticks in the trend of a row.
pub(crate) const TREND: usize = 40;

mpwatch_model::words! {
    /// The grouping of the peers view.
    #[derive(Default)]
    pub(crate) enum Grouping {
        #[default]
        Peer = "peer",
        Process = "process",
        Namespace = "namespace",
        ControlGroup = "control group",
    }
}

/// Identifies an aggregate: the same key stands for the same path, peer or group in every snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AggregateKey {
    Path(PathKey),
    /// Remote address. `None`: unknown.
    Peer(Option<IpAddr>),
    Process(Option<Name>),
    /// Inode of a namespace.
    Namespace(u32),
    /// Hash of the path of a control group. `None`: unknown.
    ControlGroup(Option<u64>),
}

impl Default for AggregateKey {
    fn default() -> Self {
        Self::Peer(None)
    }
}

impl AggregateKey {
    pub(crate) fn new(connection: &ConnectionDigest, grouping: Grouping) -> Self {
        match grouping {
            Grouping::Peer => Self::Peer(connection.remote),
            Grouping::Process => Self::Process(connection.process),
            Grouping::Namespace => Self::Namespace(connection.netns),
            Grouping::ControlGroup => Self::ControlGroup(connection.cgroup),
        }
    }

    /// Whether a connection contributes to this aggregate.
    pub(crate) fn contains(self, entry: Entry<'_>) -> bool {
        match self {
            Self::Path(path) => entry.paths().contains(&path),
            _ => Grouping::ALL.into_iter().any(|grouping| Self::new(entry.digest, grouping) == self),
        }
    }
}

/// A subflow that contributes to an aggregate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) connection: Location,
    /// Index of the subflow in its connection.
    pub(crate) subflow: u32,
}

impl Member {
    /// The digest of the subflow. `None`: its connection is no longer in the history.
    pub(crate) fn digest(self, context: Context<'_>) -> Option<&SubflowDigest> {
        context.entry(self.connection)?.subflows().get(self.subflow as usize)
    }
}

/// The place of a path in a group of paths that share a bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedPath {
    /// Number of the bottleneck.
    pub(crate) group: u32,
    /// Index of the path among the paths that share the bottleneck.
    pub(crate) index: u32,
    /// Number of paths that share the bottleneck.
    pub(crate) size: u32,
}

/// An aggregate with its sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregate {
    pub(crate) key: AggregateKey,
    /// Location of the first member's connection, from which the name of a namespace or control group is read.
    pub(crate) example: Option<Location>,
    pub(crate) connections: usize,
    pub(crate) open: usize,
    pub(crate) failed: usize,
    /// Number of open subflows whose path has not failed.
    pub(crate) working: usize,
    /// Sum of the known send rates of open subflows. `None`: all are unknown.
    pub(crate) send: Option<BitsPerSecond>,
    /// Sum of the known receive rates of open subflows. `None`: all are unknown.
    pub(crate) receive: Option<BitsPerSecond>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    retransmitted: u64,
    observed: u64,
    pub(crate) watts: Option<f64>,
    energy: Option<FlowEnergy>,
    /// Median of the smoothed RTTs.
    pub(crate) rtt: Option<Micros>,
    pub(crate) min_rtt: Option<Micros>,
    /// The bottleneck that a path shares with other paths. `None`: no shared bottleneck is known.
    pub(crate) shared: Option<SharedPath>,
    /// For a path: a verdict other than `shared`, shown if the field `shared` is `None`.
    pub(crate) verdict: Option<Verdict>,
}

impl Aggregate {
    pub(crate) fn empty(key: AggregateKey, example: Option<Location>) -> Self {
        Self { key, example, ..Self::default() }
    }

    /// Sums the values of `members`. Members of the same connection must be adjacent.
    pub(crate) fn from_members(context: Context<'_>, key: AggregateKey, members: &[Member]) -> Self {
        let mut sums = Self::empty(key, members.first().map(|member| member.connection));
        let mut rtts = Vec::new();
        let mut latest = None;
        for member in members {
            let Some(subflow) = member.digest(context) else { continue };
            sums.connections += usize::from(latest.replace(member.connection) != Some(member.connection));
            sums.add(subflow);
            rtts.extend(subflow.rtt);
            let track = context.history.subflows.get(subflow.id).filter(|_| subflow.is_open);
            if let Some(watts) = track.and_then(|track| track.watts(context.tick)) {
                *sums.watts.get_or_insert(0.0) += watts;
            }
            if sums.verdict.is_none() && matches!(key, AggregateKey::Path(_)) {
                sums.verdict = subflow.verdict;
            }
        }
        if sums.open == 0 {
            (sums.send, sums.receive) = (Some(BitsPerSecond(0)), Some(BitsPerSecond(0)));
        }
        if !rtts.is_empty() {
            let middle = rtts.len() / 2;
            let (below, median, _) = rtts.select_nth_unstable(middle);
            sums.rtt = Some(*median);
            sums.min_rtt = Some(below.iter().min().copied().unwrap_or(*median));
        }
        sums
    }

    fn add(&mut self, subflow: &SubflowDigest) {
        self.open += usize::from(subflow.is_open);
        self.failed += usize::from(subflow.has_failed);
        self.working += usize::from(subflow.is_open && !subflow.has_failed);
        let (send, receive) = subflow.current().unzip();
        self.send = sum_of_known(self.send, send);
        self.receive = sum_of_known(self.receive, receive);
        self.sent = self.sent.saturating_add(subflow.sent.0);
        self.received = self.received.saturating_add(subflow.received.0);
        self.retransmitted = self.retransmitted.saturating_add(subflow.retransmitted.0);
        self.observed = self.observed.saturating_add(subflow.observed.0);
        if let Some((active, source)) = subflow.energy {
            let energy = FlowEnergy { active, source, ..FlowEnergy::default() };
            self.energy = Some(self.energy.map_or(energy, |sum| FlowEnergy::sum([&sum, &energy])));
        }
    }

    /// Retransmitted share of the bytes sent, 0 to 1. `None`: nothing was sent.
    pub(crate) fn retransmitted(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.retransmitted as f64 / self.sent as f64)
    }

    /// Energy above idle, in total and per gigabyte of observed payload. `None`: unknown.
    pub(crate) fn energy(&self) -> Option<FlowEnergy> {
        let energy = self.energy.filter(|energy| energy.source != EnergySource::Absent);
        energy.map(|energy| energy.over(Bytes(self.observed)))
    }
}

/// An aggregate that is on the screen.
#[derive(Clone, Debug)]
pub(crate) struct ShownAggregate {
    pub(crate) sums: Aggregate,
    /// Sum of the rates of the aggregate's subflows in each tick, the latest last.
    pub(crate) rates: Vec<f32>,
}
