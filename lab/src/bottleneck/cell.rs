// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell: one scenario with its factors and its name. No rate, RTT, buffer or seed occurs in both training and evaluation cells. No I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The purpose of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Set {
    /// Cells on which weights are fitted. No published figure is measured on them.
    Training,
    /// Cells on which published figures are measured. No parameter is chosen with them.
    Evaluation,
}

impl Set {
    /// The rates that bottlenecks of this set have, Mbit/s.
    #[must_use]
    pub fn rates(self) -> &'static [u32] {
        match self {
            Self::Training => &[12, 35, 70],
            Self::Evaluation => &[20, 50, 100, 200, 500],
        }
    }

    /// The delays of a seed, milliseconds: three RTTs (of all paths if RTTs are equal; of even paths and of odd paths otherwise), and the buffer.
    #[must_use]
    pub fn delays(self, seed: u32) -> ([u32; 3], u32) {
        match (self, seed % 3) {
            (Self::Training, 0) => ([10, 8, 30], 30),
            (Self::Training, 1) => ([6, 3, 24], 70),
            (Self::Training, _) => ([28, 12, 50], 15),
            (Self::Evaluation, 0) => ([20, 5, 40], 50),
            (Self::Evaluation, 1) => ([2, 5, 40], 100),
            (Self::Evaluation, _) => ([20, 2, 20], 10),
        }
    }

    /// The first `count` seeds.
    #[must_use]
    pub fn seeds(self, count: u32) -> std::ops::Range<u32> {
        match self {
            Self::Training => 300..300 + count,
            Self::Evaluation => 0..count,
        }
    }
}

/// Which subflows share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// All subflows go through one queue.
    Shared,
    /// Each subflow has its own queue, all with the same parameters.
    Disjoint,
    /// Half of the subflows go through one queue, half through another.
    Partly,
    /// Two subflows have their own queues. In the middle of the transfer, the route of the first changes to the queue of the second.
    Switching,
    /// Each subflow has its own queue, and the total rate of all queues is limited (fair queueing).
    Fair,
    /// As [`Layout::Partly`], but the second queue has a fifth of the first queue's rate, as in Table III of `[MPTCP-D]`.
    TwoRates,
}

/// Other traffic in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cross {
    /// No other traffic.
    None,
    /// Bulk TCP: one to three connections if there is a single queue, otherwise a connection through every second queue.
    Bulk,
    /// Short TCP connections of 60 kB, up to three at a time through every second queue.
    Short,
}

/// Behaviour of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum App {
    /// Sends as fast as the connection allows.
    Bulk,
    /// Sends at 70 % of the total rate of all queues.
    Limited,
    /// Sends 0.5 MB on one connection after the other.
    Short,
}

/// One scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The purpose of the cell.
    pub set: Set,
    /// Which subflows share a queue.
    pub layout: Layout,
    /// Number of subflows of each connection.
    pub subflows: usize,
    /// Rate of each bottleneck, Mbit/s.
    pub mbit: u32,
    /// Other traffic.
    pub cross: Cross,
    /// Whether base RTTs differ between subflows.
    pub unequal: bool,
    /// Congestion control of all senders.
    pub congestion: Congestion,
    /// Behaviour of the application.
    pub app: App,
    /// Number of parallel connections.
    pub connections: u32,
    /// Determines RTTs, buffer, and the random numbers of the traffic.
    pub seed: u32,
    /// Duration, seconds.
    pub seconds: u32,
    /// Whether no delay is emulated. Cells with fast links need this, because the user-space relays that emulate delays are too slow.
    #[serde(default)]
    pub direct: bool,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Congestion {
    /// `cubic`.
    Cubic,
    /// `reno`.
    Reno,
    /// `bbr`.
    Bbr,
}

impl Congestion {
    /// The kernel's name of the congestion control.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl Cell {
    /// A bulk transfer over two subflows with cubic, without other traffic.
    #[must_use]
    pub fn new(set: Set, layout: Layout, mbit: u32) -> Self {
        Self {
            set,
            layout,
            subflows: 2,
            mbit,
            cross: Cross::None,
            unequal: false,
            congestion: Congestion::Cubic,
            app: App::Bulk,
            connections: 1,
            seed: set.seeds(1).start,
            seconds: 6,
            direct: false,
        }
    }

    /// RTT of a subflow's path while queues are empty, in milliseconds. 0: no delay is emulated.
    #[must_use]
    pub fn rtt_ms(&self, subflow: usize) -> u32 {
        if self.direct {
            return 0;
        }
        let ([equal, near, far], _) = self.set.delays(self.seed);
        match (self.unequal, subflow % 2) {
            (false, _) => equal,
            (true, 0) => near,
            (true, _) => far,
        }
    }

    /// Maximum waiting time in a queue, milliseconds.
    #[must_use]
    pub fn buffer_ms(&self) -> u32 {
        self.set.delays(self.seed).1
    }

    /// Number of queues.
    #[must_use]
    pub fn queues(&self) -> usize {
        match self.layout {
            Layout::Shared => 1,
            Layout::Partly | Layout::TwoRates => 2,
            Layout::Disjoint | Layout::Switching | Layout::Fair => self.subflows,
        }
    }

    /// The index of a subflow's queue. `after_switch`: after the change of the route in [`Layout::Switching`].
    #[must_use]
    pub fn queue_of(&self, subflow: usize, after_switch: bool) -> usize {
        match self.layout {
            Layout::Shared => 0,
            // The kernel allows nine subflows: eight use the first path, one the second.
            Layout::TwoRates if self.subflows == 9 => usize::from(subflow == 8),
            Layout::Partly | Layout::TwoRates => usize::from(subflow >= self.subflows / 2),
            Layout::Switching if after_switch => 1,
            Layout::Disjoint | Layout::Switching | Layout::Fair => subflow,
        }
    }

    /// Rate of a queue, Mbit/s.
    #[must_use]
    pub fn rate_of(&self, queue: usize) -> u32 {
        if self.layout == Layout::TwoRates && queue == 1 { self.mbit / 5 } else { self.mbit }
    }

    /// Total rate of all queues, Mbit/s.
    #[must_use]
    pub fn total_mbit(&self) -> u32 {
        match self.layout {
            Layout::Fair | Layout::Shared => self.mbit,
            _ => (0..self.queues()).map(|queue| self.rate_of(queue)).sum(),
        }
    }

    /// The name of the cell without its seed, as used in tables.
    #[must_use]
    pub fn kind(&self) -> String {
        let layout = match self.layout {
            Layout::Shared => "shared",
            Layout::Disjoint => "disjoint",
            Layout::Partly => "partly",
            Layout::Switching => "switching",
            Layout::Fair => "fair",
            Layout::TwoRates => "two-rates",
        };
        let cross = match self.cross {
            Cross::None => "none",
            Cross::Bulk => "cross",
            Cross::Short => "web",
        };
        let rtt = if self.unequal { "uneq" } else { "eq" };
        let app = match self.app {
            App::Bulk => "",
            App::Limited => "-limited",
            App::Short => "-short",
        };
        let many = if self.connections > 1 { format!("-c{}", self.connections) } else { String::new() };
        let Self { subflows, mbit, congestion, seconds, .. } = self;
        let direct = if self.direct { "-direct" } else { "" };
        let long = if *seconds == 6 { String::new() } else { format!("-{seconds}s") };
        format!("{layout}-n{subflows}-{mbit}m-{cross}-{rtt}-{}{app}{many}{long}{direct}", congestion.name())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-s{}", self.kind(), self.seed)
    }
}
