// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of a connection that follow from its other fields. Whoever builds, merges or restores a connection settles it at the end.

use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::ratio::jain_index;
use crate::flow::subflow::Subflow;
use crate::unit::Bytes;

/// Computes path failures, shares, fairness, and whether all of it was observed.
#[must_use]
pub fn settled(connection: Connection) -> Connection {
    let mut connection = outage::with_counts(connection);
    connection.partly_observed = connection.is_partly_observed();
    set_shares(&mut connection.subflows);
    if connection.subflows.iter().all(|subflow| subflow.observed.is_some()) {
        connection.jain_index = fairness(&connection.subflows);
    }
    connection
}

/// Shares of the observed payload. Where an earlier mpwatch wrote one of the subflows, of all payload.
fn set_shares(subflows: &mut [Subflow]) {
    let observed: Option<Vec<Bytes>> = subflows.iter().map(|one| one.observed?.bytes_sent).collect();
    let sent = observed.unwrap_or_else(|| subflows.iter().map(Subflow::unique_sent).collect());
    let all: Bytes = sent.iter().copied().sum();
    for (subflow, sent) in subflows.iter_mut().zip(sent) {
        subflow.share_sent = (all.0 > 0).then(|| sent.0 as f64 / all.0 as f64);
    }
}

/// Fairness of the goodputs of subflows: of observed payload, until the connection closed. A subflow that carried nothing does not count if
/// it is a backup or has ended (a refused join).
fn fairness(subflows: &[Subflow]) -> Option<f64> {
    let counts = |subflow: &&Subflow| {
        subflow.observed_payload().0 > 0 || !(subflow.backup || subflow.closed.is_some())
    };
    let goodput = |subflow: &Subflow| subflow.observed.and_then(|observed| observed.goodput());
    jain_index(subflows.iter().filter(counts).map(|one| goodput(one).unwrap_or_default().0 as f64))
}
