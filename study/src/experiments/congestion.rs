// SPDX-License-Identifier: MIT OR Apache-2.0
//! `congestion`: other flows on one of the paths.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};

use super::super::experiment::{
    Cell, Declared, Load, Network, Role, Scale, Scenario, TRANSPORTS, transport_name,
};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

static DESCRIPTION: Description = Description {
    name: "congestion",
    title: "background traffic on the first path",
    paper: "ICPE19",
    question: "What does the second path gain when the first one is congested?",
    method: "One upload over one path by TCP and over two by MPTCP, 50 Mbit/s and 10 ms each. Plain TCP flows (factor background) upload \
             over the first path all the time.",
    quantities: &[Quantity::CompletionTime, Quantity::Goodput, Quantity::Retransmitted, Quantity::Rtt],
    baseline: &[("transport", "tcp")],
    plots: &[
        Plot { quantity: Quantity::Goodput, over: "background", log: false },
        Plot { quantity: Quantity::CompletionTime, over: "background", log: false },
    ],
    detail_plots: &[],
    published: &[
        Published {
            cell: &[("transport", "mptcp"), ("background", "1")],
            quantity: Quantity::CompletionTime,
            value: PublishedValue::Change(-0.2),
            setup: "lower end of the range",
        },
        Published {
            cell: &[("transport", "mptcp"), ("background", "1")],
            quantity: Quantity::CompletionTime,
            value: PublishedValue::Change(-0.5),
            setup: "upper end of the range",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let background = scale.pick(&[0_u32, 1, 2, 4][..], &[0, 2][..]);
    let bytes = scale.pick(20_000_000, 6_000_000);
    let both = |flows: u32| TRANSPORTS.map(|transport| cell(transport, flows, bytes));
    background.iter().flat_map(|flows| both(*flows)).collect()
}

fn cell(transport: Transport, flows: u32, bytes: u64) -> Cell {
    let link = LinkSpec::rate(50.0, Duration::from_millis(30)).rtt(Duration::from_millis(10));
    let mut traffic = vec![Load::upload(transport, bytes)];
    if flows > 0 {
        let forever = Workload::upload_for(Duration::from_mins(1));
        traffic.push(Load::of(Role::Background, Transport::Tcp, forever).times(flows));
    }
    let scenario = Scenario {
        network: Network::Paths(TopologySpec {
            paths: vec![PathSpec { link, ..PathSpec::default() }; 2],
            ..TopologySpec::default()
        }),
        traffic,
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("transport", &transport_name(transport)), ("background", &flows)], scenario)
}
