// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts rate caps by kind of network. mpwatch's method reports a cap if it finds that subflows share a rate limit but no queue. In truth,
//! only networks with one rate limit for all flows and a separate queue for each flow have a cap. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::bottleneck::tables::OURS;
use crate::bottleneck::truth::Labels;
use crate::bottleneck::verdict::Verdicts;
use crate::table::markdown;
use mpwatch_lab::bottleneck::cell::{App, Cell, Layout};

/// Numbers of connections that have at least two subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    connections: u32,
    /// Connections for which a cap was found at any time.
    ever: u32,
    /// Connections for which a cap was found at the end.
    at_the_end: u32,
    /// Connections for which a cap of all subflows was found at the end.
    of_all: u32,
}

/// Counts by kind of network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<String, Counts>);

impl Table {
    /// Adds the connections of a cell.
    pub(crate) fn add(&mut self, labels: &Labels, verdicts: &Verdicts) {
        let cell = &labels.cell;
        let counts = self.0.entry(network(cell)).or_default();
        let connections: BTreeSet<_> = verdicts.subflows.values().map(|subflow| subflow.connection).collect();
        for connection in connections {
            let evaluations = verdicts.evaluations(OURS, connection);
            let Some(last) = evaluations.last().filter(|last| !last.pairs.is_empty()) else { continue };
            counts.connections += 1;
            counts.ever += u32::from(evaluations.iter().any(|evaluation| !evaluation.caps.is_empty()));
            counts.at_the_end += u32::from(!last.caps.is_empty());
            counts.of_all += u32::from(last.caps.iter().any(|cap| cap.len() == cell.subflows));
        }
    }

    /// The table as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let header = [
            "network",
            "connections",
            "cap found at any time",
            "cap at the end",
            "cap of all subflows at the end",
        ];
        let row = |(network, counts): (&String, &Counts)| {
            let Counts { connections, ever, at_the_end, of_all } = counts;
            let numbers = [connections, ever, at_the_end, of_all].map(ToString::to_string);
            [&[network.clone()][..], &numbers].concat()
        };
        markdown(&header, &self.0.iter().map(row).collect::<Vec<_>>())
    }
}

fn network(cell: &Cell) -> String {
    let layout = match cell.layout {
        Layout::Shared => "one queue".to_owned(),
        Layout::Fair => format!(
            "one rate, a queue per subflow (buffer {} ms, {})",
            cell.buffer_ms(),
            cell.congestion.name()
        ),
        Layout::Switching => "a changing route".to_owned(),
        Layout::Disjoint | Layout::Partly | Layout::TwoRates => "several links".to_owned(),
    };
    layout + if cell.app == App::Limited { ", sends 70 %" } else { "" }
}
