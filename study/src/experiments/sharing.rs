// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sharing`: the cost of several subflows on one link.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Change;
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity::{
    CpuPerPayload, DeadlinesMissed, EnergyPerPayload, Goodput, Jain, Power, Retransmitted, Rtt,
    ShortCompletion,
};
use crate::data::{Description, DetailPlot, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};

/// Rate of a link, Mbit/s.
const RATE: f64 = 50.0;
/// Size of a short flow, bytes.
const SHORT: u64 = 100_000;
/// Maximum number of subflows: the kernel allows the initial subflow and eight more.
const MAX_SUBFLOWS: usize = 9;

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "sharing".into(),
        title: "several subflows on each of one or two links".into(),
        paper: "MPTCP-D".into(),
        question: "What do subflows that share a link cost, and what do they gain?".into(),
        method: "Long flows upload for a fixed time over links of 50 Mbit/s and 10 ms; each has the same \
                 number of subflows on each link (factor subflows). In parallel, plain TCP flows of 100 kB \
                 run one after the other over the first link; their deadline is 200 ms. The kernel allows \
                 nine subflows, so there is no cell of eight subflows on each of two links. The paper had \
                 200 connections; here the maximum is 50."
            .into(),
        quantities: vec![
            Goodput,
            Power,
            CpuPerPayload,
            EnergyPerPayload,
            Retransmitted,
            Rtt,
            Jain,
            ShortCompletion,
            DeadlinesMissed,
        ],
        baseline: factors(&[("subflows", "1")]),
        plots: Plot::over("subflows", &[Goodput, CpuPerPayload, EnergyPerPayload, ShortCompletion]),
        detail_plots: vec![DetailPlot::new(
            Shape::Distribution(Series::ShortCompletionTimes),
            &[("links", "1")],
        )],
        published: vec![
            Published::new(
                &[("links", "1"), ("subflows", "8"), ("connections", "50")],
                Power,
                Change(0.5),
                "200 connections, two links",
            ),
            Published::new(
                &[("links", "1"), ("subflows", "8"), ("connections", "50")],
                Goodput,
                Change(0.0),
                "200 connections, two links",
            ),
        ],
    };
    Experiment::scaled(description, cells)
}

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
    let long = Workload::upload_for(Duration::from_secs(scale.pick(6, 3)));
    let short = Load::new(Purpose::Short, Transport::Tcp, Workload::upload(SHORT));
    let scenario = Scenario {
        network: Network::shared_links(vec![bottleneck; links], links * subflows),
        traffic: vec![
            Load::new(Purpose::Measured, Transport::Mptcp, long).times(connections),
            // More short flows than can end during the long flows. The remaining ones are cancelled when the long flows end.
            Load { connections: 1_000, concurrency: 1, ..short },
        ],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("links", &links), ("connections", &connections), ("subflows", &subflows)], scenario)
}
