// SPDX-License-Identifier: MIT OR Apache-2.0
//! Digest: the values of each flow that are read whenever the screen is drawn, contiguous in memory. A snapshot of 10 000 connections has
//! 23 MB, too much to read while drawing. The thread that delivers a snapshot computes its digest once.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use mpwatch_model::finding::{self, Finding, Severity};
use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::host::energy::{EnergySource, FlowEnergy};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros};
use rustc_hash::FxBuildHasher;

/// A snapshot with its digest.
#[derive(Clone, Debug)]
pub struct Digested {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) digest: Digest,
}

impl Digested {
    /// Reads every flow of the snapshot. This takes longer than drawing the screen: do not call it on the thread of the screen.
    pub fn new(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        let snapshot = snapshot.into();
        Self { digest: Digest::new(&snapshot.connections), snapshot }
    }

    pub(crate) fn entry(&self, index: usize) -> Option<Entry<'_>> {
        self.digest.entry(&self.snapshot.connections, index)
    }

    /// Number of closed connections in the snapshot.
    pub(crate) fn closed(&self) -> usize {
        self.snapshot.connections.len() - self.digest.totals.connections
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.snapshot.connections.len()).filter_map(|index| self.entry(index))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    pub(crate) connections: Vec<ConnectionDigest>,
    /// Grouped by connection, in the order of connections.
    pub(crate) subflows: Vec<SubflowDigest>,
    /// Number of connections whose most important problem is the key. The most important key comes first.
    pub(crate) problems: BTreeMap<Problem, usize>,
    paths: Vec<PathKey>,
    pub(crate) totals: Totals,
}

/// A kind of problem: its importance, and a few words.
pub(crate) type Problem = (Severity, u8, &'static str);

/// Interface and pair of addresses of a subflow, in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathKey {
    pub(crate) netns: u32,
    pub(crate) interface: Option<Name>,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
}

#[derive(Clone, Debug)]
pub(crate) struct ConnectionDigest {
    pub(crate) id: ConnectionId,
    /// Sum of the send and receive rates. `None`: unknown, as in the first snapshot.
    pub(crate) rate: Option<BitsPerSecond>,
    pub(crate) payload: Bytes,
    /// Total energy above idle. `None`: unknown.
    pub(crate) active: Option<Microjoules>,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) process: Option<Name>,
    pub(crate) netns: u32,
    /// Hash of the path of the connection's control group. `None`: unknown.
    pub(crate) cgroup: Option<u64>,
    pub(crate) is_open: bool,
    pub(crate) is_server: bool,
    pub(crate) problem: Option<Problem>,
    /// Whether some subflows of the connection share a bottleneck.
    pub(crate) has_shared: bool,
    subflows: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct SubflowDigest {
    pub(crate) id: SubflowId,
    /// Send and receive rates in the interval. `None`: unknown, as in the first snapshot.
    rates: Option<(BitsPerSecond, BitsPerSecond)>,
    pub(crate) sent: Bytes,
    pub(crate) received: Bytes,
    pub(crate) retransmitted: Bytes,
    /// Payload exchanged while mpwatch observed the subflow.
    pub(crate) observed: Bytes,
    /// Smoothed RTT. `None`: unknown, or the subflow is closed, or its path has failed.
    pub(crate) rtt: Option<Micros>,
    /// Energy above idle, and its source. `None`: CPU time is not accounted, or nothing was charged yet. Inner `None`: unknown.
    pub(crate) energy: Option<(Option<Microjoules>, EnergySource)>,
    pub(crate) is_open: bool,
    /// Whether the path of the subflow failed and has not recovered.
    pub(crate) has_failed: bool,
    /// A verdict other than `shared` on a pair with this subflow. `None`: no such verdict.
    pub(crate) verdict: Option<Verdict>,
}

/// A connection with its digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// The whole connection. Slow to read: do not access it for each of thousands of connections.
    pub(crate) connection: &'a Connection,
    pub(crate) digest: &'a ConnectionDigest,
    all: &'a Digest,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Number of open connections.
    pub(crate) connections: usize,
    /// Number of open subflows of these connections.
    pub(crate) subflows: usize,
    /// Sum of the known rates of open connections. `None`: there are open connections, and all their rates are unknown.
    pub(crate) send: Option<BitsPerSecond>,
    /// Like `send`.
    pub(crate) receive: Option<BitsPerSecond>,
    /// Number of subflows that share a bottleneck with another subflow and so add no throughput.
    pub(crate) extra: usize,
    /// Energy of the extra subflows. `None`: unknown for all of them.
    pub(crate) wasted: Option<FlowEnergy>,
}

