// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment consists of: cells, and in each a network, traffic, and possibly a failure. Plain data.

use std::time::Duration;

use crate::data::{Description, Factor, declared};
use crate::fabric::{FabricSpec, HOSTS};
use mpwatch_lab::topology::TopologySpec;
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_model::flow::bottleneck::DetectionMethod;

use super::own::between::Between;

/// How large the runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As in docs/study.md.
    Full,
    /// Fewer cells, smaller transfers: to see that everything works.
    Quick,
}

impl Scale {
    /// One of two values.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// An experiment of a paper, as its file declares it.
#[derive(Clone, Copy)]
pub(super) struct Declared {
    pub(super) description: &'static declared::Description,
    /// Its cells at this scale.
    pub(super) cells: fn(Scale) -> Vec<Cell>,
}

/// An experiment.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) description: Description,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    /// In the lab, which can be of any size.
    Scaled(fn(Scale) -> Vec<Cell>),
    /// As a file lists them.
    Given(Vec<Cell>),
}

impl From<&Declared> for Experiment {
    fn from(declared: &Declared) -> Self {
        Self { description: declared.description.into(), cells: Cells::Scaled(declared.cells) }
    }
}

impl Experiment {
    /// One of a file.
    pub(super) fn own(description: Description, cells: Vec<Cell>) -> Self {
        Self { description, cells: Cells::Given(cells) }
    }

    /// Its cells at this scale.
    pub(crate) fn cells(&self, scale: Scale) -> Vec<Cell> {
        match &self.cells {
            Cells::Scaled(cells) => cells(scale),
            Cells::Given(cells) => cells.clone(),
        }
    }
}

/// The factor that changes nothing but how a run is judged.
const METHOD: &str = "method";

/// One combination of factors.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) factors: Vec<Factor>,
    pub(crate) work: Work,
    /// How shared bottlenecks are detected.
    pub(crate) method: DetectionMethod,
}

/// What is run.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// In the lab.
    Lab(Box<Scenario>),
    /// Between two machines.
    Between(Box<Between>),
}

impl Cell {
    /// A cell in the lab with these factors.
    pub(crate) fn new(factors: &[(&str, &dyn ToString)], scenario: Scenario) -> Self {
        let factors = factors.iter().map(|(name, value)| Factor::new(name, &value.to_string())).collect();
        Self::of(factors, Work::Lab(Box::new(scenario)))
    }

    pub(super) fn of(factors: Vec<Factor>, work: Work) -> Self {
        Self { factors, work, method: DetectionMethod::default() }
    }

    /// Judged by this method, which becomes a factor.
    pub(crate) fn judged_by(mut self, method: DetectionMethod) -> Self {
        self.factors.push(Factor::new(METHOD, &method.as_str()));
        Self { method, ..self }
    }

    /// The factors that decide what happens in a run. Cells that have them in common are measured in one run: each method judges the same
    /// traffic.
    pub(crate) fn factors_of_run(&self) -> Vec<Factor> {
        self.factors.iter().filter(|factor| factor.name != METHOD).cloned().collect()
    }
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) network: Network,
    /// Runs at the same time. The run ends when all loads that are measured have ended.
    pub(crate) traffic: Vec<Load>,
    /// A real program instead of `traffic`.
    pub(crate) application: Option<Application>,
    pub(crate) failure: Option<Failure>,
    /// Whether the extra subflows of measured connections are closed.
    pub(crate) eliminate: bool,
    /// Limit for the traffic: a transfer that has not ended by then never will.
    pub(crate) timeout: Duration,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            network: Network::Paths(TopologySpec::default()),
            traffic: Vec::new(),
            application: None,
            failure: None,
            eliminate: false,
            timeout: Duration::from_mins(1),
        }
    }
}

/// Where the traffic runs.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// A client and a server with several paths.
    Paths(TopologySpec),
    /// The hosts of a data centre.
    Fabric(FabricSpec),
}

/// A real program, with MPTCP or plain TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application {
    pub(crate) program: Program,
    pub(crate) transport: Transport,
    /// Number of requests, or bytes of the file.
    pub(crate) amount: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// redis-server and redis-benchmark.
    Redis,
    /// rsync and its daemon.
    Rsync,
    /// nginx and curl.
    Nginx,
}

/// Connections of one kind, and what they are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    pub(crate) workload: Workload,
    /// Total number of connections, and how many are open at the same time.
    pub(crate) connections: u32,
    pub(crate) concurrency: u32,
    pub(crate) congestion: &'static str,
    /// Client and server, as numbers of hosts of a fabric. Between paths there are only two.
    pub(crate) hosts: [usize; 2],
}

/// What a load is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Most quantities are about it.
    Measured,
    /// Short flows beside it, which have quantities of their own.
    Short,
    /// It only takes bandwidth.
    Background,
}

impl Load {
    /// One upload that is measured.
    pub(crate) fn upload(transport: Transport, bytes: u64) -> Self {
        Self::of(Role::Measured, transport, Workload::upload(bytes))
    }

    /// One connection.
    pub(crate) fn of(role: Role, transport: Transport, workload: Workload) -> Self {
        Self {
            role,
            transport,
            workload,
            connections: 1,
            concurrency: 1,
            congestion: "cubic",
            hosts: [0, HOSTS - 1],
        }
    }

    /// Between these hosts of a fabric.
    pub(crate) fn between(self, client: usize, server: usize) -> Self {
        Self { hosts: [client, server], ..self }
    }

    /// As many connections, all at the same time.
    pub(crate) fn times(self, connections: u32) -> Self {
        Self { connections, concurrency: connections, ..self }
    }
}

/// A path fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    /// Index of the path.
    pub(crate) path: usize,
    /// When, after the start of the traffic.
    pub(crate) after: Duration,
}

/// Name of a transport as a factor.
pub(crate) fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Mptcp => "mptcp",
    }
}

/// Both transports, TCP first: it is what MPTCP is compared with.
pub(crate) const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Mptcp];
