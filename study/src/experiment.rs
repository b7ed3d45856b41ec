// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data structures of experiments: cells, each with a network, traffic, and possibly a failure.

use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_model::flow::bottleneck::DetectionMethod;

use crate::custom::between::Between;
use crate::data::{Description, Factor};
use crate::fabric::{FabricSpec, HOSTS};

/// Size of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As in docs/study.md.
    Full,
    /// Fewer cells and smaller transfers, to check that everything works.
    Quick,
}

impl Scale {
    /// Returns the value for this scale.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// An experiment of a paper or of a user.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) description: Description,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    /// Cells of a paper's experiment, which depend on the scale.
    Scaled(fn(Scale) -> Vec<Cell>),
    /// Cells of a user's file.
    Given(Vec<Cell>),
}

impl Experiment {
    /// An experiment of a paper, whose cells depend on the scale.
    pub(crate) fn scaled(description: Description, cells: fn(Scale) -> Vec<Cell>) -> Self {
        Self { description, cells: Cells::Scaled(cells) }
    }

    /// A user's experiment.
    pub(crate) fn custom(description: Description, cells: Vec<Cell>) -> Self {
        Self { description, cells: Cells::Given(cells) }
    }

    /// The cells of the experiment at this scale.
    pub(crate) fn cells(&self, scale: Scale) -> Vec<Cell> {
        match &self.cells {
            Cells::Scaled(cells) => cells(scale),
            Cells::Given(cells) => cells.clone(),
        }
    }
}

/// Name of the factor that changes only the detection method that evaluates a run.
const METHOD: &str = "method";

/// One combination of factors.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) factors: Vec<Factor>,
    pub(crate) work: Work,
    /// The method that detects shared bottlenecks in this cell.
    pub(crate) method: DetectionMethod,
}

/// Where a run takes place.
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
        Self::from_factors(factors, Work::Lab(Box::new(scenario)))
    }

    /// A cell that uses mpwatch's own detection method.
    pub(crate) fn from_factors(factors: Vec<Factor>, work: Work) -> Self {
        Self { factors, work, method: DetectionMethod::default() }
    }

    /// The same cell with this detection method, which becomes a factor.
    pub(crate) fn judged_by(mut self, method: DetectionMethod) -> Self {
        self.factors.push(Factor::new(METHOD, &method.as_str()));
        Self { method, ..self }
    }

    /// The factors without the method. Cells that agree in these factors share a run, so that all methods evaluate the same traffic.
    pub(crate) fn factors_of_run(&self) -> Vec<Factor> {
        self.factors.iter().filter(|factor| factor.name != METHOD).cloned().collect()
    }
}

/// The network, traffic and failure of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) network: Network,
    /// All loads run in parallel. The run ends when the measured loads have ended.
    pub(crate) traffic: Vec<Load>,
    /// A program that runs instead of `traffic`. `None`: no program.
    pub(crate) application: Option<Application>,
    pub(crate) failure: Option<LinkFailure>,
    /// Whether mpwatch closes the extra subflows of the run's connections.
    pub(crate) eliminate: bool,
    /// Time after which transfers end, whether complete or not.
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

/// The network of a run.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// A client and a server with several paths.
    Paths(TopologySpec),
    /// The hosts of a data centre.
    Fabric(FabricSpec),
}

impl Network {
    /// A client and a server with `paths` equal paths.
    pub(crate) fn equal_paths(link: LinkSpec, paths: usize) -> Self {
        let paths = vec![PathSpec { link, ..PathSpec::default() }; paths];
        Self::Paths(TopologySpec { paths, ..TopologySpec::default() })
    }

    /// A client and a server with `subflows` paths, which use `links` in turn.
    pub(crate) fn shared_links(links: Vec<LinkSpec>, subflows: usize) -> Self {
        let path = |nth: usize| PathSpec { bottleneck: Some(nth % links.len()), ..PathSpec::default() };
        let paths = (0..subflows).map(path).collect();
        Self::Paths(TopologySpec { paths, bottlenecks: links, ..TopologySpec::default() })
    }
}

/// A real program, with MPTCP or plain TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Application {
    pub(crate) program: Program,
    pub(crate) transport: Transport,
    /// Number of requests of Redis, or size of the transferred file in bytes.
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

/// Connections of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) purpose: Purpose,
    pub(crate) transport: Transport,
    pub(crate) workload: Workload,
    /// Total number of connections, and the number in parallel.
    pub(crate) connections: u32,
    pub(crate) concurrency: u32,
    pub(crate) congestion: &'static str,
    /// Host numbers of client and server in a fabric. Ignored in a network of two hosts.
    pub(crate) hosts: [usize; 2],
}

/// The purpose of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Most quantities are measured on this load.
    Measured,
    /// Short flows in parallel to the measured load, with separate quantities.
    Short,
    /// The load only uses bandwidth.
    Background,
}

impl Load {
    /// One upload that is measured.
    pub(crate) fn upload(transport: Transport, bytes: u64) -> Self {
        Self::new(Purpose::Measured, transport, Workload::upload(bytes))
    }

    /// A load of one connection.
    pub(crate) fn new(purpose: Purpose, transport: Transport, workload: Workload) -> Self {
        Self {
            purpose,
            transport,
            workload,
            connections: 1,
            concurrency: 1,
            congestion: "cubic",
            hosts: [0, HOSTS - 1],
        }
    }

    /// The same load between two hosts of a fabric.
    pub(crate) fn between(self, client: usize, server: usize) -> Self {
        Self { hosts: [client, server], ..self }
    }

    /// The same load with this number of connections, all in parallel.
    pub(crate) fn times(self, connections: u32) -> Self {
        Self { connections, concurrency: connections, ..self }
    }
}

/// The failure of a path's link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkFailure {
    /// Index of the path.
    pub(crate) path: usize,
    /// Time from the start of the traffic.
    pub(crate) after: Duration,
}

/// The name of a transport as the value of a factor.
pub(crate) fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Mptcp => "mptcp",
    }
}

/// Both transports. TCP, the baseline, is first.
pub(crate) const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Mptcp];
