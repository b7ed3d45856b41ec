// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reported bottlenecks of a connection: which subflows share a bottleneck, and the evidence.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::unit::{BitsPerSecond, Micros};
use crate::words::json_words;

json_words! {
    /// Whether two subflows of a connection share a bottleneck.
    #[derive(Default)]
    pub enum Verdict {
        /// Both subflows wait in the same queue, so the second subflow adds no throughput.
        Shared = "shared" => "share a bottleneck",
        /// At least one subflow is congested, and the other does not pass through the same queue.
        Disjoint = "disjoint" => "have bottlenecks of their own",
        /// Neither subflow is congested, so a common queue could not be detected.
        NoBottleneck = "no_bottleneck" => "are not congested",
        /// Undecided: there are too few samples, or the samples contradict each other.
        #[default]
        Unknown = "unknown" => "are undecided",
    }
}

json_words! {
    /// A method that detects shared bottlenecks: the method of mpwatch, or a published method for comparison.
    #[derive(Default)]
    pub enum DetectionMethod {
        /// The method of mpwatch: concordance of queueing delays, and competing rates.
        #[default]
        Concordance = "concordance" => "The method of mpwatch: concordance of queueing delays, and competing rates",
        /// Extra subflow elimination of `[MPTCP-D]`, which keeps the subflow whose RTT is the reference.
        Ese = "ese" => "Extra subflow elimination of MPTCP-D; keeps the subflow whose RTT is the reference",
        /// Extra subflow elimination exactly as printed, which closes the reference subflow as well.
        EseLiteral = "ese-literal" => "Extra subflow elimination as printed; closes the reference subflow as well",
        /// RFC 8382: statistics of the delay over 17.5 s.
        Rfc8382 = "rfc8382" => "Statistics of the delay over 17.5 s",
        /// Correlation of delays over 13 s, denoised with wavelets.
        Dcw = "dcw" => "Correlation of delays over 13 s, denoised with wavelets",
        /// Coincidence of losses on several subflows within one round trip.
        Dwc = "dwc" => "Coincidence of losses on several subflows within one round trip",
    }
}

impl DetectionMethod {
    /// Whether this is the default method.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The figures behind a verdict, computed from the sender's samples of the last seconds. `null`: the figure could not be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Concordance of the two queueing delays without slow trends: 1 if both vary by the same amount in microseconds (one queue, or two queues
    /// that fill in step), 0 for two queues.
    pub queue_concordance: Option<f64>,
    /// Concordance of the two queueing delays, only for variations within 40 ms.
    pub burst_concordance: Option<f64>,
    /// Part of the delay variations that is not noise, 0 to 1; the lower value of the two subflows. Near 0, the concordance is meaningless.
    pub queue_signal: Option<f64>,
    /// Partial correlation of the two delivery rates, given the rates of the connection's other subflows, -1 to 1. -1: one subflow gains the rate
    /// that the other loses, as behind one bottleneck. Above 0: evidence against a shared bottleneck.
    pub rate_correlation: Option<f64>,
    /// Variance of the sum of the two delivery rates, divided by the sum of their variances. Near 0, the subflows divide a constant rate.
    pub sum_variation: Option<f64>,
    /// The larger coefficient of variation of the two delivery rates. Near 0, each subflow saturates a link of its own.
    pub rate_variation: Option<f64>,
    /// The smaller coefficient of variation of the two delivery rates. Near 0, that subflow saturates a link of its own.
    pub least_variation: Option<f64>,
    /// Part of the losses of one subflow that coincide with a loss of the other, in excess of chance, at most 1. `null`: too few losses.
    pub loss_coincidence: Option<f64>,
    /// Part of the time in which subflow `a` had queueing delay, 0 to 1.
    pub busy_a: f64,
    /// Part of the time in which subflow `b` had queueing delay, 0 to 1.
    pub busy_b: f64,
    /// Part of the time in which samples were at most 80 ms apart, 0 to 1; the lower value of the two subflows.
    pub coverage: f64,
    /// Length of the time over which the figures were computed.
    #[serde(rename = "window_us")]
    pub window: Micros,
    /// Number of connections over the two paths (pairs of addresses) from whose rates the verdict was derived. `null`: only this connection.
    pub connections: Option<u32>,
    /// Number of paths whose rates were compared.
    pub pooled_paths: Option<u32>,
    /// Variance of the sum of the rates of two sets of paths over the sum of their variances. Near 0 all connections together divide a constant rate;
    /// near 1 the sets have links of their own.
    pub conservation_ratio: Option<f64>,
    /// Payload rate of all traced connections over the common link of the two paths. `null`: the paths have no common link.
    #[serde(rename = "link_bps")]
    pub link_rate: Option<BitsPerSecond>,
}

