// SPDX-License-Identifier: MIT OR Apache-2.0
//! `energy`: power and energy of a transfer over more disjoint paths.

use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::Transport;

use crate::data::PublishedValue::Change;
use crate::data::quantity::Quantity::{
    CompletionTime, CpuPerPayload, FlowEnergy, Goodput, MachineEnergy, Power, Retransmitted,
};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{Cell, Experiment, Load, Network, Scale, Scenario};

/// Rate of each path in Mbit/s, as in the two halves of the paper's table, and size of the transfer in bytes in full and quick runs.
const RATES: [(u32, u64, u64); 2] = [(20, 20_000_000, 4_000_000), (200, 200_000_000, 20_000_000)];

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "energy".into(),
        title: "one TCP flow against MPTCP over 2 to 5 disjoint paths".into(),
        paper: "MPTCP-D".into(),
        question: "Do disjoint paths save energy although they draw more power?".into(),
        method: "One upload. One path carries plain TCP, more paths carry MPTCP with one subflow on each; \
                 all paths have the same rate (factor rate, Mbit/s) and an RTT of 10 ms. Power is the \
                 whole machine's, idle power included. The paper measured two machines by RAPL; here \
                 both ends run on one machine."
            .into(),
        quantities: vec![
            Goodput,
            CompletionTime,
            Power,
            MachineEnergy,
            FlowEnergy,
            CpuPerPayload,
            Retransmitted,
        ],
        baseline: factors(&[("paths", "1")]),
        plots: Plot::over("paths", &[Goodput, Power, MachineEnergy, CompletionTime]),
        published: ROWS.iter().flat_map(row).collect(),
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

const I7: &str = "i7-3770";
const E5: &str = "Xeon E5-2680 v2";
/// Table I of the paper: rate, paths, machine, and the relative changes of power, time and energy.
const ROWS: [(&str, &str, &str, [f64; 3]); 8] = [
    ("20", "2", I7, [0.064, -0.501, -0.469]),
    ("20", "3", I7, [0.147, -0.683, -0.636]),
    ("20", "4", I7, [0.262, -0.758, -0.695]),
    ("20", "5", I7, [0.335, -0.806, -0.741]),
    ("200", "2", E5, [0.083, -0.498, -0.456]),
    ("200", "3", E5, [0.113, -0.664, -0.626]),
    ("200", "4", E5, [0.141, -0.750, -0.715]),
    ("200", "5", E5, [0.142, -0.798, -0.769]),
];

fn row((rate, paths, setup, [power, time, energy]): &(&str, &str, &str, [f64; 3])) -> [Published; 3] {
    let changes = [(Power, power), (CompletionTime, time), (MachineEnergy, energy)];
    changes.map(|(quantity, change)| {
        Published::new(&[("rate", rate), ("paths", paths)], quantity, Change(*change), setup)
    })
}

fn cells(scale: Scale) -> Vec<Cell> {
    let rates = scale.pick(&RATES[..], &RATES[..1]);
    let paths = scale.pick(&[1, 2, 3, 4, 5][..], &[1, 2, 4][..]);
    rates.iter().flat_map(|rate| paths.iter().map(|paths| cell(*rate, *paths, scale))).collect()
}

fn cell((rate, full, quick): (u32, u64, u64), paths: usize, scale: Scale) -> Cell {
    let link = LinkSpec::rate(f64::from(rate), Duration::from_millis(30)).rtt(Duration::from_millis(10));
    let transport = if paths == 1 { Transport::Tcp } else { Transport::Mptcp };
    let scenario = Scenario {
        network: Network::equal_paths(link, paths),
        traffic: vec![Load::upload(transport, scale.pick(full, quick))],
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    Cell::new(&[("rate", &rate), ("paths", &paths)], scenario)
}
