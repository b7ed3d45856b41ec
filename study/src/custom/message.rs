// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between the process that drives a user's experiment and its two ends: lines on standard input and output, most of them JSON.

use mpwatch_lab::traffic::{TrafficReport, TrafficSpec};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use crate::run::Sample;

/// The second line to an end: the traffic begins.
pub(super) const GO: &str = "go";
/// The third line to an end: the other end has finished. Closing the input cancels a run.
pub(super) const FINISHED: &str = "finished";

/// The first line to an end: a request.
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

/// Side of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    /// Its table in the file, and its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The first answer of an end that runs traffic: it traces and, as a server, listens.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Ready;

/// The observations of one end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observation {
    /// Report on the connections of this run at this end.
    pub(super) report: Report,
    pub(super) traffic: TrafficReport,
    /// Start of the traffic on the boot clock of this machine.
    pub(super) began: Nanos,
    pub(super) samples: Vec<Sample>,
}
