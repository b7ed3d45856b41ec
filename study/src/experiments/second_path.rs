// SPDX-License-Identifier: MIT OR Apache-2.0
//! `second-path`: bytes until the second path helps.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::Transport;

use crate::data::PublishedValue::Absolute;
use crate::data::quantity::Quantity;
use crate::data::{Description, Plot, Published};
use crate::experiment::{Cell, Experiment, Load, Network, Scale, Scenario};

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "second-path".into(),
        title: "bytes until the second path helps".into(),
        paper: "ICPE19".into(),
        question: "How large must a transfer be before the second path carries a part of it?".into(),
        method: "One upload of 20 MB over two equal paths; RTT and rate vary. The second subflow is \
                 effective when it has carried 10 % of all payload. The paper had two paths of 10 Gbit/s \
                 in a data centre, and read the values from a plot."
            .into(),
        quantities: vec![
            Quantity::SecondSubflow,
            Quantity::SecondSubflowBytes,
            Quantity::EffectiveBytes,
            Quantity::CompletionTime,
        ],
        baseline: Vec::new(),
        plots: vec![
            Plot::new(Quantity::SecondSubflowBytes, "rtt_ms").logarithmic(),
            Plot::new(Quantity::EffectiveBytes, "rtt_ms").logarithmic(),
        ],
        detail_plots: Vec::new(),
        published: vec![
            Published::new(
                &[("rate", "1000"), ("rtt_ms", "1")],
                Quantity::SecondSubflowBytes,
                Absolute(500e3),
                "10 Gbit/s",
            ),
            Published::new(
                &[("rate", "1000"), ("rtt_ms", "1")],
                Quantity::EffectiveBytes,
                Absolute(1_000e3),
                "10 Gbit/s",
            ),
        ],
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let rates = scale.pick(&[100_u32, 1_000][..], &[100][..]);
    let rtts = scale.pick(&[1_u64, 5, 20, 50][..], &[1, 20][..]);
    let bytes = scale.pick(20_000_000, 5_000_000);
    rates.iter().flat_map(|rate| rtts.iter().map(move |rtt| cell(*rate, *rtt, bytes))).collect()
}

fn cell(rate: u32, rtt: u64, bytes: u64) -> Cell {
    let link = LinkSpec::rate(f64::from(rate), Duration::from_millis(30)).rtt(Duration::from_millis(rtt));
    let scenario = Scenario {
        network: Network::equal_paths(link, 2),
        traffic: vec![Load::upload(Transport::Mptcp, bytes)],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("rate", &rate), ("rtt_ms", &rtt)], scenario)
}
