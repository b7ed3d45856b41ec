// SPDX-License-Identifier: MIT OR Apache-2.0
//! `failover`: a link fails during a transfer.

use std::time::Duration;

use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::Transport;

use crate::data::PublishedValue::{Absolute, Change};
use crate::data::detail::Shape;
use crate::data::quantity::Quantity::{Completed, CompletionTime, Goodput, Outage, Retransmitted};
use crate::data::{Description, DetailPlot, Plot, Published, factors};
use crate::experiment::{
    Cell, Experiment, LinkFailure, Load, Network, Scale, Scenario, TRANSPORTS, transport_name,
};

/// Rate of a path, bytes per second.
const RATE: f64 = 50e6 / 8.0;

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "failover".into(),
        title: "a link fails during a transfer".into(),
        paper: "ICPE19".into(),
        question: "Does a transfer survive the failure of a link, and what does the failure cost?".into(),
        method: "One upload by TCP over one path, and by MPTCP over two paths; each path has 50 Mbit/s and \
                 10 ms. The first path's link goes down after a third of the time that TCP takes without a \
                 failure, and stays down. A transfer that lasts longer than four times this time is not \
                 complete. TCP's retry limits are lowered, so that the kernel gives up a failed path \
                 within seconds."
            .into(),
        quantities: vec![Completed, CompletionTime, Outage, Goodput, Retransmitted],
        baseline: factors(&[("failure", "no")]),
        plots: Plot::over("transport", &[CompletionTime, Completed]),
        detail_plots: vec![DetailPlot::new(
            Shape::RatesOverTime,
            &[("transport", "mptcp"), ("failure", "yes")],
        )],
        published: vec![
            Published::new(
                &[("transport", "mptcp"), ("failure", "yes")],
                CompletionTime,
                Change(0.17),
                "94 s became 110 s",
            ),
            Published::new(
                &[("transport", "tcp"), ("failure", "yes")],
                Completed,
                Absolute(0.0),
                "TCP never completes",
            ),
        ],
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let seconds = scale.pick(6.0, 3.0);
    let both = |fails: bool| TRANSPORTS.map(|transport| cell(transport, fails, seconds));
    [both(false), both(true)].into_iter().flatten().collect()
}

fn cell(transport: Transport, fails: bool, seconds: f64) -> Cell {
    let link = LinkSpec::rate(RATE * 8.0 / 1e6, Duration::from_millis(30)).rtt(Duration::from_millis(10));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some megabytes")]
    let bytes = (RATE * seconds) as u64;
    let network = TopologySpec {
        paths: vec![PathSpec { link, ..PathSpec::default() }; 2],
        quick_timeouts: true,
        ..TopologySpec::default()
    };
    let scenario = Scenario {
        network: Network::Paths(network),
        traffic: vec![Load::upload(transport, bytes)],
        failure: fails.then(|| LinkFailure { path: 0, after: Duration::from_secs_f64(seconds / 3.0) }),
        timeout: Duration::from_secs_f64(seconds * 4.0),
        ..Scenario::default()
    };
    let failure = if fails { "yes" } else { "no" };
    Cell::new(&[("transport", &transport_name(transport)), ("failure", &failure)], scenario)
}
