// SPDX-License-Identifier: MIT OR Apache-2.0
//! `detection`: which method finds the extra subflows, on the cells of Table III that `./dev bench bottleneck` records, too.

use std::time::Duration;

use crate::data::PublishedValue;
use crate::data::declared::{Description, Plot, Published};
use crate::data::quantity::Quantity;
use mpwatch_lab::bottleneck::cell::{App, Cell as Setting};
use mpwatch_lab::bottleneck::grid::Grid;
use mpwatch_lab::bottleneck::network::topology;
use mpwatch_lab::traffic::{Transport, Workload};
use mpwatch_model::flow::bottleneck::DetectionMethod;

use super::super::experiment::{Cell, Declared, Load, Network, Role, Scale, Scenario};

pub(super) const EXPERIMENT: Declared = Declared { description: &DESCRIPTION, cells };

/// Ours first.
const METHODS: [DetectionMethod; 5] = [
    DetectionMethod::Concordance,
    DetectionMethod::Ese,
    DetectionMethod::Rfc8382,
    DetectionMethod::Dcw,
    DetectionMethod::Dwc,
];
/// Duration of a quick run: no method decides later than this, if it decides at all.
const QUICK_SECONDS: u32 = 12;
const SETUP: &str = "200 connections, alpha 1.3";

static DESCRIPTION: Description = Description {
    name: "detection",
    title: "which method finds extra subflows",
    paper: "MPTCP-D",
    question: "Which share of the extra subflows does each method find, how often would it close a whole path, and how soon does it decide?",
    method: "Table III: five MPTCP connections upload over two links of 100 and 20 Mbit/s with an RTT of 20 ms and a queue of 50 ms, with as many \
             subflows on each link as the factor subflows says; 8 means eight and one, as the kernel allows nine. All methods judge the same \
             runs. The paper had 200 connections; it gives no share of paths that are closed, and no decision time. concordance is the \
             method of mpwatch; ese that of the paper (alpha 1.3).",
    quantities: &[Quantity::Found, Quantity::FalselyClosed, Quantity::DecisionTime],
    baseline: &[],
    plots: &[
        Plot { quantity: Quantity::Found, over: "subflows", log: false },
        Plot { quantity: Quantity::FalselyClosed, over: "subflows", log: false },
        Plot { quantity: Quantity::DecisionTime, over: "subflows", log: false },
    ],
    detail_plots: &[],
    published: &[
        Published {
            cell: &[("subflows", "2"), ("method", "ese")],
            quantity: Quantity::Found,
            value: PublishedValue::Absolute(0.904),
            setup: SETUP,
        },
        Published {
            cell: &[("subflows", "4"), ("method", "ese")],
            quantity: Quantity::Found,
            value: PublishedValue::Absolute(0.736),
            setup: SETUP,
        },
        Published {
            cell: &[("subflows", "8"), ("method", "ese")],
            quantity: Quantity::Found,
            value: PublishedValue::Absolute(0.815),
            setup: SETUP,
        },
    ],
};

fn cells(scale: Scale) -> Vec<Cell> {
    let settings = Grid::Table3.cells(1).into_iter().filter(|setting| setting.app == App::Bulk);
    let wanted = settings.filter(|setting| scale == Scale::Full || on_a_link(setting) == 2);
    wanted.flat_map(|setting| METHODS.map(|method| cell(&setting, scale).judged_by(method))).collect()
}

/// Subflows on the first link.
fn on_a_link(setting: &Setting) -> usize {
    (0..setting.subflows).filter(|subflow| setting.queue_of(*subflow, false) == 0).count()
}

fn cell(setting: &Setting, scale: Scale) -> Cell {
    let duration = Duration::from_secs(scale.pick(setting.seconds, QUICK_SECONDS).into());
    let load = Load::of(Role::Measured, Transport::Mptcp, Workload::upload_for(duration));
    let load = Load { congestion: setting.congestion.name(), ..load.times(setting.connections) };
    let scenario = Scenario {
        network: Network::Paths(topology(setting)),
        traffic: vec![load],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    Cell::new(&[("subflows", &on_a_link(setting))], scenario)
}
