// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mptcpd`: the paper's congestion control compared with the kernel's.

use std::time::Duration;

use mpwatch_ebpf::congestion::NAME;
use mpwatch_lab::link::Discipline;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Change;
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity::{
    CompletionTime, CpuPerPayload, FlowEnergy, Goodput, MachineEnergy, Power, Removed, Retransmitted, Rtt,
};
use crate::data::{Description, DetailPlot, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};

/// The compared congestion controls. The baseline, cubic, is first.
const CONTROLS: [&str; 4] = ["cubic", "reno", "dctcp", NAME];
/// Base RTT of each link, milliseconds.
const RTTS: [u64; 2] = [10, 40];
/// Number of subflows of a connection. The subflows use the two links in turn, so two subflows are extra.
const SUBFLOWS: usize = 4;
const SHORT_FLOW_BYTES: u64 = 500_000;

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "mptcpd".into(),
        title: "congestion control that prefers short paths".into(),
        paper: "MPTCP-D".into(),
        question: "Does mptcpd save energy of long flows, and power and completion time of short flows?"
            .into(),
        method: "MPTCP with four subflows over two links of 20 Mbit/s with a queue of 50 ms and an RTT of \
                 10 and 40 ms, so two subflows are extra. Long: one upload. Short: uploads of 500 kB, four \
                 at a time. All sockets use the congestion control of the factor congestion; mptcpd is \
                 registered during a run. For dctcp, links mark packets (RED with ECN) from 10 ms of queue \
                 on; otherwise they drop from the tail. Elimination: mpwatch closes an extra subflow one \
                 second after finding it; short flows end earlier."
            .into(),
        quantities: vec![
            CompletionTime,
            Goodput,
            Power,
            MachineEnergy,
            FlowEnergy,
            CpuPerPayload,
            Rtt,
            Retransmitted,
            Removed,
        ],
        baseline: factors(&[("congestion", "cubic"), ("elimination", "off")]),
        plots: Plot::over("congestion", &[MachineEnergy, Power, CompletionTime]),
        detail_plots: vec![DetailPlot::new(
            Shape::Distribution(Series::CompletionTimes),
            &[("flows", "short"), ("elimination", "off")],
        )],
        published: vec![
            Published::new(
                &[("flows", "long"), ("congestion", NAME), ("elimination", "on")],
                MachineEnergy,
                Change(-0.72),
                "the largest saving, of 10 GB over 4 subflows against DCTCP",
            ),
            Published::new(
                &[("flows", "short"), ("congestion", NAME), ("elimination", "on")],
                Power,
                Change(-0.46),
                "the largest saving, against MPTCP with extra subflows",
            ),
        ],
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let long = Workload::upload(scale.pick(40_000_000, 15_000_000));
    let short = Workload::upload(SHORT_FLOW_BYTES);
    let mut cells = Vec::new();
    let controls = scale.pick(&CONTROLS[..], &["cubic", NAME][..]);
    for eliminate in [false, true] {
        for &congestion in controls {
            cells.push(cell("long", congestion, eliminate, (long, 1)));
            cells.push(cell("short", congestion, eliminate, (short, scale.pick(60, 8))));
        }
    }
    cells
}

fn cell(
    flows: &str,
    congestion: &'static str,
    eliminate: bool,
    (workload, connections): (Workload, u32),
) -> Cell {
    let link = |rtt| {
        let queue = Duration::from_millis(50);
        let discipline = if congestion == "dctcp" { Discipline::Marking } else { Discipline::Tbf };
        let mut link = LinkSpec::rate(20.0, queue).rtt(Duration::from_millis(rtt));
        link.forward = link.forward.map(|limit| limit.with_discipline(discipline));
        link
    };
    let load = Load::new(Purpose::Measured, Transport::Mptcp, workload);
    let scenario = Scenario {
        network: Network::shared_links(RTTS.map(link).to_vec(), SUBFLOWS),
        traffic: vec![Load { connections, concurrency: connections.min(4), congestion, ..load }],
        eliminate,
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    let elimination = if eliminate { "on" } else { "off" };
    Cell::new(&[("flows", &flows), ("congestion", &congestion), ("elimination", &elimination)], scenario)
}
