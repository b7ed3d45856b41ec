// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows of a connection meet in one bottleneck, as outputs show it, and the evidence that it rests on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubflowId;
use crate::unit::{BitsPerSecond, Micros};

/// What two subflows of a connection have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They wait in the same queue: the second one adds no throughput.
    Shared,
    /// At least one of them is congested, and not where the other one is.
    Disjoint,
    /// Neither is congested: what they would share cannot show.
    NoBottleneck,
    /// Not enough samples, or they contradict each other. Never a guess.
    #[default]
    Unknown,
}

impl Verdict {
    /// For people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Shared => "share a bottleneck",
            Self::Disjoint => "have bottlenecks of their own",
            Self::NoBottleneck => "are not congested",
            Self::Unknown => "cannot be told yet",
        }
    }
}

/// A way to find shared bottlenecks: mpwatch's own, and the published ones to compare it with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DetectionMethod {
    /// mpwatch's own: concordance of queueing delays, and rates that take from one another.
    #[default]
    Concordance,
    /// Extra subflow elimination of `[MPTCP-D]`; who sets the reference stays.
    Ese,
    /// The same as printed in the paper: who sets the reference is closed by it.
    EseLiteral,
    /// RFC 8382: statistics of delay over 17.5 s.
    Rfc8382,
    /// Wavelet-denoised correlation of delays over 13 s.
    Dcw,
    /// Losses of several subflows within a round trip.
    Dwc,
}

impl DetectionMethod {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::Concordance, Self::Ese, Self::EseLiteral, Self::Rfc8382, Self::Dcw, Self::Dwc];

    /// The word for it, on a command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concordance => "concordance",
            Self::Ese => "ese",
            Self::EseLiteral => "ese-literal",
            Self::Rfc8382 => "rfc8382",
            Self::Dcw => "dcw",
            Self::Dwc => "dwc",
        }
    }

    /// What it goes by.
    pub fn description(self) -> &'static str {
        match self {
            Self::Concordance => {
                "mpwatch's own: concordance of queueing delays, and rates that take from one another"
            }
            Self::Ese => "Extra subflow elimination of MPTCP-D; who sets the reference stays",
            Self::EseLiteral => "The same as printed in the paper: who sets the reference is closed by it",
            Self::Rfc8382 => "Statistics of delay over 17.5 s",
            Self::Dcw => "Wavelet-denoised correlation of delays over 13 s",
            Self::Dwc => "Losses of several subflows within a round trip",
        }
    }

    /// The method of this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.as_str() == word)
    }

    /// Whether it is the one that is used where nobody asks for another.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a verdict rests on: figures over the last seconds, from the sender's samples. `null`: could not be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// How far the queueing delays of the two move together in microseconds, not only in proportion, slow trends taken out: 1 is one
    /// queue, or two that are filled in step; 0 is two queues.
    pub queue_concordance: Option<f64>,
    /// The same for what moves within some tens of milliseconds.
    pub burst_concordance: Option<f64>,
    /// How much of these movements is more than noise, 0 to 1, of the one in which it is less: near 0, concordance tells nothing.
    pub queue_signal: Option<f64>,
    /// Correlation of the two delivery rates, as far as those of the connection's other subflows do not explain it: -1 is one wins what
    /// the other loses, as behind one bottleneck; above 0 speaks against it.
    pub rate_correlation: Option<f64>,
    /// Variance of the sum of the rates over the sum of their variances: near 0 they divide a constant rate.
    pub sum_variation: Option<f64>,
    /// Coefficient of variation of the delivery rates, the larger of the two: near 0 each has a saturated link for itself.
    pub rate_variation: Option<f64>,
    /// The smaller of the two: near 0 one of them has a saturated link for itself.
    pub least_variation: Option<f64>,
    /// Part of the losses of one that fell together with a loss of the other, beyond chance. `null`: too few losses.
    pub loss_coincidence: Option<f64>,
    /// Part of the time in which `a` had queueing delay.
    pub busy_a: f64,
    /// Part of the time in which `b` had.
    pub busy_b: f64,
    /// Part of the time for which there are samples no more than 80 ms apart, of the one that has fewer.
    pub coverage: f64,
    /// Time that the figures are taken over.
    #[serde(rename = "window_us")]
    pub window: Micros,
}

