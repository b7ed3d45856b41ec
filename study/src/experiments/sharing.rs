// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sharing`: what several subflows on one link cost.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};

use super::super::experiment::{Cell, Declared, Load, Network, Role, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

/// Rate of a link, Mbit/s.
const RATE: f64 = 50.0;
/// Size of a short flow, bytes.
const SHORT: u64 = 100_000;
/// The kernel allows one initial and eight more subflows.
const MAX_SUBFLOWS: usize = 9;

static DESCRIPTION: Description = Description {
    name: "sharing",
    title: "several subflows on each of one or two links",
    paper: "MPTCP-D",
    question: "What do subflows that share a link cost, and what do they bring?",
    method: "Long flows upload for a fixed time over links of 50 Mbit/s and 10 ms; each has the same number of subflows on each link (factor \
             subflows). Beside them, plain TCP flows of 100 kB run one after the other over the first link; their deadline is 200 ms. The \
             kernel allows nine subflows, so that eight on each of two links are left out; the paper had 200 connections, here up to 50.",
    quantities: &[
        Quantity::Goodput,
        Quantity::Power,
        Quantity::CpuPerPayload,
        Quantity::EnergyPerPayload,
        Quantity::Retransmitted,
        Quantity::Rtt,
        Quantity::Jain,
        Quantity::ShortCompletion,
        Quantity::DeadlinesMissed,
    ],
    baseline: &[("subflows", "1")],
    plots: &[
        Plot { quantity: Quantity::Goodput, over: "subflows", log: false },
        Plot { quantity: Quantity::CpuPerPayload, over: "subflows", log: false },
        Plot { quantity: Quantity::EnergyPerPayload, over: "subflows", log: false },
        Plot { quantity: Quantity::ShortCompletion, over: "subflows", log: false },
    ],
    detail_plots: &[(Shape::Distribution(Series::ShortCompletionTimes), &[("links", "1")])],
    published: &[
        Published {
            cell: &[("links", "1"), ("subflows", "8"), ("connections", "50")],
            quantity: Quantity::Power,
            value: PublishedValue::Change(0.5),
            setup: "200 connections, two links",
        },
        Published {
            cell: &[("links", "1"), ("subflows", "8"), ("connections", "50")],
            quantity: Quantity::Goodput,
            value: PublishedValue::Change(0.0),
            setup: "200 connections, two links",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let connections = scale.pick(&[1_u32, 10, 50][..], &[4][..]);
    let subflows = scale.pick(&[1_usize, 2, 4, 8][..], &[1, 4][..]);
    let links = scale.pick(&[1_usize, 2][..], &[1][..]);
    let mut cells = Vec::new();
    for &links in links {
        for &connections in connections {
            let fitting = subflows.iter().filter(|subflows| links * **subflows <= MAX_SUBFLOWS);
            cells.extend(fitting.map(|&subflows| cell(links, subflows, connections, scale)));
        }
    }
    cells
}

fn cell(links: usize, subflows: usize, connections: u32, scale: Scale) -> Cell {
    let bottleneck = LinkSpec::rate(RATE, Duration::from_millis(40)).rtt(Duration::from_millis(10));
    let path = |nth: usize| PathSpec { bottleneck: Some(nth % links), ..PathSpec::default() };
    let network = TopologySpec {
        paths: (0..links * subflows).map(path).collect(),
        bottlenecks: vec![bottleneck; links],
        ..TopologySpec::default()
    };
    let long = Workload::upload_for(Duration::from_secs(scale.pick(6, 3)));
    let short = Load::of(Role::Short, Transport::Tcp, Workload::upload(SHORT));
    let scenario = Scenario {
        network: Network::Paths(network),
        traffic: vec![
            Load::of(Role::Measured, Transport::Mptcp, long).times(connections),
            // More than fit into the time; the rest is given up when the long flows end.
            Load { connections: 1_000, concurrency: 1, ..short },
        ],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("links", &links), ("connections", &connections), ("subflows", &subflows)], scenario)
}
