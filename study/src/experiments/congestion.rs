// SPDX-License-Identifier: MIT OR Apache-2.0
//! `congestion`: other flows on one of the paths.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Change;
use crate::data::quantity::Quantity::{CompletionTime, Goodput, Retransmitted, Rtt};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{
    Cell, Experiment, Load, Network, Purpose, Scale, Scenario, TRANSPORTS, transport_name,
};

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "congestion".into(),
        title: "background traffic on the first path".into(),
        paper: "ICPE19".into(),
        question: "What does the second path gain while the first path is congested?".into(),
        method: "One upload by TCP over one path, and by MPTCP over two paths; each path has 50 Mbit/s and \
                 10 ms. Plain TCP flows (factor background) upload over the first path all the time."
            .into(),
        quantities: vec![CompletionTime, Goodput, Retransmitted, Rtt],
        baseline: factors(&[("transport", "tcp")]),
        plots: Plot::over("background", &[Goodput, CompletionTime]),
        published: vec![
            Published::new(
                &[("transport", "mptcp"), ("background", "1")],
                CompletionTime,
                Change(-0.2),
                "lower end of the range",
            ),
            Published::new(
                &[("transport", "mptcp"), ("background", "1")],
                CompletionTime,
                Change(-0.5),
                "upper end of the range",
            ),
        ],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

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
        traffic.push(Load::new(Purpose::Background, Transport::Tcp, forever).times(flows));
    }
    let scenario = Scenario {
        network: Network::equal_paths(link, 2),
        traffic,
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("transport", &transport_name(transport)), ("background", &flows)], scenario)
}