/// The verdict on two subflows. It does not depend on the order of the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairVerdict {
    /// One subflow, the one with the lower id.
    pub a: SubflowId,
    /// The other one.
    pub b: SubflowId,
    /// What they have in common.
    pub verdict: Verdict,
    /// Probability that they share a bottleneck, 0 to 1, by the method's own reckoning. `null`: nothing to reckon with.
    pub probability: Option<f64>,
    /// From the opening of the connection (or since it is traced) to the verdict. `null` while it is unknown.
    #[serde(rename = "since_us")]
    pub since: Option<Micros>,
    /// What it rests on. `null`: there were not enough samples.
    pub evidence: Option<Evidence>,
}

/// A rate that some subflows divide although they wait in no common queue: what one of them gets the others lose, while all are congested.
/// A policer does that, a shaper with a queue for each flow, or a throttled virtual machine `[ICPE19]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedCap {
    /// Those that divide it.
    pub subflows: Vec<SubflowId>,
    /// What they get together, payload without headers, over the last seconds that could be compared.
    #[serde(rename = "sum_bps")]
    pub sum: BitsPerSecond,
    /// From the opening of the connection (or since it is traced) to the time at which this was found.
    #[serde(rename = "since_us")]
    pub since: Micros,
    /// Variance of the sum of their rates over the sum of their variances: near 0 the sum is constant.
    pub sum_variation: f64,
    /// Coefficient of variation of the rate that moves least: where nothing moves, a cap does not show.
    pub least_variation: f64,
}

/// What is known of a connection's bottlenecks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottlenecks {
    /// By which method all of this was found.
    #[serde(default)]
    pub method: DetectionMethod,
    /// The connection's subflows, those behind one bottleneck together; one of which nothing is known stands alone.
    pub groups: Vec<Vec<SubflowId>>,
    /// The verdict on each two of them.
    pub pairs: Vec<PairVerdict>,
    /// Caps that subflows share without sharing a queue, which `groups` and `pairs` are about.
    #[serde(default)]
    pub shared_caps: Vec<SharedCap>,
}

impl Bottlenecks {
    /// Whether the two of a pair divide the same cap.
    pub fn is_capped(&self, pair: &PairVerdict) -> bool {
        self.shared_caps.iter().any(|cap| [pair.a, pair.b].iter().all(|id| cap.subflows.contains(id)))
    }

    /// Subflows beyond one a bottleneck `[MPTCP-D]`: they add no throughput and cost energy. `None` while any verdict is unknown
    /// and none has been found, for then there may be some.
    pub fn extra_subflows(&self) -> Option<u32> {
        let extra: usize = self.groups.iter().map(|group| group.len().saturating_sub(1)).sum();
        let is_open = self.pairs.iter().any(|pair| pair.verdict == Verdict::Unknown);
        (extra > 0 || !is_open).then(|| u32::try_from(extra).unwrap_or(u32::MAX))
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
    fn a_method_has_one_word_for_people_and_for_programs() {
        for method in DetectionMethod::ALL {
            assert_eq!(serde_json::to_value(method).unwrap(), method.as_str());
            assert_eq!(DetectionMethod::of(method.as_str()), Some(*method));
        }
        assert_eq!(DetectionMethod::of("guess"), None);
    }

    #[test]
    fn one_subflow_a_bottleneck_is_enough() {
        let groups = vec![vec![id(1), id(2)], vec![id(3)]];
        let apart = [pair(1, 3, Verdict::Disjoint), pair(2, 3, Verdict::Unknown)];
        let pairs = [&[pair(1, 2, Verdict::Shared)], &apart[..]].concat();
        let found = Bottlenecks { groups, pairs, ..Bottlenecks::default() };
        assert_eq!(found.extra_subflows(), Some(1));
    }

    #[test]
    fn no_extra_subflow_is_certain_only_when_every_pair_is() {
        let of = |verdict| {
            let groups = vec![vec![id(1)], vec![id(2)]];
            let pairs = vec![pair(1, 2, verdict)];
            Bottlenecks { groups, pairs, ..Bottlenecks::default() }.extra_subflows()
        };
        assert_eq!([Verdict::Disjoint, Verdict::NoBottleneck].map(of), [Some(0); 2]);
        assert_eq!(of(Verdict::Unknown), None);
    }
}
