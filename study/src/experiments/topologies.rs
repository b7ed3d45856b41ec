// SPDX-License-Identifier: MIT OR Apache-2.0
//! `topologies`: how many subflows fill the network of a data centre.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity;
use crate::fabric::{FabricSpec, Forwarding, Kind};
use mpwatch_lab::traffic::{Transport, Workload};

use super::super::experiment::{Cell, Declared, Load, Network, Role, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

/// Rate of a host's link, Mbit/s.
const RATE: f64 = 10.0;
/// To which host each host sends: no host to itself, each receives from one.
const PERMUTATION: [usize; 16] = [9, 4, 13, 0, 11, 2, 15, 6, 1, 12, 7, 14, 3, 10, 5, 8];
/// Every so many-th of these flows runs in sparse traffic.
const SPARSE: usize = 3;

static DESCRIPTION: Description = Description {
    name: "topologies",
    title: "FatTree, VL2 and BCube with 1 to 8 subflows",
    paper: "RN10",
    question: "How many subflows does each network need until its links are full, and is that fair?",
    method: "16 hosts with links of 10 Mbit/s and a queue of 20 ms. Permutation: each host uploads to another one for a fixed time. Sparse: a \
             third of these flows. One subflow is plain TCP. All networks forward by ECMP over shortest paths; seeds change its hash \
             functions. VL2: switches have links of twice a host's rate. BCube: hosts have two links and forward. The paper simulated 128 and \
             more hosts, used links ten times as fast in VL2, and chose longer paths in BCube as well.",
    quantities: &[
        Quantity::Goodput,
        Quantity::FlowJain,
        Quantity::SlowestFlow,
        Quantity::Retransmitted,
        Quantity::Timeouts,
        Quantity::CpuPerPayload,
    ],
    baseline: &[("subflows", "1")],
    plots: &[
        Plot { quantity: Quantity::Goodput, over: "subflows", log: false },
        Plot { quantity: Quantity::FlowJain, over: "subflows", log: false },
        Plot { quantity: Quantity::SlowestFlow, over: "subflows", log: false },
    ],
    detail_plots: &[(
        Shape::Distribution(Series::FlowGoodput),
        &[("topology", "fat-tree"), ("traffic", "permutation")],
    )],
    published: &[
        Published {
            cell: &[("topology", "fat-tree"), ("traffic", "permutation"), ("subflows", "8")],
            quantity: Quantity::Goodput,
            value: PublishedValue::Absolute(0.9 * RATE * 1e6 * 16.0),
            setup: "eight subflows fill a FatTree to 90 %",
        },
        Published {
            cell: &[("topology", "vl2"), ("traffic", "permutation"), ("subflows", "2")],
            quantity: Quantity::Goodput,
            value: PublishedValue::Absolute(0.9 * RATE * 1e6 * 16.0),
            setup: "two subflows fill VL2",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let kinds = [("fat-tree", Kind::FatTree), ("vl2", Kind::Vl2), ("bcube", Kind::BCube)];
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

fn cell((name, kind): (&str, Kind), pattern: &str, subflows: usize, duration: Duration) -> Cell {
    let transport = if subflows == 1 { Transport::Tcp } else { Transport::Mptcp };
    let flow = Load::of(Role::Measured, transport, Workload::upload_for(duration));
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
