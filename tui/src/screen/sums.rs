// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that sum up flows: a path (interface and pair of addresses), a peer, a process, a namespace. There may be as many of them as flows.
//! Which flows belong to which sum is found for all of them ([`gather`]); the sum itself only where it is looked at, or sorted by.

mod cells;
mod gather;

use std::net::IpAddr;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::energy::{EnergySource, FlowEnergy};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Bytes, Micros};

use super::app::App;
use super::digest::{Brief, Cost, Flow, Head};
use super::rows::{Grouping, Place};
pub(crate) use cells::{PATHS, PEERS, SUM_COLUMNS, SumColumn, SumView};
pub(crate) use gather::Sums;
use gather::{Group, Member};

/// Values of a sum that are drawn over time.
const DRAWN: usize = 40;

/// Which sum it is, also after a new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SumKey {
    /// Interface and pair of addresses, in a namespace.
    Path { netns: u32, interface: Option<Name>, local: IpAddr, remote: IpAddr },
    /// Remote address.
    Peer(Option<IpAddr>),
    /// Name of a process.
    Process(Option<Name>),
    /// Inode of a namespace.
    Namespace(u32),
}

impl SumKey {
    pub(crate) fn path(connection: &Connection, subflow: &Subflow) -> Self {
        Self::Path {
            netns: connection.netns_inode,
            interface: subflow.interface,
            local: subflow.local.ip(),
            remote: subflow.remote.ip(),
        }
    }

    fn peer(head: &Head, by: Grouping) -> Self {
        match by {
            Grouping::Peer => Self::Peer(head.remote),
            Grouping::Process => Self::Process(head.process),
            Grouping::Namespace => Self::Namespace(head.netns),
        }
    }

    /// Whether a connection has a part in it.
    pub(crate) fn holds(self, one: Brief<'_>) -> bool {
        match self {
            Self::Path { .. } => one.paths().contains(&self),
            Self::Peer(_) => Self::peer(one.head, Grouping::Peer) == self,
            Self::Process(_) => Self::peer(one.head, Grouping::Process) == self,
            Self::Namespace(_) => Self::peer(one.head, Grouping::Namespace) == self,
        }
    }
}

/// What several subflows are together.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    pub(crate) key: SumKey,
    /// The first of its connections: what the key does not say can be read there.
    example: Option<Place>,
    connections: usize,
    open: usize,
    failed: usize,
    send: u64,
    receive: u64,
    sent: u64,
    received: u64,
    again: u64,
    watts: Option<f64>,
    energy: Option<FlowEnergy>,
    /// Median of the smoothed RTTs.
    rtt: Option<Micros>,
    lowest_rtt: Option<Micros>,
    /// Its paths stand behind one bottleneck with others.
    pub(crate) group: Option<Group>,
    /// What is known where it is in no group.
    apart: Option<Verdict>,
}

impl Sum {
    fn new(key: SumKey) -> Self {
        Self {
            key,
            example: None,
            connections: 0,
            open: 0,
            failed: 0,
            send: 0,
            receive: 0,
            sent: 0,
            received: 0,
            again: 0,
            watts: None,
            energy: None,
            rtt: None,
            lowest_rtt: None,
            group: None,
            apart: None,
        }
    }

    /// The sum of these; those of one connection stand side by side.
    fn of(app: &App, key: SumKey, members: &[Member]) -> Self {
        let mut sum = Self { example: members.first().map(|member| member.place), ..Self::new(key) };
        let mut rtts = Vec::new();
        let mut latest = None;
        for member in members {
            let Some(flow) = member.flow(app) else { continue };
            sum.connections += usize::from(latest.replace(member.place) != Some(member.place));
            sum.add(flow);
            rtts.extend(flow.rtt);
            let track = app.history.subflow(flow.id);
            sum.add_watts(track.and_then(|track| track.watts(app.turn())));
            if sum.apart.is_none() && matches!(key, SumKey::Path { .. }) {
                sum.apart = flow.apart;
            }
        }
        if !rtts.is_empty() {
            let middle = rtts.len() / 2;
            let (below, median, _) = rtts.select_nth_unstable(middle);
            sum.rtt = Some(*median);
            sum.lowest_rtt = Some(below.iter().min().copied().unwrap_or(*median));
        }
        sum
    }

    fn add(&mut self, flow: &Flow) {
        self.open += usize::from(flow.is_open);
        self.failed += usize::from(flow.has_failed);
        self.send = self.send.saturating_add(flow.send.0);
        self.receive = self.receive.saturating_add(flow.receive.0);
        self.sent = self.sent.saturating_add(flow.sent.0);
        self.received = self.received.saturating_add(flow.received.0);
        self.again = self.again.saturating_add(flow.again.0);
        if let Some(energy) = flow.cost.map(Cost::energy) {
            self.energy = Some(self.energy.map_or(energy, |sum| FlowEnergy::sum([&sum, &energy])));
        }
    }

    fn add_watts(&mut self, watts: Option<f64>) {
        if let Some(watts) = watts {
            *self.watts.get_or_insert(0.0) += watts;
        }
    }

    fn example<'a>(&self, app: &'a App) -> Option<&'a Connection> {
        app.connection(self.example?)
    }

    fn rate(&self) -> u64 {
        self.send.saturating_add(self.receive)
    }

    /// Part of the payload that had to be sent again.
    fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.again as f64 / self.sent as f64)
    }

    fn energy(&self) -> Option<FlowEnergy> {
        let payload = Bytes(self.sent.saturating_sub(self.again) + self.received);
        self.energy.map(|energy| energy.over(payload))
    }

    fn tilde(&self) -> &'static str {
        let estimated =
            |energy: FlowEnergy| energy.source != EnergySource::Absent && !energy.source.is_measured();
        if self.energy.is_some_and(estimated) { "~" } else { "" }
    }
}

/// A sum that is on the screen.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    sum: Sum,
    /// Rate of all its subflows over time, the latest last.
    rates: Vec<f32>,
}

impl Made {
    fn of(app: &App, sum: Sum, members: &[Member]) -> Self {
        let flows = members.iter().filter_map(|member| member.flow(app)).map(|flow| flow.id);
        Self { sum, rates: app.history.rates(flows, app.turn(), DRAWN) }
    }
}
