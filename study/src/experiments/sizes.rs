// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sizes`: completion time against size.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Transport;

use super::super::experiment::{Cell, Declared, Load, Network, Scale, Scenario, TRANSPORTS, transport_name};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

static DESCRIPTION: Description = Description {
    name: "sizes",
    title: "completion time of 10 kB to 1 GB over TCP and MPTCP",
    paper: "ICPE19",
    question: "From which size on does MPTCP finish sooner?",
    method: "One upload of each size (factor bytes) over one path by TCP and over two equal paths by MPTCP, 500 Mbit/s and 1 ms each. \
             The paper had paths of 10 Gbit/s.",
    quantities: &[
        Quantity::CompletionTime,
        Quantity::Goodput,
        Quantity::CpuPerPayload,
        Quantity::EnergyPerPayload,
        Quantity::Excess,
    ],
    baseline: &[("transport", "tcp")],
    plots: &[
        Plot { quantity: Quantity::CompletionTime, over: "bytes", log: true },
        Plot { quantity: Quantity::Goodput, over: "bytes", log: true },
        Plot { quantity: Quantity::EnergyPerPayload, over: "bytes", log: true },
    ],
    detail_plots: &[],
    published: &[
        Published {
            cell: &[("bytes", "100000"), ("transport", "mptcp")],
            quantity: Quantity::CompletionTime,
            value: PublishedValue::Change(0.0),
            setup: "two paths of 10 Gbit/s",
        },
        Published {
            cell: &[("bytes", "1000000000"), ("transport", "mptcp")],
            quantity: Quantity::CompletionTime,
            value: PublishedValue::Change(-0.5),
            setup: "two paths of 10 Gbit/s",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let largest = scale.pick(9, 7);
    let sizes = (4..=largest).map(|power| 10_u64.pow(power));
    sizes.flat_map(|bytes| TRANSPORTS.map(|transport| cell(bytes, transport))).collect()
}

fn cell(bytes: u64, transport: Transport) -> Cell {
    let link = LinkSpec::rate(500.0, Duration::from_millis(20)).rtt(Duration::from_millis(1));
    let scenario = Scenario {
        network: Network::Paths(TopologySpec {
            paths: vec![PathSpec { link, ..PathSpec::default() }; 2],
            ..TopologySpec::default()
        }),
        traffic: vec![Load::upload(transport, bytes)],
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    Cell::new(&[("transport", &transport_name(transport)), ("bytes", &bytes)], scenario)
}
