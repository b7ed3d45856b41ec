// SPDX-License-Identifier: MIT OR Apache-2.0
//! `applications`: real programs over MPTCP and TCP.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Transport;

use super::super::experiment::{
    Application, Cell, Declared, Network, Program, Scale, Scenario, TRANSPORTS, transport_name,
};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

static DESCRIPTION: Description = Description {
    name: "applications",
    title: "redis, rsync and nginx over MPTCP and TCP",
    paper: "ICPE19",
    question: "What do unchanged programs gain from a second path, and what does it cost them?",
    method: "Two paths of 100 Mbit/s and 4 ms. redis-benchmark sends requests of 64 bytes on four connections to redis-server; rsync copies one \
             file from its daemon; curl fetches it from nginx. MPTCP by mptcpize. The programs are installed with apt-get if they are missing, \
             and skipped where that is not possible. The time of rsync and redis includes the start of the program. The paper ran YCSB on \
             Redis over 10 GbE.",
    quantities: &[
        Quantity::Requests,
        Quantity::CompletionTime,
        Quantity::Goodput,
        Quantity::CpuTime,
        Quantity::FlowEnergy,
        Quantity::Retransmitted,
    ],
    baseline: &[("transport", "tcp")],
    plots: &[
        Plot { quantity: Quantity::Requests, over: "program", log: false },
        Plot { quantity: Quantity::CompletionTime, over: "program", log: false },
    ],
    detail_plots: &[],
    published: &[
        Published {
            cell: &[("program", "redis"), ("transport", "mptcp")],
            quantity: Quantity::Requests,
            value: PublishedValue::Change(-0.15),
            setup: "YCSB: 10 to 20 % less",
        },
        Published {
            cell: &[("program", "rsync"), ("transport", "mptcp")],
            quantity: Quantity::CompletionTime,
            value: PublishedValue::Change(-0.5),
            setup: "transfers above 100 MB, two paths of 10 Gbit/s",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let file = scale.pick(100_000_000, 10_000_000);
    let programs = [
        ("redis", Program::Redis, scale.pick(20_000, 2_000)),
        ("rsync", Program::Rsync, file),
        ("nginx", Program::Nginx, file),
    ];
    let both = |(name, program, amount)| {
        TRANSPORTS.map(|transport| cell(name, Application { program, transport, amount }))
    };
    programs.into_iter().flat_map(both).collect()
}

fn cell(name: &str, application: Application) -> Cell {
    let link = LinkSpec::rate(100.0, Duration::from_millis(30)).rtt(Duration::from_millis(4));
    let paths = vec![PathSpec { link, ..PathSpec::default() }; 2];
    let scenario = Scenario {
        network: Network::Paths(TopologySpec { paths, ..TopologySpec::default() }),
        application: Some(application),
        ..Scenario::default()
    };
    let transport: Transport = application.transport;
    Cell::new(&[("program", &name), ("transport", &transport_name(transport))], scenario)
}
