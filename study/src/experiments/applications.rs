// SPDX-License-Identifier: MIT OR Apache-2.0
//! `applications`: real programs over MPTCP and TCP.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;

use crate::data::PublishedValue::Change;
use crate::data::quantity::Quantity::{
    CompletionTime, CpuTime, FlowEnergy, Goodput, Requests, Retransmitted,
};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{
    Application, Cell, Experiment, Network, Program, Scale, Scenario, TRANSPORTS, transport_name,
};

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "applications".into(),
        title: "redis, rsync and nginx over MPTCP and TCP".into(),
        paper: "ICPE19".into(),
        question: "What do unchanged programs gain from a second path, and what is the cost?".into(),
        method: "Two paths of 100 Mbit/s and 4 ms. redis-benchmark sends requests of 64 bytes on four \
                 connections to redis-server; rsync copies one file from its daemon; curl fetches the same \
                 file from nginx. For MPTCP, mptcpize starts the programs. Missing programs are installed \
                 with apt-get; if this fails, their runs are skipped. The time of rsync and redis includes \
                 the start of the program. The paper ran YCSB on Redis over 10 GbE."
            .into(),
        quantities: vec![Requests, CompletionTime, Goodput, CpuTime, FlowEnergy, Retransmitted],
        baseline: factors(&[("transport", "tcp")]),
        plots: Plot::over("program", &[Requests, CompletionTime]),
        published: vec![
            Published::new(
                &[("program", "redis"), ("transport", "mptcp")],
                Requests,
                Change(-0.15),
                "YCSB: 10 to 20 % less",
            ),
            Published::new(
                &[("program", "rsync"), ("transport", "mptcp")],
                CompletionTime,
                Change(-0.5),
                "transfers above 100 MB, two paths of 10 Gbit/s",
            ),
        ],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

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
    let scenario = Scenario {
        network: Network::equal_paths(link, 2),
        application: Some(application),
        ..Scenario::default()
    };
    Cell::new(&[("program", &name), ("transport", &transport_name(application.transport))], scenario)
}
