// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the connections that a report describes in full, lists in a line, or only counts.

use std::cmp::Reverse;

use mpwatch_model::finding::{self, Finding, Severity};
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::snapshot::Report;
use mpwatch_model::unit::Bytes;

use super::words::{bytes, count};

/// Maximum number of connections described in full; CSV and JSON have all connections.
const MAX_IN_FULL: usize = 50;
/// Maximum number of connections listed in a line each.
const MAX_IN_BRIEF: usize = 20;
/// Without a problem, a connection that carried less than this share of the largest connection is listed in brief.
const MIN_SHARE_IN_FULL: f64 = 0.01;

/// The connections of a report, both ends together, most important first: connections with problems, then the most expensive in energy, then
/// the largest.
pub(crate) struct Selection<'a> {
    pub(crate) in_full: Vec<Flow<'a>>,
    pub(crate) in_brief: Vec<Flow<'a>>,
    /// The connections that are only counted.
    others: Vec<Flow<'a>>,
}

impl<'a> Selection<'a> {
    pub(crate) fn from_report(report: &'a Report) -> Self {
        let mut ranked: Vec<(Severity, Flow<'a>)> =
            flows(&report.connections).into_iter().map(|flow| (worst_problem(flow), flow)).collect();
        ranked.sort_by_key(|(worst, flow)| {
            let active = flow.energy().and_then(|energy| energy.active);
            (*worst, Reverse((active.unwrap_or_default(), payload(*flow))))
        });
        let largest = ranked.iter().map(|(_, flow)| payload(*flow)).max().unwrap_or_default();
        let is_large = |flow: Flow<'_>| payload(flow).0 as f64 >= largest.0 as f64 * MIN_SHARE_IN_FULL;
        let (interesting, small): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(worst, flow)| *worst < Severity::Good || is_large(*flow));
        let mut in_full: Vec<Flow<'a>> = interesting.into_iter().map(|(_, flow)| flow).collect();
        let mut in_brief = in_full.split_off(in_full.len().min(MAX_IN_FULL));
        in_brief.extend(small.into_iter().map(|(_, flow)| flow));
        let others = in_brief.split_off(in_brief.len().min(MAX_IN_BRIEF));
        Self { in_full, in_brief, others }
    }

    /// A sentence about the connections that are only counted. `None`: there are none.
    pub(crate) fn others(&self) -> Option<String> {
        let payload: Bytes = self.others.iter().map(|flow| payload(*flow)).sum();
        let (number, payload) = (count(self.others.len(), "smaller connection"), bytes(payload.0));
        (!self.others.is_empty()).then(|| {
            format!("{number} with {payload} of payload are in the CSV and JSON forms of this report.")
        })
    }
}

fn payload(flow: Flow<'_>) -> Bytes {
    flow.ends().map(mpwatch_model::flow::connection::Connection::payload).max().unwrap_or_default()
}

/// The severity of the worst problem of both ends. [`Severity::Good`]: there is none.
fn worst_problem(flow: Flow<'_>) -> Severity {
    let findings = flow.ends().flat_map(finding::of_connection);
    findings.filter(Finding::is_problem).map(|finding| finding.severity()).min().unwrap_or(Severity::Good)
}
