// SPDX-License-Identifier: MIT OR Apache-2.0
//! `second-path`: how many bytes pass before the second path helps.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Transport;

use super::super::experiment::{Cell, Declared, Load, Network, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

static DESCRIPTION: Description = Description {
    name: "second-path",
    title: "bytes until the second path helps",
    paper: "ICPE19",
    question: "How large must a transfer be before the second path carries a part of it?",
    method: "One upload of 20 MB over two equal paths; RTT and rate vary. The second subflow is effective when it has carried 10 % of all \
             payload. The paper had two paths of 10 Gbit/s in a data centre, and read the values from a plot.",
    quantities: &[
        Quantity::SecondSubflow,
        Quantity::SecondSubflowBytes,
        Quantity::EffectiveBytes,
        Quantity::CompletionTime,
    ],
    baseline: &[],
    plots: &[
        Plot { quantity: Quantity::SecondSubflowBytes, over: "rtt_ms", log: true },
        Plot { quantity: Quantity::EffectiveBytes, over: "rtt_ms", log: true },
    ],
    detail_plots: &[],
    published: &[
        Published {
            cell: &[("rate", "1000"), ("rtt_ms", "1")],
            quantity: Quantity::SecondSubflowBytes,
            value: PublishedValue::Absolute(500e3),
            setup: "10 Gbit/s",
        },
        Published {
            cell: &[("rate", "1000"), ("rtt_ms", "1")],
            quantity: Quantity::EffectiveBytes,
            value: PublishedValue::Absolute(1_000e3),
            setup: "10 Gbit/s",
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let rates = scale.pick(&[100_u32, 1_000][..], &[100][..]);
    let rtts = scale.pick(&[1_u64, 5, 20, 50][..], &[1, 20][..]);
    let bytes = scale.pick(20_000_000, 5_000_000);
    rates.iter().flat_map(|rate| rtts.iter().map(move |rtt| cell(*rate, *rtt, bytes))).collect()
}

fn cell(rate: u32, rtt: u64, bytes: u64) -> Cell {
    let link = LinkSpec::rate(f64::from(rate), Duration::from_millis(30)).rtt(Duration::from_millis(rtt));
    let scenario = Scenario {
        network: Network::Paths(TopologySpec {
            paths: vec![PathSpec { link, ..PathSpec::default() }; 2],
            ..TopologySpec::default()
        }),
        traffic: vec![Load::upload(Transport::Mptcp, bytes)],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("rate", &rate), ("rtt_ms", &rtt)], scenario)
}
