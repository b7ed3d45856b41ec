// SPDX-License-Identifier: MIT OR Apache-2.0
//! `detection`: the extra subflows that each method finds, on the cells of Table III, which `./dev bench bottleneck` also records.

use std::time::Duration;

use mpwatch_lab::bottleneck::cell::{App, Cell as Setting};
use mpwatch_lab::bottleneck::grid::Grid;
use mpwatch_lab::bottleneck::network::topology;
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_model::flow::bottleneck::DetectionMethod;

use crate::data::PublishedValue::Absolute;
use crate::data::quantity::Quantity::{DecisionTime, FalselyClosed, Found};
use crate::data::{Description, Plot, Published};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};

/// The compared methods. mpwatch's own method is first.
const METHODS: [DetectionMethod; 5] = [
    DetectionMethod::Concordance,
    DetectionMethod::Ese,
    DetectionMethod::Rfc8382,
    DetectionMethod::Dcw,
    DetectionMethod::Dwc,
];
/// Duration of a quick run in seconds. Every method that reaches verdicts at all reaches its first verdict within this time.
const QUICK_SECONDS: u32 = 12;
const SETUP: &str = "200 connections, alpha 1.3";

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "detection".into(),
        title: "which method finds extra subflows".into(),
        paper: "MPTCP-D".into(),
        question: "Which share of the extra subflows does each method find, how often would it close a \
                 whole path, and how soon does it decide?"
            .into(),
        method: "Table III: five MPTCP connections upload over two links of 100 and 20 Mbit/s with an RTT \
                 of 20 ms and a queue of 50 ms. The factor subflows is the number of subflows on each \
                 link; 8 means eight and one, because the kernel allows nine. All methods evaluate the \
                 same runs. The paper had 200 connections; it reports no share of closed paths and no \
                 decision time. concordance is the method of mpwatch; ese is the paper's (alpha 1.3)."
            .into(),
        quantities: vec![Found, FalselyClosed, DecisionTime],
        plots: Plot::over("subflows", &[Found, FalselyClosed, DecisionTime]),
        published: vec![
            Published::new(&[("subflows", "2"), ("method", "ese")], Found, Absolute(0.904), SETUP),
            Published::new(&[("subflows", "4"), ("method", "ese")], Found, Absolute(0.736), SETUP),
            Published::new(&[("subflows", "8"), ("method", "ese")], Found, Absolute(0.815), SETUP),
        ],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let settings = Grid::Table3.cells(1).into_iter().filter(|setting| setting.app == App::Bulk);
    let wanted = settings.filter(|setting| scale == Scale::Full || on_a_link(setting) == 2);
    wanted.flat_map(|setting| METHODS.map(|method| cell(&setting, scale).judged_by(method))).collect()
}

/// Number of subflows on the first link.
fn on_a_link(setting: &Setting) -> usize {
    (0..setting.subflows).filter(|subflow| setting.queue_of(*subflow, false) == 0).count()
}

fn cell(setting: &Setting, scale: Scale) -> Cell {
    let duration = Duration::from_secs(scale.pick(setting.seconds, QUICK_SECONDS).into());
    let load = Load::new(Purpose::Measured, Transport::Mptcp, Workload::upload_for(duration));
    let load = Load { congestion: setting.congestion.name(), ..load.times(setting.connections) };
    let scenario = Scenario {
        network: Network::Paths(topology(setting)),
        traffic: vec![load],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("subflows", &on_a_link(setting))], scenario)
}
