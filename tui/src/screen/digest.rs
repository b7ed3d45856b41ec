// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen needs of every flow for every frame, side by side in memory. A snapshot of ten thousand connections takes 23 MB, of which
//! a walk over all of them reads a line here and there: that would be longer than a frame may take. So it is done once, by the
//! thread that brings the snapshot; the screen walks over some megabytes, from their beginning to their end.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::energy::{EnergySource, FlowEnergy};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::lifecycle::Role;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros};

use super::finding;
use super::flows::groups;
use super::sums::SumKey;

/// A snapshot with its digest.
#[derive(Clone, Debug)]
pub struct Digested {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) digest: Digest,
}

impl Digested {
    /// Looks at every flow of the snapshot, which takes a while: not for the thread of the screen.
    pub fn of(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        let snapshot = snapshot.into();
        Self { digest: Digest::of(&snapshot.connections), snapshot }
    }

    /// One of its connections.
    pub(crate) fn brief(&self, place: usize) -> Option<Brief<'_>> {
        self.digest.brief(&self.snapshot.connections, place)
    }

    /// How many of them are closed.
    pub(crate) fn closed(&self) -> usize {
        self.snapshot.connections.len() - self.digest.totals.connections
    }

    /// All of them.
    pub(crate) fn briefs(&self) -> impl Iterator<Item = Brief<'_>> {
        (0..self.snapshot.connections.len()).filter_map(|place| self.brief(place))
    }
}

/// Of some connections, which are kept beside it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    pub(crate) heads: Vec<Head>,
    /// The subflows of the first connection, then those of the second, and so on.
    pub(crate) flows: Vec<Flow>,
    /// The path of each of those.
    paths: Vec<SumKey>,
    pub(crate) totals: Totals,
}

/// Of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: ConnectionId,
    send: BitsPerSecond,
    receive: BitsPerSecond,
    /// Payload, both ways, as far as it is known.
    pub(crate) carried: Bytes,
    /// Energy above idle so far.
    pub(crate) active: Option<Microjoules>,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) process: Option<Name>,
    pub(crate) netns: u32,
    pub(crate) is_open: bool,
    pub(crate) is_server: bool,
    /// Some of its subflows stand behind one bottleneck.
    pub(crate) has_groups: bool,
    flows: Range<usize>,
}

/// Of a subflow.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) id: SubflowId,
    pub(crate) send: BitsPerSecond,
    pub(crate) receive: BitsPerSecond,
    pub(crate) sent: Bytes,
    pub(crate) received: Bytes,
    pub(crate) again: Bytes,
    /// Smoothed; `None` also of a closed one.
    pub(crate) rtt: Option<Micros>,
    pub(crate) cost: Option<Cost>,
    pub(crate) is_open: bool,
    /// It died while its connection lives.
    pub(crate) has_failed: bool,
    /// What is known of it where it does not share a bottleneck.
    pub(crate) apart: Option<Verdict>,
}

/// What of its energy is summed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) active: Option<Microjoules>,
    pub(crate) source: EnergySource,
}

/// A connection, and the digest of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief<'a> {
    /// All of it: lies elsewhere in memory, not to be read for each of thousands.
    pub(crate) connection: &'a Connection,
    pub(crate) head: &'a Head,
    digest: &'a Digest,
}

/// Sums over a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Open ones.
    pub(crate) connections: usize,
    /// Open ones.
    pub(crate) subflows: usize,
    /// Bit/s, of open connections.
    pub(crate) send: u64,
    /// Bit/s, of open connections.
    pub(crate) receive: u64,
    /// Subflows that add no throughput.
    pub(crate) extra: usize,
    /// What those have cost, as far as it is known of any.
    pub(crate) waste: Option<FlowEnergy>,
}

impl Digest {
    pub(crate) fn of(connections: &[Connection]) -> Self {
        let mut digest = Self { heads: Vec::with_capacity(connections.len()), ..Self::default() };
        for connection in connections {
            let from = digest.flows.len();
            digest.flows.extend(connection.subflows.iter().map(|subflow| Flow::of(connection, subflow)));
            let paths = connection.subflows.iter().map(|subflow| SumKey::path(connection, subflow));
            digest.paths.extend(paths);
            digest.heads.push(Head::of(connection, from..digest.flows.len()));
            digest.totals.add(connection);
        }
        digest
    }

