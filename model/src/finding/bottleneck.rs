// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about the bottlenecks of a connection, from the verdicts on its subflows.

use crate::flow::bottleneck::{Bottlenecks, PairVerdict, SharedCap, Verdict};
use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::id::SubflowId;
use crate::unit::{Bytes, sum_if_all_known};

use super::fact::{Certainty, Fact, OtherPairs, SharedBottleneck};

/// Ratio of received to sent bytes above which this end sends too little to detect bottlenecks.
const MOSTLY_RECEIVES: u64 = 20;

/// The groups of subflows that share a bottleneck.
pub fn shared_groups(connection: &Connection) -> impl Iterator<Item = &Vec<SubflowId>> {
    connection.bottlenecks.iter().flat_map(|found| &found.groups).filter(|group| group.len() > 1)
}

/// Number of open subflows whose path has not failed.
pub fn working_subflows(connection: &Connection) -> usize {
    connection.subflows.iter().filter(|subflow| subflow.closed.is_none() && !subflow.is_failed()).count()
}

/// Energy of these subflows. `None`: unknown.
pub fn extra_cost(connection: &Connection, extra: &[SubflowId]) -> Option<FlowEnergy> {
    let energies: Vec<FlowEnergy> =
        chosen(connection, extra).into_iter().filter_map(|subflow| subflow.energy).collect();
    Some(FlowEnergy::sum(&energies)).filter(|sum| !energies.is_empty() && sum.active.is_some())
}

fn chosen<'a>(connection: &'a Connection, ids: &[SubflowId]) -> Vec<&'a Subflow> {
    connection.subflows.iter().filter(|subflow| ids.contains(&subflow.id)).collect()
}

/// Facts about the bottlenecks of a connection, most important first.
pub(super) fn facts(connection: &Connection) -> Vec<Fact> {
    let Some(found) = &connection.bottlenecks else { return Vec::new() };
    let mut facts: Vec<Fact> =
        shared_groups(connection).map(|group| shared(connection, found, group)).collect();
    facts.extend(found.shared_caps.iter().map(|cap| capped(connection, cap)));
    if !found.method.is_default() {
        facts.push(Fact::DetectedBy(found.method));
    }
    facts.extend(other_pairs(connection, found).map(Fact::OtherPairs));
    facts
}

/// Whether every subflow adds throughput, provided that no two share a bottleneck: no path has failed, and the connection is closed or has
/// several working subflows.
fn add_throughput(connection: &Connection) -> bool {
    let several_work = !connection.is_open() || working_subflows(connection) > 1;
    several_work && !connection.subflows.iter().any(|subflow| outage::has_failed(connection, subflow))
}

fn names(connection: &Connection, ids: &[SubflowId]) -> Vec<String> {
    ids.iter().map(|id| connection.subflow_name(*id)).collect()
}

fn shared(connection: &Connection, found: &Bottlenecks, group: &[SubflowId]) -> Fact {
    let is_inside = |pair: &&PairVerdict| {
        pair.verdict == Verdict::Shared && group.contains(&pair.a) && group.contains(&pair.b)
    };
    let extra = group.get(1..).unwrap_or_default();
    let subflows = chosen(connection, extra);
    let cpu = sum_if_all_known(subflows.iter().map(|subflow| subflow.cpu));
    Fact::SharedBottleneck(SharedBottleneck {
        subflows: names(connection, group),
        certainty: certainty(found.pairs.iter().filter(is_inside)),
        extra_share: subflows.iter().filter_map(|subflow| subflow.share_sent).reduce(|a, b| a + b),
        extra_energy: extra_cost(connection, extra),
        extra_cpu: cpu.map(|cpu| cpu.total()),
    })
}

fn capped(connection: &Connection, cap: &SharedCap) -> Fact {
    Fact::SharedCap { subflows: names(connection, &cap.subflows), sum: cap.sum, since: cap.since }
}

fn certainty<'a>(pairs: impl Iterator<Item = &'a PairVerdict> + Clone) -> Certainty {
    let distance = |p: &f64| (p - 0.5).abs();
    let since = pairs.clone().filter_map(|pair| pair.since).max();
    let probabilities = pairs.clone().filter_map(|pair| pair.probability);
    let evidence = pairs.filter_map(|pair| pair.evidence);
    let pooled = evidence.filter_map(|evidence| Some((evidence.connections?, evidence.link_rate)));
    Certainty {
        since,
        probability: probabilities.min_by(|a, b| distance(a).total_cmp(&distance(b))),
        pooled: pooled.max(),
    }
}

fn other_pairs(connection: &Connection, found: &Bottlenecks) -> Option<OtherPairs> {
    let pairs: Vec<&PairVerdict> = found.pairs.iter().filter(|pair| !found.is_capped(pair)).collect();
    let with = |verdict| pairs.iter().copied().filter(move |pair| pair.verdict == verdict);
    let count = |verdict| with(verdict).count();
    let bytes = |bytes: Option<Bytes>| bytes.unwrap_or_default().0;
    let known = OtherPairs {
        all: found.pairs.len(),
        separate: count(Verdict::Disjoint),
        certainty: certainty(with(Verdict::Disjoint)),
        not_congested: count(Verdict::NoBottleneck),
        undecided: count(Verdict::Unknown),
        add_throughput: add_throughput(connection),
        mostly_receives: bytes(connection.bytes_received)
            > bytes(connection.bytes_sent).saturating_mul(MOSTLY_RECEIVES),
    };
    let has_news = known.separate + known.undecided > 0 || known.not_congested == known.all;
    Some(known).filter(|_| !pairs.is_empty() && has_news)
}
