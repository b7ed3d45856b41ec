// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mptcpd`: the congestion control of the paper against those of the kernel.

use std::time::Duration;

use mpwatch_ebpf::congestion::NAME;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_model::study::quantity::Quantity;
use mpwatch_model::study::{Description, Plot, Published, PublishedValue};

use super::super::experiment::{Cell, Experiment, Load, Role, Scale, Scenario};

pub(super) const EXPERIMENT: Experiment = Experiment { description: &DESCRIPTION, cells };

/// Cubic first: it is what the others are compared with.
const CONTROLS: [&str; 3] = ["cubic", "reno", NAME];
/// Base RTT of each path, milliseconds: two short and two long paths.
const RTTS: [u64; 4] = [10, 10, 40, 40];
const SHORT_FLOW_BYTES: u64 = 500_000;

static DESCRIPTION: Description = Description {
    name: "mptcpd",
    title: "congestion control that prefers short paths",
    paper: "MPTCP-D",
    question: "Does mptcpd save energy of long flows, and power and completion time of short ones?",
    method: "MPTCP over four paths of 20 Mbit/s with a queue of 50 ms, two with an RTT of 10 ms and two with 40 ms. Long: one upload. Short: \
             uploads of 500 kB, four at a time. The factor congestion is that of all sockets; mptcpd is registered during a run. The paper \
             compares with DCTCP, which needs queues that mark packets (ECN): the lab's do not, so it is left out. Extra subflows are not \
             eliminated.",
    quantities: &[
        Quantity::CompletionTime,
        Quantity::Goodput,
        Quantity::Power,
        Quantity::MachineEnergy,
        Quantity::FlowEnergy,
        Quantity::CpuPerPayload,
        Quantity::Rtt,
        Quantity::Retransmitted,
    ],
    baseline: &[("congestion", "cubic")],
    plots: &[
        Plot { quantity: Quantity::MachineEnergy, over: "congestion", log: false },
        Plot { quantity: Quantity::Power, over: "congestion", log: false },
        Plot { quantity: Quantity::CompletionTime, over: "congestion", log: false },
    ],
    published: &[
        Published {
            cell: &[("flows", "long"), ("congestion", NAME)],
            quantity: Quantity::MachineEnergy,
            value: PublishedValue::Change(-0.72),
            setup: "the largest saving, of 10 GB over 4 subflows against DCTCP",
        },
        Published {
            cell: &[("flows", "short"), ("congestion", NAME)],
            quantity: Quantity::Power,
            value: PublishedValue::Change(-0.46),
            setup: "the largest saving, against MPTCP with extra subflows",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let long = |control| cell("long", control, Workload::upload(scale.pick(40_000_000, 6_000_000)), 1);
    let short = |control| cell("short", control, Workload::upload(SHORT_FLOW_BYTES), scale.pick(60, 8));
    CONTROLS.into_iter().flat_map(|control| [long(control), short(control)]).collect()
}

fn cell(flows: &str, congestion: &'static str, workload: Workload, connections: u32) -> Cell {
    let path = |rtt| {
        let link = LinkSpec::rate(20.0, Duration::from_millis(50)).rtt(Duration::from_millis(rtt));
        PathSpec { link, ..PathSpec::default() }
    };
    let load = Load::of(Role::Measured, Transport::Mptcp, workload);
    let scenario = Scenario {
        network: TopologySpec { paths: RTTS.map(path).to_vec(), ..TopologySpec::default() },
        traffic: vec![Load { connections, concurrency: connections.min(4), congestion, ..load }],
        failure: None,
        timeout: Duration::from_mins(2),
    };
    Cell::new(&[("flows", &flows), ("congestion", &congestion)], scenario)
}