    /// One of these connections, of which this is the digest.
    pub(crate) fn brief<'a>(&'a self, of: &'a [Connection], place: usize) -> Option<Brief<'a>> {
        Some(Brief { connection: of.get(place)?, head: self.heads.get(place)?, digest: self })
    }
}

impl Head {
    fn of(connection: &Connection, flows: Range<usize>) -> Self {
        let carried = [connection.bytes_sent, connection.bytes_received];
        Self {
            id: connection.id,
            send: connection.send,
            receive: connection.receive,
            carried: carried.into_iter().flatten().sum(),
            active: connection.energy.and_then(|energy| energy.active),
            remote: connection.remote.map(|remote| remote.ip()),
            process: connection.process.map(|process| process.comm),
            netns: connection.netns_inode,
            is_open: connection.is_open(),
            is_server: connection.role == Some(Role::Server),
            has_groups: connection.extra_subflows != Some(0) && groups(connection).next().is_some(),
            flows,
        }
    }

    /// Sent and received.
    pub(crate) fn rate(&self) -> BitsPerSecond {
        self.send + self.receive
    }
}

impl Flow {
    fn of(connection: &Connection, subflow: &Subflow) -> Self {
        let cost = |energy: FlowEnergy| Cost { active: energy.active, source: energy.source };
        let died = subflow.closed.is_some_and(|closed| closed.reason.is_failure()) || subflow.stale;
        Self {
            id: subflow.id,
            send: subflow.send,
            receive: subflow.receive,
            sent: subflow.bytes_sent,
            received: subflow.bytes_received,
            again: subflow.bytes_retransmitted,
            rtt: subflow.srtt.filter(|_| subflow.closed.is_none()),
            cost: subflow.energy.map(cost),
            is_open: subflow.closed.is_none(),
            has_failed: died && connection.is_open(),
            apart: not_shared(connection, subflow.id),
        }
    }

    /// Sent and received.
    pub(crate) fn rate(&self) -> BitsPerSecond {
        self.send + self.receive
    }
}

/// What a connection knows of a subflow that is behind no bottleneck of others.
fn not_shared(connection: &Connection, subflow: SubflowId) -> Option<Verdict> {
    let found = connection.bottlenecks.as_ref()?;
    let mut apart = found.pairs.iter().filter(|pair| pair.verdict != Verdict::Shared);
    apart.find(|pair| pair.a == subflow || pair.b == subflow).map(|pair| pair.verdict)
}

impl Cost {
    /// As energy of which nothing else is known.
    pub(crate) fn energy(self) -> FlowEnergy {
        FlowEnergy { active: self.active, source: self.source, ..FlowEnergy::default() }
    }
}

impl<'a> Brief<'a> {
    /// Its subflows.
    pub(crate) fn flows(self) -> &'a [Flow] {
        self.digest.flows.get(self.head.flows.clone()).unwrap_or_default()
    }

    /// Their paths.
    pub(crate) fn paths(self) -> &'a [SumKey] {
        self.digest.paths.get(self.head.flows.clone()).unwrap_or_default()
    }
}

impl Totals {
    fn add(&mut self, connection: &Connection) {
        if connection.is_open() {
            self.connections += 1;
            self.subflows += connection.subflows.iter().filter(|subflow| subflow.closed.is_none()).count();
            self.send = self.send.saturating_add(connection.send.0);
            self.receive = self.receive.saturating_add(connection.receive.0);
        }
        if connection.extra_subflows == Some(0) {
            return;
        }
        for (_, group) in groups(connection) {
            self.extra += group.len() - 1;
            if let Some(more) = finding::wasted(connection, &group[1..]) {
                self.waste = Some(self.waste.map_or(more, |sum| FlowEnergy::sum(&[sum, more])));
            }
        }
    }
}
