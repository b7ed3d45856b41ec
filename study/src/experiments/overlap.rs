// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlap`: more subflows than disjoint paths.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Change;
use crate::data::quantity::Quantity::{
    CpuPerPayload, EnergyPerPayload, ExtraSubflows, Goodput, Groups, Retransmitted, Timeouts,
};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};

/// Number of disjoint links.
const LINKS: usize = 2;

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "overlap".into(),
        title: "from one subflow to more subflows than disjoint paths".into(),
        paper: "MULTIFLOW".into(),
        question: "What do subflows beyond the number of disjoint paths gain, and does mpwatch find that \
                   they are extra?"
            .into(),
        method: "One upload for a fixed time over two links of 40 Mbit/s and 20 ms; subflow n uses link n \
                 modulo 2. The paper went up to 32 subflows; the kernel allows nine."
            .into(),
        quantities: vec![
            Goodput,
            Groups,
            ExtraSubflows,
            CpuPerPayload,
            EnergyPerPayload,
            Retransmitted,
            Timeouts,
        ],
        baseline: factors(&[("subflows", "2")]),
        plots: Plot::over("subflows", &[Goodput, Groups, CpuPerPayload]),
        published: vec![Published::new(
            &[("subflows", "8")],
            Goodput,
            Change(0.0),
            "no gain beyond the disjoint paths",
        )],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let subflows = scale.pick(&[1_usize, 2, 3, 4, 6, 8][..], &[1, 2, 4][..]);
    let duration = Duration::from_secs(scale.pick(10, 5));
    subflows.iter().map(|subflows| cell(*subflows, duration)).collect()
}

fn cell(subflows: usize, duration: Duration) -> Cell {
    let bottleneck = LinkSpec::rate(40.0, Duration::from_millis(40)).rtt(Duration::from_millis(20));
    let scenario = Scenario {
        network: Network::shared_links(vec![bottleneck; LINKS], subflows),
        traffic: vec![Load::new(Purpose::Measured, Transport::Mptcp, Workload::upload_for(duration))],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("subflows", &subflows)], scenario)
}
