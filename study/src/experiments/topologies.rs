// SPDX-License-Identifier: MIT OR Apache-2.0
//! `topologies`: the number of subflows that is necessary to fill the network of a data centre.

use std::time::Duration;

use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Absolute;
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity::{
    CpuPerPayload, FlowJain, Goodput, Retransmitted, SlowestFlow, Timeouts,
};
use crate::data::{Description, DetailPlot, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};
use crate::fabric::{FabricKind, FabricSpec, Forwarding};

/// Rate of a host's link, Mbit/s.
const RATE: f64 = 10.0;
/// Destination of each host: a permutation without fixed elements.
const PERMUTATION: [usize; 16] = [9, 4, 13, 0, 11, 2, 15, 6, 1, 12, 7, 14, 3, 10, 5, 8];
/// Sparse traffic consists of every `SPARSE`th flow of the permutation.
const SPARSE: usize = 3;

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "topologies".into(),
        title: "FatTree, VL2 and BCube with 1 to 8 subflows".into(),
        paper: "RN10".into(),
        question: "How many subflows does each network need to fill its links, and are the rates of flows \
                   then fair?"
            .into(),
        method: "16 hosts with links of 10 Mbit/s and a queue of 20 ms. Permutation: each host uploads to \
                 another host for a fixed time. Sparse: a third of these flows. One subflow is plain TCP. \
                 All networks forward by ECMP over shortest paths, with hash functions that depend on the \
                 seed. VL2: links between switches have twice the rate of a host's link. BCube: hosts have \
                 two links and forward packets. The paper simulated 128 and more hosts, used links ten \
                 times as fast in VL2, and chose longer paths in BCube as well."
            .into(),
        quantities: vec![Goodput, FlowJain, SlowestFlow, Retransmitted, Timeouts, CpuPerPayload],
        baseline: factors(&[("subflows", "1")]),
        plots: Plot::over("subflows", &[Goodput, FlowJain, SlowestFlow]),
        detail_plots: vec![DetailPlot::new(
            Shape::Distribution(Series::FlowGoodput),
            &[("topology", "fat-tree"), ("traffic", "permutation")],
        )],
        published: vec![
            Published::new(
                &[("topology", "fat-tree"), ("traffic", "permutation"), ("subflows", "8")],
                Goodput,
                Absolute(0.9 * RATE * 1e6 * 16.0),
                "eight subflows fill a FatTree to 90 %",
            ),
            Published::new(
                &[("topology", "vl2"), ("traffic", "permutation"), ("subflows", "2")],
                Goodput,
                Absolute(0.9 * RATE * 1e6 * 16.0),
                "two subflows fill VL2",
            ),
        ],
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let kinds = [("fat-tree", FabricKind::FatTree), ("vl2", FabricKind::Vl2), ("bcube", FabricKind::BCube)];
    let patterns = scale.pick(&["permutation", "sparse"][..], &["permutation"][..]);
    let subflows = scale.pick(&[1, 2, 4, 8][..], &[1, 4][..]);
    let duration = Duration::from_secs(scale.pick(10, 3));
    let mut cells = Vec::new();
    for kind in kinds {
        for pattern in patterns {
            cells.extend(subflows.iter().map(|subflows| cell(kind, pattern, *subflows, duration)));
        }
    }
    cells
}

fn cell((name, kind): (&str, FabricKind), pattern: &str, subflows: usize, duration: Duration) -> Cell {
    let transport = if subflows == 1 { Transport::Tcp } else { Transport::Mptcp };
    let flow = Load::new(Purpose::Measured, transport, Workload::upload_for(duration));
    let step = if pattern == "sparse" { SPARSE } else { 1 };
    let pairs = PERMUTATION.iter().enumerate().step_by(step);
    let fabric = FabricSpec {
        kind,
        mbit: RATE,
        queue: Duration::from_millis(20),
        subflows,
        forwarding: Forwarding::PerFlow,
    };
    let scenario = Scenario {
        network: Network::Fabric(fabric),
        traffic: pairs.map(|(client, server)| flow.between(client, *server)).collect(),
        ..Scenario::default()
    };
    Cell::new(&[("topology", &name), ("traffic", &pattern), ("subflows", &subflows)], scenario)
}
