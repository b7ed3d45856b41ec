// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the network of a cell and starts its traffic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::bottleneck::cell::{App, Cell, Cross, Layout};
use crate::error::Error;
use crate::link::Discipline;
use crate::topology::Topology;
use crate::topology::{LinkSpec, PathSpec, TopologySpec};
use crate::traffic::{Control, PORT, TrafficSpec, Transfer, Transport, Workload};

/// Duration of the traffic, longer than any cell: the traffic is cancelled when its cell ends.
const TRAFFIC_DURATION: Duration = Duration::from_mins(5);

/// The network of a cell.
#[must_use]
pub fn topology(cell: &Cell) -> TopologySpec {
    // Only the direction from client to server has a rate limit; acknowledgements have none.
    let limit = |queue: usize| LinkSpec {
        backward: None,
        ..LinkSpec::rate(f64::from(cell.rate_of(queue)), milliseconds(cell.buffer_ms()))
    };
    let rtt = |subflow: usize| milliseconds(cell.rtt_ms(subflow));
    let paths = (0..cell.subflows).map(|subflow| match cell.layout {
        Layout::Disjoint | Layout::Switching => {
            PathSpec { link: limit(subflow).rtt(rtt(subflow)), ..PathSpec::default() }
        }
        Layout::Shared | Layout::Partly | Layout::TwoRates | Layout::Fair => PathSpec {
            link: if cell.unequal { LinkSpec::default().rtt(rtt(subflow)) } else { LinkSpec::default() },
            bottleneck: Some(if cell.layout == Layout::Fair { 0 } else { cell.queue_of(subflow, false) }),
            ..PathSpec::default()
        },
    });
    let bottlenecks = match cell.layout {
        Layout::Disjoint | Layout::Switching => 0,
        Layout::Fair => 1,
        _ => cell.queues(),
    };
    let bottleneck = |queue: usize| {
        let mut link = limit(queue);
        if cell.layout == Layout::Fair {
            link.forward = link.forward.map(|limit| limit.with_discipline(Discipline::Fair));
        }
        if cell.unequal { link } else { link.rtt(rtt(0)) }
    };
    TopologySpec {
        paths: paths.collect(),
        bottlenecks: (0..bottlenecks).map(bottleneck).collect(),
        ..TopologySpec::default()
    }
}

/// Starts the MPTCP connections of a cell.
///
/// # Errors
/// If the connections cannot be started.
pub fn traffic(lab: &Topology, cell: &Cell) -> Result<Transfer, Error> {
    let workload = match cell.app {
        App::Bulk => Workload::upload_for(TRAFFIC_DURATION),
        App::Short => Workload::upload(500_000),
        App::Limited => {
            Workload::Paced { rate: u64::from(cell.total_mbit()) * 700_000, duration: TRAFFIC_DURATION }
        }
    };
    let mut spec = lab.traffic(workload)?;
    spec.congestion = Some(cell.congestion.name().to_owned());
    spec.concurrency = cell.connections;
    spec.connections = if cell.app == App::Short { u32::MAX } else { cell.connections };
    (spec.read_socket_info, spec.timeout, spec.seed) = (false, TRAFFIC_DURATION, cell.seed.into());
    Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default()))
}

/// Starts the cross traffic of a cell. The traffic ends when the result is dropped.
///
/// # Errors
/// If a transfer cannot be started.
pub fn cross_traffic(lab: &Topology, cell: &Cell) -> Result<Vec<Transfer>, Error> {
    let queues = if cell.cross == Cross::None { 0 } else { cell.queues() };
    let mut transfers = Vec::new();
    for queue in (0..queues).step_by(2) {
        let Some(subflow) = (0..cell.subflows).find(|subflow| cell.queue_of(*subflow, false) == queue) else {
            continue;
        };
        let path = lab.path(subflow)?;
        let (workload, connections) = match cell.cross {
            Cross::Short => (Workload::upload(60_000), u32::MAX),
            _ if cell.queues() == 1 => (Workload::upload_for(TRAFFIC_DURATION), 1 + cell.seed % 3),
            _ => (Workload::upload_for(TRAFFIC_DURATION), 1),
        };
        let mut spec = TrafficSpec::new(path.server_address(), workload);
        let port = PORT + 1 + u16::try_from(queue).unwrap_or(0);
        spec.server = SocketAddr::new(path.server_address(), port);
        spec.client = Some(path.client_address());
        (spec.transport, spec.read_socket_info, spec.timeout) = (Transport::Tcp, false, TRAFFIC_DURATION);
        spec.congestion = Some("cubic".to_owned());
        (spec.connections, spec.concurrency) = (connections, connections.min(3));
        transfers.push(Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default()))?);
    }
    Ok(transfers)
}

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(count.into())
}
