// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reported bottlenecks of a connection: which subflows share a bottleneck, and the evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::unit::{BitsPerSecond, Micros};
use crate::words::json_words;

json_words! {
    /// Whether two subflows of a connection share a bottleneck.
    #[derive(Default)]
    pub enum Verdict {
        /// They wait in the same queue: the second one adds no throughput.
        Shared = "shared",
        /// At least one of them is congested, and the other does not pass through that queue.
        Disjoint = "disjoint",
        /// Neither is congested, so a common queue would not show.
        NoBottleneck = "no_bottleneck",
        /// Undecided: not enough samples, or contradictory ones.
        #[default]
        Unknown = "unknown",
    }
}

impl Verdict {
    /// The verdict as the predicate of a sentence about subflows.
    pub fn description(self) -> &'static str {
        match self {
            Self::Shared => "share a bottleneck",
            Self::Disjoint => "have bottlenecks of their own",
            Self::NoBottleneck => "are not congested",
            Self::Unknown => "are undecided",
        }
    }
}

json_words! {
    /// A method to detect shared bottlenecks: mpwatch's own, and published ones to compare it with.
    #[derive(Default)]
    pub enum DetectionMethod {
        /// mpwatch's own: concordance of queueing delays, and competing rates.
        #[default]
        Concordance = "concordance",
        /// Extra subflow elimination of `[MPTCP-D]`; the subflow that sets the reference is kept.
        Ese = "ese",
        /// The same algorithm exactly as printed: the subflow that sets the reference is closed as well.
        EseLiteral = "ese-literal",
        /// RFC 8382: statistics of the delay over 17.5 s.
        Rfc8382 = "rfc8382",
        /// Correlation of delays over 13 s, denoised with wavelets.
        Dcw = "dcw",
        /// Losses on several subflows within one round trip.
        Dwc = "dwc",
    }
}

impl DetectionMethod {
    /// The description of the method in `--help`.
    pub fn description(self) -> &'static str {
        match self {
            Self::Concordance => "mpwatch's own: concordance of queueing delays, and competing rates",
            Self::Ese => "Extra subflow elimination of MPTCP-D; keeps the subflow that sets the reference",
            Self::EseLiteral => "The same, exactly as printed in the paper: closes that subflow as well",
            Self::Rfc8382 => "Statistics of the delay over 17.5 s",
            Self::Dcw => "Correlation of delays over 13 s, denoised with wavelets",
            Self::Dwc => "Losses on several subflows within one round trip",
        }
    }

    /// Whether this is the default method.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The figures behind a verdict, computed from the sender's samples of the last seconds. `null`: could not be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Concordance of the two queueing delays without slow trends: they vary by the same amount in microseconds, not only in proportion. 1 is
    /// one queue, or two that fill in step; 0 is two queues.
    pub queue_concordance: Option<f64>,
    /// The same for variations within some tens of milliseconds.
    pub burst_concordance: Option<f64>,
    /// Part of these variations that is not noise, 0 to 1; the lower value of the two subflows. Near 0 the concordance is meaningless.
    pub queue_signal: Option<f64>,
    /// Partial correlation of the two delivery rates, given the rates of the connection's other subflows. -1: one gains what the other loses, as
    /// behind one bottleneck. Above 0: evidence against a shared bottleneck.
    pub rate_correlation: Option<f64>,
    /// Variance of the sum of the rates over the sum of their variances. Near 0 they divide a constant rate.
    pub sum_variation: Option<f64>,
    /// Coefficient of variation of the delivery rates; the larger value of the two subflows. Near 0 each saturates a link of its own.
    pub rate_variation: Option<f64>,
    /// The smaller coefficient of variation of the two subflows. Near 0 that subflow saturates a link of its own.
    pub least_variation: Option<f64>,
    /// Part of the losses of one subflow that coincide with a loss of the other, beyond chance. `null`: too few losses.
    pub loss_coincidence: Option<f64>,
    /// Part of the time in which `a` had queueing delay.
    pub busy_a: f64,
    /// Part of the time in which `b` had queueing delay.
    pub busy_b: f64,
    /// Part of the time with samples at most 80 ms apart; the lower value of the two subflows.
    pub coverage: f64,
    /// Time over which the figures were computed.
    #[serde(rename = "window_us")]
    pub window: Micros,
    /// Number of connections over the two paths (pairs of addresses) whose rates decided. `null`: this connection's own figures decided.
    pub connections: Option<u32>,
    /// Number of paths whose rates were compared.
    pub pooled_paths: Option<u32>,
    /// Variance of the sum of the rates of two sets of paths over the sum of their variances; each of the two paths is in one of the sets. Near 0
    /// all connections together divide a constant rate; near 1 the sets have links of their own.
    pub conservation_ratio: Option<f64>,
    /// Payload that all traced connections sent over the common link of the two paths. `null`: there is none.
    #[serde(rename = "link_bps")]
    pub link_rate: Option<BitsPerSecond>,
}

/// The verdict on a pair of subflows. It does not depend on their order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairVerdict {
    /// The subflow with the lower id.
    pub a: SubflowId,
    /// The other subflow.
    pub b: SubflowId,
    /// Whether they share a bottleneck.
    pub verdict: Verdict,
    /// Probability that they share a bottleneck, 0 to 1, as computed by the method. `null`: it computes none, or has no samples.
    pub probability: Option<f64>,
    /// Time from the opening of the connection (or the start of tracing) to the verdict. `null` while it is unknown.
    #[serde(rename = "since_us")]
    pub since: Option<Micros>,
    /// The figures behind it. `null`: there were not enough samples.
    pub evidence: Option<Evidence>,
}

/// A rate cap that subflows share without sharing a queue: all are congested, and throughput that one of them gains is lost by the others. Caused by
/// a policer, a shaper with one queue per flow, or a throttled virtual machine `[ICPE19]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedCap {
    /// The subflows that share it.
    pub subflows: Vec<SubflowId>,
    /// Their total rate, payload without headers, over the last seconds that could be compared.
    #[serde(rename = "sum_bps")]
    pub sum: BitsPerSecond,
    /// Time from the opening of the connection (or the start of tracing) to the detection of this cap.
    #[serde(rename = "since_us")]
    pub since: Micros,
    /// Variance of the sum of their rates over the sum of their variances. Near 0 the sum is constant.
    pub sum_variation: f64,
    /// Coefficient of variation of the rate that varies least. A cap can be found only if rates vary.
    pub least_variation: f64,
}

/// The bottlenecks of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottlenecks {
    /// The method that found them.
    pub method: DetectionMethod,
    /// The connection's subflows, grouped by bottleneck. An undecided subflow is a group of its own.
    pub groups: Vec<Vec<SubflowId>>,
    /// The verdict on every pair of subflows. With more than 32 subflows, only pairs of 32 of them: open ones first, then those that ended last.
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
