// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the two ends of an own experiment and the process that drives them exchange: lines on standard input and output, most of them JSON.

use mpwatch_lab::traffic::{TrafficReport, TrafficSpec};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use crate::run::Sample;

/// The second line to an end: the traffic begins.
pub(super) const GO: &str = "go";
/// The third line to an end: the other one has finished. The end of the input cancels a run.
pub(super) const FINISHED: &str = "finished";

/// The first line to an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Which machine is it?
    Describe,
    /// Trace this end of the traffic, and run it.
    Run(Box<Job>),
}

/// One end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) role: Role,
    pub(super) traffic: TrafficSpec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
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

/// What one end observed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observation {
    /// Of the connections of this run at this end.
    pub(super) report: Report,
    pub(super) traffic: TrafficReport,
    /// When the traffic began, on the boot clock of this machine.
    pub(super) began: Nanos,
    pub(super) samples: Vec<Sample>,
}
