// SPDX-License-Identifier: MIT OR Apache-2.0
//! Totals over the connections of a report, by protocol and size class. The two ends of a connection are one flow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::class::FlowClass;
use crate::flow::connection::Connection;
use crate::flow::pairing::{Flow, flows};
use crate::flow::ratio::excess;
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::kernel::lifecycle::CarriedBy;
use crate::statistics::{mean, quantile};
use crate::unit::{BitsPerSecond, Bytes};

/// The connections of one protocol and size class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTotals {
    /// The protocol that carried the payload of the connections.
    pub carried_by: CarriedBy,
    /// Size class of the connections by payload `[UPD18]`.
    pub flow_class: FlowClass,
    /// Number of connections; a connection whose two ends are in the report counts once.
    pub connections: usize,
    /// Number of completed connections: their opening and their end were traced.
    pub completed: usize,
    /// Median completion time of the completed connections, in seconds. `null`: none completed.
    #[serde(rename = "completion_p50_s")]
    pub median: Option<f64>,
    /// 99th percentile of the completion times, in seconds. `null`: none completed.
    #[serde(rename = "completion_p99_s")]
    pub p99: Option<f64>,
    /// The longest completion time, in seconds. `null`: none completed.
    #[serde(rename = "completion_max_s")]
    pub slowest: Option<f64>,
    /// Observed payload in both directions, each byte once.
    #[serde(rename = "bytes")]
    pub payload: Bytes,
    /// Mean of the connections' goodputs. `null`: no goodput is known.
    #[serde(rename = "goodput_bps")]
    pub goodput: Option<BitsPerSecond>,
    /// Fraction of the observed wire bytes (estimated) that delivered no new payload: headers and retransmissions. `null`: nothing was on the wire.
    #[serde(rename = "excess_ratio")]
    pub excess: Option<f64>,
    /// Mean of the connections' fairness indices (Jain). `null`: no connection has two subflows.
    pub jain_index: Option<f64>,
    /// Energy at all ends of the connections whose energy is known, with its ratio to their payload. `null`: no energy is known.
    pub energy: Option<FlowEnergy>,
}

/// The totals of each protocol and class that has connections, the smallest class first.
pub fn class_totals(connections: &[Connection]) -> Vec<ClassTotals> {
    let flows = flows(connections);
    let pairs = FlowClass::ALL.into_iter().flat_map(|class| CarriedBy::ALL.map(|protocol| (class, protocol)));
    pairs.filter_map(|(class, protocol)| sum(&flows, class, protocol)).collect()
}

fn sum(all: &[Flow<'_>], flow_class: FlowClass, carried_by: CarriedBy) -> Option<ClassTotals> {
    let is_member =
        |flow: &&Flow<'_>| flow.end.flow_class == flow_class && flow.end.carried_by() == carried_by;
    let flows: Vec<Flow<'_>> = all.iter().filter(is_member).copied().collect();
    let mean_of = |read: fn(&Connection) -> Option<f64>| {
        mean(&flows.iter().filter_map(|flow| read(flow.best_observed())).collect::<Vec<f64>>())
    };
    let times = completion_times(&flows);
    let (energy, known) = energy(&flows);
    (!flows.is_empty()).then(|| ClassTotals {
        carried_by,
        flow_class,
        connections: flows.len(),
        completed: times.len(),
        median: quantile(&times, 0.5),
        p99: quantile(&times, 0.99),
        slowest: quantile(&times, 1.0),
        payload: flows.iter().map(|flow| flow.observed_payload()).sum(),
        goodput: mean_of(|end| end.observed?.goodput().map(|rate| rate.0 as f64)).map(rounded),
        excess: excess_ratio(&flows),
        jain_index: mean_of(|end| end.jain_index),
        energy: (known > 0).then_some(energy),
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an `as` cast saturates")]
fn rounded(rate: f64) -> BitsPerSecond {
    BitsPerSecond(rate.round() as u64)
}

/// Excess traffic of these connections together `[UPD18]`, each at the end that observed more payload. `None`: there were no wire bytes.
pub fn excess_ratio(flows: &[Flow<'_>]) -> Option<f64> {
    let (payloads, wire): (Vec<Bytes>, Vec<Bytes>) =
        flows.iter().map(|flow| flow.best_observed().payload_and_wire()).unzip();
    excess(payloads.into_iter().sum(), wire.into_iter().sum())
}

/// Duration of the connections whose opening and end were traced, in seconds, ascending.
pub fn completion_times(flows: &[Flow<'_>]) -> Vec<f64> {
    let was_connected = |flow: &&Flow<'_>| flow.end.subflows.iter().any(Subflow::is_path);
    let completed =
        flows.iter().filter(was_connected).filter(|flow| flow.end.seen_open && !flow.end.is_open());
    let mut times: Vec<f64> = completed.map(|flow| flow.end.age_s).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Energy of the connections whose energy is known, at all of their ends, with its ratio to their payload; and the number of these connections.
pub fn energy(flows: &[Flow<'_>]) -> (FlowEnergy, usize) {
    let energy = |flow: &Flow<'_>| flow.energy().filter(|energy| energy.active.is_some());
    let known = flows.iter().filter_map(|flow| Some((flow.observed_payload(), energy(flow)?)));
    let (payloads, energies): (Vec<Bytes>, Vec<FlowEnergy>) = known.unzip();
    (FlowEnergy::sum(&energies).over(payloads.into_iter().sum()), energies.len())
}