impl Digest {
    pub(crate) fn new(connections: &[Connection]) -> Self {
        let mut digest = Self { connections: Vec::with_capacity(connections.len()), ..Self::default() };
        for connection in connections {
            let from = digest.subflows.len();
            digest
                .subflows
                .extend(connection.subflows.iter().map(|subflow| SubflowDigest::new(connection, subflow)));
            digest.paths.extend(connection.subflows.iter().map(|subflow| PathKey::new(connection, subflow)));
            digest.connections.push(ConnectionDigest::new(connection, from..digest.subflows.len()));
            digest.totals.add(connection);
        }
        for problem in digest.connections.iter().filter_map(|connection| connection.problem) {
            *digest.problems.entry(problem).or_default() += 1;
        }
        if digest.totals.connections == 0 {
            (digest.totals.send, digest.totals.receive) = (Some(BitsPerSecond(0)), Some(BitsPerSecond(0)));
        }
        digest
    }

    pub(crate) fn entry<'a>(&'a self, connections: &'a [Connection], index: usize) -> Option<Entry<'a>> {
        Some(Entry { connection: connections.get(index)?, digest: self.connections.get(index)?, all: self })
    }
}

impl PathKey {
    fn new(connection: &Connection, subflow: &Subflow) -> Self {
        Self {
            netns: connection.netns_inode,
            interface: subflow.interface,
            local: subflow.local.ip(),
            remote: subflow.remote.ip(),
        }
    }
}

impl ConnectionDigest {
    fn new(connection: &Connection, subflows: Range<usize>) -> Self {
        Self {
            id: connection.id,
            rate: connection.rate(),
            payload: connection.payload(),
            active: connection.energy.and_then(|energy| energy.active),
            remote: connection.remote.map(|remote| remote.ip()),
            process: connection.process.map(|process| process.comm),
            netns: connection.netns_inode,
            cgroup: connection.cgroup.as_ref().map(|path| FxBuildHasher.hash_one(path)),
            is_open: connection.is_open(),
            is_server: connection.role == Some(Role::Server),
            problem: finding::of_connection(connection)
                .iter()
                .find(|found| found.is_problem())
                .map(Finding::kind),
            has_shared: finding::shared_groups(connection).next().is_some(),
            subflows,
        }
    }
}

impl SubflowDigest {
    fn new(connection: &Connection, subflow: &Subflow) -> Self {
        let has_failed = outage::has_failed(connection, subflow);
        Self {
            id: subflow.id,
            rates: subflow.send.zip(subflow.receive),
            sent: subflow.bytes_sent,
            received: subflow.bytes_received,
            retransmitted: subflow.bytes_retransmitted,
            observed: subflow.observed.bytes,
            rtt: subflow.current_srtt().filter(|_| subflow.closed.is_none()),
            energy: subflow.energy.map(|energy| (energy.active, energy.source)),
            is_open: subflow.closed.is_none(),
            has_failed,
            verdict: verdict_unless_shared(connection, subflow.id),
        }
    }

    /// Sum of the send and receive rates. `None`: unknown.
    pub(crate) fn rate(&self) -> Option<BitsPerSecond> {
        self.rates.map(|(send, receive)| send + receive)
    }

    /// Current rates of sending and receiving. `None`: unknown, or the flow is closed: the rates of the last interval are not current.
    pub(crate) fn current(&self) -> Option<(BitsPerSecond, BitsPerSecond)> {
        self.rates.filter(|_| self.is_open)
    }
}

/// A verdict other than `shared` on a pair with this subflow. `None`: no such verdict.
fn verdict_unless_shared(connection: &Connection, subflow: SubflowId) -> Option<Verdict> {
    let pairs = &connection.bottlenecks.as_ref()?.pairs;
    let mut others = pairs.iter().filter(|pair| pair.verdict != Verdict::Shared);
    others.find(|pair| pair.a == subflow || pair.b == subflow).map(|pair| pair.verdict)
}

impl<'a> Entry<'a> {
    pub(crate) fn subflows(self) -> &'a [SubflowDigest] {
        self.all.subflows.get(self.digest.subflows.clone()).unwrap_or_default()
    }

    pub(crate) fn paths(self) -> &'a [PathKey] {
        self.all.paths.get(self.digest.subflows.clone()).unwrap_or_default()
    }
}

impl Totals {
    fn add(&mut self, connection: &Connection) {
        if connection.is_open() {
            self.connections += 1;
            self.subflows += connection.subflows.iter().filter(|subflow| subflow.closed.is_none()).count();
            self.send = sum_of_known(self.send, connection.send);
            self.receive = sum_of_known(self.receive, connection.receive);
        }
        for group in finding::shared_groups(connection) {
            self.extra += group.len() - 1;
            if let Some(more) = finding::extra_cost(connection, &group[1..]) {
                self.wasted = Some(self.wasted.map_or(more, |sum| FlowEnergy::sum(&[sum, more])));
            }
        }
    }
}

/// The sum of the known values. `None`: both are unknown.
pub(crate) fn sum_of_known(a: Option<BitsPerSecond>, b: Option<BitsPerSecond>) -> Option<BitsPerSecond> {
    a.zip(b).map(|(a, b)| a + b).or(a).or(b)
}
