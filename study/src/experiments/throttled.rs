// SPDX-License-Identifier: MIT OR Apache-2.0
//! `throttled`: rates of two subflows under a shared rate limit.

use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Absolute;
use crate::data::detail::Shape;
use crate::data::quantity::Quantity::{Goodput, Groups, Jain, RateCorrelation};
use crate::data::{Description, DetailPlot, Published};
use crate::experiment::{Cell, Experiment, Load, Network, Purpose, Scale, Scenario};

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "throttled".into(),
        title: "two subflows under one rate cap, and under one each".into(),
        paper: "ICPE19".into(),
        question: "Do the rates of two subflows move in opposite directions when a cloud caps their sum?"
            .into(),
        method: "One upload over two paths of 10 and 30 ms. Either one token bucket of 40 Mbit/s limits \
                 both paths together (factor cap: shared), or each path has a token bucket of 20 Mbit/s. A \
                 rate is a mean over one second. The paper throttled virtual machines, and shows rates in \
                 Fig. 13 without numbers."
            .into(),
        quantities: vec![RateCorrelation, Goodput, Jain, Groups],
        detail_plots: vec![DetailPlot::new(Shape::RatesOverTime, &[])],
        published: vec![Published::new(
            &[("cap", "shared")],
            RateCorrelation,
            Absolute(-1.0),
            "opposite directions, constant sum",
        )],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let duration = Duration::from_secs(scale.pick(20, 8));
    [true, false].map(|shared| cell(shared, duration)).into()
}

fn cell(shared: bool, duration: Duration) -> Cell {
    let queue = Duration::from_millis(30);
    let delay = |rtt| LinkSpec::default().rtt(Duration::from_millis(rtt));
    let capped = |rtt| LinkSpec::rate(20.0, queue).rtt(Duration::from_millis(rtt));
    let paths = [10, 30].map(|rtt| PathSpec {
        link: if shared { delay(rtt) } else { capped(rtt) },
        bottleneck: shared.then_some(0),
        ..PathSpec::default()
    });
    let network = TopologySpec {
        paths: paths.into(),
        bottlenecks: if shared { vec![LinkSpec::rate(40.0, queue)] } else { Vec::new() },
        ..TopologySpec::default()
    };
    let scenario = Scenario {
        network: Network::Paths(network),
        traffic: vec![Load::new(Purpose::Measured, Transport::Mptcp, Workload::upload_for(duration))],
        timeout: Duration::from_mins(1),
        ..Scenario::default()
    };
    let cap = if shared { "shared" } else { "separate" };
    Cell::new(&[("cap", &cap)], scenario)
}
