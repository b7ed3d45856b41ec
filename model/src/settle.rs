// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of a connection that are computed from its other fields. Code that builds, merges or restores a connection must call [`settled`].

use crate::flow::bottleneck::Bottlenecks;
use crate::flow::class::FlowClass;
use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::ratio::jain_index;
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::unit::{Bytes, sum_if_all_known};

/// Sorts the timeline, and computes sums over the subflows, path failures, shares, fairness, the size class, and whether the whole connection was observed.
#[must_use]
pub fn settled(mut connection: Connection) -> Connection {
    // Entries with the same time are sorted so that causes precede effects.
    connection.timeline.sort_by_key(|entry| (entry.at, entry.event.rank()));
    let mut connection = outage::with_counts(connection);
    connection.partly_observed = connection.is_partly_observed();
    set_shares(&mut connection);
    set_energy(&mut connection);
    let (subflows, dropped) = (&connection.subflows, connection.dropped_subflows.iter());
    let retransmitted = subflows.iter().map(|subflow| subflow.bytes_retransmitted);
    connection.bytes_retransmitted =
        retransmitted.chain(dropped.clone().map(|d| d.bytes_retransmitted)).sum();
    let cpu = subflows.iter().map(|subflow| subflow.cpu);
    connection.cpu = sum_if_all_known(cpu.chain(dropped.clone().map(|dropped| dropped.cpu)));
    let busy = subflows.iter().map(|subflow| subflow.busy);
    connection.busy = sum_if_all_known(busy.chain(dropped.map(|dropped| dropped.busy)));
    connection.jain_index = fairness(subflows);
    connection.flow_class =
        FlowClass::from_payload(connection.payload_sent(), connection.bytes_received.unwrap_or_default());
    connection.extra_subflows = connection.bottlenecks.as_ref().and_then(Bottlenecks::extra_subflows);
    connection
}

/// Sums the known energy of the subflows, and divides each energy by the observed payload.
fn set_energy(connection: &mut Connection) {
    for subflow in &mut connection.subflows {
        subflow.energy = subflow.energy.map(|energy| energy.over(subflow.observed.bytes));
    }
    let dropped = connection.dropped_subflows.iter().filter_map(|dropped| dropped.energy.as_ref());
    let known = connection.subflows.iter().filter_map(|subflow| subflow.energy.as_ref());
    let mut known = known.chain(dropped).peekable();
    let is_known = known.peek().is_some();
    connection.energy = is_known.then(|| FlowEnergy::sum(known).over(connection.observed_payload()));
}

/// Sets the share of each subflow in the observed payload sent.
fn set_shares(connection: &mut Connection) {
    let listed = connection.subflows.iter().map(|subflow| subflow.observed.bytes_sent);
    let all = listed.sum::<Bytes>() + connection.dropped().bytes_sent;
    for subflow in &mut connection.subflows {
        subflow.share_sent = (all.0 > 0).then(|| subflow.observed.bytes_sent.0 as f64 / all.0 as f64);
    }
}

/// Fairness of the goodputs of subflows, from the payload observed until the connection closed. A subflow without payload does not count if
/// it is a backup or has ended (a refused join).
fn fairness(subflows: &[Subflow]) -> Option<f64> {
    let counts =
        |subflow: &&Subflow| subflow.observed.bytes.0 > 0 || !(subflow.backup || subflow.closed.is_some());
    let goodputs = subflows.iter().filter(counts).map(|subflow| subflow.observed.goodput());
    jain_index(goodputs.map(|goodput| goodput.unwrap_or_default().0 as f64))
}
