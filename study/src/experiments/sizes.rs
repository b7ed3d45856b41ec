// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sizes`: completion time of transfers of different sizes.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::Transport;

use crate::data::PublishedValue::Change;
use crate::data::quantity::Quantity::{CompletionTime, CpuPerPayload, EnergyPerPayload, Excess, Goodput};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Scale, Scenario, TRANSPORTS, transport_name};

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "sizes".into(),
        title: "completion time of 10 kB to 1 GB over TCP and MPTCP".into(),
        paper: "ICPE19".into(),
        question: "From which size on does MPTCP finish sooner than TCP?".into(),
        method: "One upload of each size (factor bytes) by TCP over one path, and by MPTCP over two paths; \
                 each path has 500 Mbit/s and 1 ms. The paper had paths of 10 Gbit/s."
            .into(),
        quantities: vec![CompletionTime, Goodput, CpuPerPayload, EnergyPerPayload, Excess],
        baseline: factors(&[("transport", "tcp")]),
        plots: Plot::logarithmic("bytes", &[CompletionTime, Goodput, EnergyPerPayload]),
        published: vec![
            Published::new(
                &[("bytes", "100000"), ("transport", "mptcp")],
                CompletionTime,
                Change(0.0),
                "two paths of 10 Gbit/s",
            ),
            Published::new(
                &[("bytes", "1000000000"), ("transport", "mptcp")],
                CompletionTime,
                Change(-0.5),
                "two paths of 10 Gbit/s",
            ),
        ],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let largest = scale.pick(9, 7);
    let sizes = (4..=largest).map(|power| 10_u64.pow(power));
    sizes.flat_map(|bytes| TRANSPORTS.map(|transport| cell(bytes, transport))).collect()
}

fn cell(bytes: u64, transport: Transport) -> Cell {
    let link = LinkSpec::rate(500.0, Duration::from_millis(20)).rtt(Duration::from_millis(1));
    let scenario = Scenario {
        network: Network::equal_paths(link, 2),
        traffic: vec![Load::upload(transport, bytes)],
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    Cell::new(&[("transport", &transport_name(transport)), ("bytes", &bytes)], scenario)
}
