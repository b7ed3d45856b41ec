// SPDX-License-Identifier: MIT OR Apache-2.0
//! One scenario of the evaluation: its factors, its name, and the one place where training and evaluation are kept apart: no rate,
//! RTT, buffer or seed is in both. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Set {
    /// Weights are fitted on it. Nothing that is published comes from it.
    Training,
    /// What is published is measured on it. Nothing is chosen by it.
    Evaluation,
}

impl Set {
    /// Rates of bottlenecks, Mbit/s.
    pub fn rates(self) -> &'static [u32] {
        match self {
            Self::Training => &[12, 35, 70],
            Self::Evaluation => &[20, 50, 100, 200, 500],
        }
    }

    /// What comes with a seed: equal RTT, unequal RTTs, and buffer, in milliseconds.
    pub fn of_seed(self, seed: u32) -> ([u32; 3], u32) {
        match (self, seed % 3) {
            (Self::Training, 0) => ([10, 8, 30], 30),
            (Self::Training, 1) => ([6, 3, 24], 70),
            (Self::Training, _) => ([28, 12, 50], 15),
            (Self::Evaluation, 0) => ([20, 5, 40], 50),
            (Self::Evaluation, 1) => ([2, 5, 40], 100),
            (Self::Evaluation, _) => ([20, 2, 20], 10),
        }
    }

    /// Seeds, the first ones first.
    pub fn seeds(self, count: u32) -> std::ops::Range<u32> {
        match self {
            Self::Training => 300..300 + count,
            Self::Evaluation => 0..count,
        }
    }
}

/// Who meets where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// All subflows go through one queue.
    Shared,
    /// Each has a queue of its own, all alike.
    Disjoint,
    /// One half goes through one queue, the other half through another.
    Partly,
    /// Two have queues of their own; in mid-transfer the route of one changes, and they share.
    Switching,
    /// One rate, but a queue for each (htb with a class a subflow): no queue is shared.
    Fair,
    /// Table III of `[MPTCP-D]`: as `Partly`, the first queue at the given rate, the second at a fifth of it.
    TwoRates,
}

/// What else goes through the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cross {
    /// Nothing.
    None,
    /// Bulk TCP: through a shared queue one to three connections, else one through every second queue.
    Bulk,
    /// One short TCP connection of 60 kB after the other.
    Short,
}

/// What the application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum App {
    /// Sends as fast as it can.
    Bulk,
    /// Sends 70 % of what fits through.
    Limited,
    /// Sends 0.5 MB on one connection after the other.
    Short,
}

/// One scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// What it is for.
    pub set: Set,
    /// Who meets where.
    pub layout: Layout,
    /// Subflows of the connection.
    pub subflows: usize,
    /// Rate of each bottleneck, Mbit/s.
    pub mbit: u32,
    /// What else goes through.
    pub cross: Cross,
    /// Whether base RTTs differ between subflows.
    pub unequal: bool,
    /// Congestion control of all senders.
    pub congestion: Congestion,
    /// What the application does.
    pub app: App,
    /// How many connections at once.
    pub connections: u32,
    /// Chooses RTTs and buffer, and when cross traffic starts.
    pub seed: u32,
    /// For how long.
    pub seconds: u32,
    /// Without delays, and so without the relays in user space that make them: only so the machine can fill fast links.
    #[serde(default)]
    pub direct: bool,
    /// Each subflow is a connection of its own, all to one address (`--across`).
    #[serde(default)]
    pub lone: bool,
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
    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl Cell {
    /// A bulk transfer over two subflows, alone and with cubic.
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
            lone: false,
        }
    }

    /// RTT without queue of a subflow's path, milliseconds; what a cable has, counts as 0.
    pub fn rtt_ms(&self, subflow: usize) -> u32 {
        if self.direct {
            return 0;
        }
        let ([equal, near, far], _) = self.set.of_seed(self.seed);
        match (self.unequal, subflow % 2) {
            (false, _) => equal,
            (true, 0) => near,
            (true, _) => far,
        }
    }

    /// Longest time in a queue, milliseconds.
    pub fn buffer_ms(&self) -> u32 {
        self.set.of_seed(self.seed).1
    }

    /// Queues that subflows wait in.
    pub fn queues(&self) -> usize {
        match self.layout {
            Layout::Shared => 1,
            Layout::Partly | Layout::TwoRates => 2,
            Layout::Disjoint | Layout::Switching | Layout::Fair => self.subflows,
        }
    }

    /// The queue of a subflow, before and after the route changes (if it does).
    pub fn queue_of(&self, subflow: usize, after_switch: bool) -> usize {
        match self.layout {
            Layout::Shared => 0,
            // The kernel allows nine: eight on the first path leave one for the second.
            Layout::TwoRates if self.subflows == 9 => usize::from(subflow == 8),
            Layout::Partly | Layout::TwoRates => usize::from(subflow >= self.subflows / 2),
            Layout::Switching if after_switch => 1,
            Layout::Disjoint | Layout::Switching | Layout::Fair => subflow,
        }
    }

    /// Rate of a queue, Mbit/s.
    pub fn rate_of(&self, queue: usize) -> u32 {
        if self.layout == Layout::TwoRates && queue == 1 { self.mbit / 5 } else { self.mbit }
    }

    /// What goes through all queues together, Mbit/s.
    pub fn total_mbit(&self) -> u32 {
        match self.layout {
            Layout::Fair | Layout::Shared => self.mbit,
            _ => (0..self.queues()).map(|queue| self.rate_of(queue)).sum(),
        }
    }

    /// The name without the seed: what it is in tables.
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
        let apart = if self.lone { "-lone" } else { "" };
        let long = if *seconds == 6 { String::new() } else { format!("-{seconds}s") };
        format!(
            "{layout}-n{subflows}-{mbit}m-{cross}-{rtt}-{}{app}{many}{long}{direct}{apart}",
            congestion.name()
        )
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-s{}", self.kind(), self.seed)
    }
}
