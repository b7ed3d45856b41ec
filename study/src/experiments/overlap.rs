// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlap`: more subflows than disjoint paths.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};

use super::super::experiment::{Cell, Declared, Load, Network, Role, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

/// Disjoint links.
const LINKS: usize = 2;

static DESCRIPTION: Description = Description {
    name: "overlap",
    title: "from one subflow to more subflows than disjoint paths",
    paper: "MULTIFLOW",
    question: "What do subflows beyond the number of disjoint paths bring, and does mpwatch see that they are extra?",
    method: "One upload for a fixed time over two links of 40 Mbit/s and 20 ms; subflow n uses link n modulo 2. The paper went up to 32 \
             subflows; the kernel allows nine.",
    quantities: &[
        Quantity::Goodput,
        Quantity::Groups,
        Quantity::ExtraSubflows,
        Quantity::CpuPerPayload,
        Quantity::EnergyPerPayload,
        Quantity::Retransmitted,
        Quantity::Timeouts,
    ],
    baseline: &[("subflows", "2")],
    plots: &[
        Plot { quantity: Quantity::Goodput, over: "subflows", log: false },
        Plot { quantity: Quantity::Groups, over: "subflows", log: false },
        Plot { quantity: Quantity::CpuPerPayload, over: "subflows", log: false },
    ],
    detail_plots: &[],
    published: &[Published {
        cell: &[("subflows", "8")],
        quantity: Quantity::Goodput,
        value: PublishedValue::Change(0.0),
        setup: "no gain beyond the disjoint paths",
    }],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let subflows = scale.pick(&[1_usize, 2, 3, 4, 6, 8][..], &[1, 2, 4][..]);
    let duration = Duration::from_secs(scale.pick(10, 5));
    subflows.iter().map(|subflows| cell(*subflows, duration)).collect()
}

fn cell(subflows: usize, duration: Duration) -> Cell {
    let bottleneck = LinkSpec::rate(40.0, Duration::from_millis(40)).rtt(Duration::from_millis(20));
    let path = |nth: usize| PathSpec { bottleneck: Some(nth % LINKS), ..PathSpec::default() };
    let network = TopologySpec {
        paths: (0..subflows).map(path).collect(),
        bottlenecks: vec![bottleneck; LINKS],
        ..TopologySpec::default()
    };
    let scenario = Scenario {
        network: Network::Paths(network),
        traffic: vec![Load::of(Role::Measured, Transport::Mptcp, Workload::upload_for(duration))],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("subflows", &subflows)], scenario)
}
