// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between the process that controls a user's experiment and its two ends: lines on standard input and output, mostly JSON.

use mpwatch_lab::traffic::{TrafficReport, TrafficSpec};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use crate::run::Sample;

/// The second line that an end receives: start the traffic.
pub(super) const GO: &str = "go";
/// The third line that the server receives: the client has finished. A run is cancelled by closing the input.
pub(super) const FINISHED: &str = "finished";

/// The first line that an end receives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum EndpointRequest {
    /// Describe the machine.
    Describe,
    /// Trace this machine and run one side of the traffic.
    Run(Box<Job>),
}

/// One side of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) side: Side,
    pub(super) traffic: TrafficSpec,
}

/// A side of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    /// The name of the side's table in the file, also used in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The first answer of an end that runs traffic. From now on it traces and, as the server, listens.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ready;

/// The observations of one end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observation {
    /// The report on the connections of this run at this end.
    pub(super) report: Report,
    pub(super) traffic: TrafficReport,
    /// Start of the traffic on the boot clock of this machine.
    pub(super) began: Nanos,
    pub(super) samples: Vec<Sample>,
}
