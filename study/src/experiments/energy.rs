// SPDX-License-Identifier: MIT OR Apache-2.0
//! `energy`: what more disjoint paths cost and save.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Transport;

use super::super::experiment::{Cell, Declared, Load, Network, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

/// Rate of each path, Mbit/s, as in the two halves of the paper's table, and the size of the transfer in bytes: (full, quick).
const RATES: [(u32, u64, u64); 2] = [(20, 20_000_000, 4_000_000), (200, 200_000_000, 20_000_000)];

static DESCRIPTION: Description = Description {
    name: "energy",
    title: "one TCP flow against MPTCP over 2 to 5 disjoint paths",
    paper: "MPTCP-D",
    question: "Do disjoint paths save energy although they draw more power?",
    method: "One upload. One path carries plain TCP, more paths carry MPTCP with one subflow on each; all paths have the same rate (factor \
             rate, Mbit/s) and an RTT of 10 ms. Power is that of the whole machine, idle power included. The paper measured two machines \
             by RAPL; here both ends run on one machine.",
    quantities: &[
        Quantity::Goodput,
        Quantity::CompletionTime,
        Quantity::Power,
        Quantity::MachineEnergy,
        Quantity::FlowEnergy,
        Quantity::CpuPerPayload,
        Quantity::Retransmitted,
    ],
    baseline: &[("paths", "1")],
    plots: &[
        Plot { quantity: Quantity::Goodput, over: "paths", log: false },
        Plot { quantity: Quantity::Power, over: "paths", log: false },
        Plot { quantity: Quantity::MachineEnergy, over: "paths", log: false },
        Plot { quantity: Quantity::CompletionTime, over: "paths", log: false },
    ],
    detail_plots: &[],
    published: PUBLISHED,
};

/// A row of Table I.
const fn row(
    cell: &'static [(&'static str, &'static str)],
    setup: &'static str,
    values: [f64; 3],
) -> [Published; 3] {
    let [power, time, energy] = values;
    [
        Published { cell, quantity: Quantity::Power, value: PublishedValue::Change(power), setup },
        Published { cell, quantity: Quantity::CompletionTime, value: PublishedValue::Change(time), setup },
        Published { cell, quantity: Quantity::MachineEnergy, value: PublishedValue::Change(energy), setup },
    ]
}

const I7: &str = "i7-3770";
const E5: &str = "Xeon E5-2680 v2";
static ROWS: [[Published; 3]; 8] = [
    row(&[("rate", "20"), ("paths", "2")], I7, [0.064, -0.501, -0.469]),
    row(&[("rate", "20"), ("paths", "3")], I7, [0.147, -0.683, -0.636]),
    row(&[("rate", "20"), ("paths", "4")], I7, [0.262, -0.758, -0.695]),
    row(&[("rate", "20"), ("paths", "5")], I7, [0.335, -0.806, -0.741]),
    row(&[("rate", "200"), ("paths", "2")], E5, [0.083, -0.498, -0.456]),
    row(&[("rate", "200"), ("paths", "3")], E5, [0.113, -0.664, -0.626]),
    row(&[("rate", "200"), ("paths", "4")], E5, [0.141, -0.750, -0.715]),
    row(&[("rate", "200"), ("paths", "5")], E5, [0.142, -0.798, -0.769]),
];
static PUBLISHED: &[Published] = ROWS.as_flattened();

fn cells(scale: Scale) -> Vec<Cell> {
    let rates = scale.pick(&RATES[..], &RATES[..1]);
    let paths = scale.pick(&[1, 2, 3, 4, 5][..], &[1, 2, 4][..]);
    rates.iter().flat_map(|rate| paths.iter().map(|paths| cell(*rate, *paths, scale))).collect()
}

fn cell((rate, full, quick): (u32, u64, u64), paths: usize, scale: Scale) -> Cell {
    let link = LinkSpec::rate(f64::from(rate), Duration::from_millis(30)).rtt(Duration::from_millis(10));
    let transport = if paths == 1 { Transport::Tcp } else { Transport::Mptcp };
    let scenario = Scenario {
        network: Network::Paths(TopologySpec {
            paths: vec![PathSpec { link, ..PathSpec::default() }; paths],
            ..TopologySpec::default()
        }),
        traffic: vec![Load::upload(transport, scale.pick(full, quick))],
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    Cell::new(&[("rate", &rate), ("paths", &paths)], scenario)
}