/// The verdict on a pair of subflows. The verdict does not depend on the order of the subflows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairVerdict {
    /// The subflow with the lower id.
    pub a: SubflowId,
    /// The subflow with the higher id.
    pub b: SubflowId,
    /// Whether the two subflows share a bottleneck.
    pub verdict: Verdict,
    /// Probability that the two subflows share a bottleneck, 0 to 1. `null`: the method computes no probability, or has no samples.
    pub probability: Option<f64>,
    /// Time from the opening of the connection (or the start of tracing) to the verdict. `null`: the verdict is `unknown`.
    #[serde(rename = "since_us")]
    pub since: Option<Micros>,
    /// The figures behind the verdict. `null`: the method computes none, or there were too few samples.
    pub evidence: Option<Evidence>,
}

/// A rate cap that subflows share without sharing a queue: the paths of these subflows have different queueing delays, and the
/// rate that one path gains is lost by the others. Causes: a policer, a shaper with one queue per flow, or a throttled virtual machine `[ICPE19]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedCap {
    /// The subflows that share the cap.
    pub subflows: Vec<SubflowId>,
    /// Total rate of all traced connections over the paths of these subflows, payload without headers.
    #[serde(rename = "sum_bps")]
    pub sum: BitsPerSecond,
    /// Time from the opening of the connection (or the start of tracing) to the detection of this cap.
    #[serde(rename = "since_us")]
    pub since: Micros,
    /// Variance of the sum of the rates of these paths, divided by the sum of their variances. Near 0, the sum is constant.
    pub sum_variation: f64,
}

/// The bottlenecks of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottlenecks {
    /// The method that detected the bottlenecks.
    pub method: DetectionMethod,
    /// The subflows of the connection, grouped by bottleneck. A subflow without a `shared` verdict is a group of its own.
    pub groups: Vec<Vec<SubflowId>>,
    /// The verdict on every pair of subflows. With more than 32 subflows, only pairs of 32 of them: open subflows first, then the latest to end.
    pub pairs: Vec<PairVerdict>,
    /// Rate caps that subflows share without sharing a queue. `groups` and `pairs` do not include them.
    pub shared_caps: Vec<SharedCap>,
}

impl Bottlenecks {
    /// Whether both subflows of a pair share a cap.
    pub fn is_capped(&self, pair: &PairVerdict) -> bool {
        self.shared_caps.iter().any(|cap| [pair.a, pair.b].iter().all(|id| cap.subflows.contains(id)))
    }

    /// Number of subflows beyond one per bottleneck `[MPTCP-D]`: they add no throughput. `None`: none was found, but a verdict is unknown.
    pub fn extra_subflows(&self) -> Option<u32> {
        let extra: usize = self.groups.iter().map(|group| group.len().saturating_sub(1)).sum();
        let is_undecided = self.pairs.iter().any(|pair| pair.verdict == Verdict::Unknown);
        (extra > 0 || !is_undecided).then(|| u32::try_from(extra).unwrap_or(u32::MAX))
    }
}

/// Minimum mean probability of sharing between two groups that are merged.
const MIN_LINKAGE: f64 = 0.8;

