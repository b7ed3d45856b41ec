// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings: problems and facts of a run or a connection, as data and as one sentence, for the screen and all reports.

mod bottleneck;
mod detect;
mod fact;
mod group;
mod sentence;
mod unmeasured;

pub use bottleneck::{extra_cost, shared_groups, working_subflows};
pub use detect::of_connection;
pub use fact::{
    Certainty, DownTime, Fact, FailedJoin, FailedPath, Finding, MainOutage, OtherPairs, Severity,
    SharedBottleneck,
};
pub use group::{Peer, ProblemGroup, problems_of_report};
pub use sentence::{Format, joined};
pub use unmeasured::unmeasured;