/// Partitions the subflows by average linkage, given the verdict and probability of pairs. Two groups are merged if a pair between them is
/// `Shared`, no pair is `Disjoint` or `NoBottleneck`, and the mean probability is high, so that one wrong verdict does not join two bottlenecks.
/// The result is in the order of `subflows`.
pub fn groups(
    subflows: &[SubflowId],
    pairs: impl Iterator<Item = (SubflowId, SubflowId, Verdict, Option<f64>)>,
) -> Vec<Vec<SubflowId>> {
    let by_ids: ByIds = pairs.map(|(a, b, verdict, p)| ((a.min(b), a.max(b)), (verdict, p))).collect();
    if !by_ids.values().any(|(verdict, _)| *verdict == Verdict::Shared) {
        return subflows.iter().map(|subflow| vec![*subflow]).collect();
    }
    // Sorted by id, so that ties do not depend on the order of `subflows`.
    let mut sorted = subflows.to_vec();
    sorted.sort_unstable();
    let mut groups: Vec<Vec<SubflowId>> = sorted.into_iter().map(|subflow| vec![subflow]).collect();
    while let Some((into, from)) = closest(&groups, &by_ids) {
        let moved = groups.remove(from);
        groups[into].extend(moved);
    }
    let position = |subflow: &SubflowId| subflows.iter().position(|other| other == subflow);
    for group in &mut groups {
        group.sort_by_key(position);
    }
    groups.sort_by_key(|group| group.first().and_then(position));
    groups
}

/// The verdict and probability of pairs, by the ids of their subflows, the lower id first.
type ByIds = BTreeMap<(SubflowId, SubflowId), (Verdict, Option<f64>)>;

/// Indices of the two groups with the highest linkage, the lower index first. `None`: no two groups can be merged.
fn closest(groups: &[Vec<SubflowId>], by_ids: &ByIds) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (into, group) in groups.iter().enumerate() {
        for (from, other) in groups.iter().enumerate().skip(into + 1) {
            if let Some(linkage) = linkage(group, other, by_ids)
                && best.is_none_or(|(highest, ..)| linkage > highest)
            {
                best = Some((linkage, into, from));
            }
        }
    }
    best.map(|(_, into, from)| (into, from))
}

/// Mean probability of sharing between two groups. `None`: they must not be merged.
fn linkage(group: &[SubflowId], other: &[SubflowId], by_ids: &ByIds) -> Option<f64> {
    let (mut sum, mut count, mut shared) = (0.0, 0.0, false);
    let pairs = group.iter().flat_map(|a| other.iter().filter_map(|b| by_ids.get(&(*a.min(b), *a.max(b)))));
    for (verdict, probability) in pairs.copied() {
        let probability = match verdict {
            Verdict::Disjoint | Verdict::NoBottleneck => return None,
            Verdict::Shared => probability.or(Some(1.0)),
            Verdict::Unknown => probability,
        };
        shared |= verdict == Verdict::Shared;
        sum += probability.unwrap_or(0.0);
        count += f64::from(u8::from(probability.is_some()));
    }
    let linkage = sum / count;
    (shared && linkage > MIN_LINKAGE).then_some(linkage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SocketCookie;

    fn id(number: u64) -> SubflowId {
        SubflowId { cookie: SocketCookie(number), generation: 0 }
    }

    fn pair(a: u64, b: u64, verdict: Verdict) -> PairVerdict {
        PairVerdict { a: id(a), b: id(b), verdict, probability: None, since: None, evidence: None }
    }

    #[test]
    fn all_but_one_subflow_of_a_group_are_extra() {
        let groups = vec![vec![id(1), id(2)], vec![id(3)]];
        let apart = [pair(1, 3, Verdict::Disjoint), pair(2, 3, Verdict::Unknown)];
        let pairs = [&[pair(1, 2, Verdict::Shared)], &apart[..]].concat();
        let found = Bottlenecks { groups, pairs, ..Bottlenecks::default() };
        assert_eq!(found.extra_subflows(), Some(1));
    }

    #[test]
    fn extra_subflows_are_known_to_be_none_only_if_every_pair_is_decided() {
        let of = |verdict| {
            let groups = vec![vec![id(1)], vec![id(2)]];
            let pairs = vec![pair(1, 2, verdict)];
            Bottlenecks { groups, pairs, ..Bottlenecks::default() }.extra_subflows()
        };
        assert_eq!([Verdict::Disjoint, Verdict::NoBottleneck].map(of), [Some(0); 2]);
        assert_eq!(of(Verdict::Unknown), None);
    }
}
