// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log-odds that two congested subflows share a bottleneck: a weighted sum of terms, positive where the evidence supports sharing. The
//! weights, from a logistic regression on training runs (docs/bottleneck.md), are multiplied by `EVALUATIONS`.

use mpwatch_model::flow::bottleneck::Evidence;

/// One term of the sum.
pub struct Term {
    /// Name in the tables that the bench prints.
    pub name: &'static str,
    weight: f64,
    /// Computes the value of the term, without its weight.
    pub value: fn(&Evidence) -> f64,
}

/// The regression is on single evaluations. A verdict needs several evaluations that agree, so each weight is multiplied by this.
#[cfg(test)]
const EVALUATIONS: f64 = 1.8;

/// Log-odds if all terms are 0 and [`absence`] is 1.
const BIAS: f64 = -2.6;

/// All terms, in the order in which the bench prints them.
pub const TERMS: [Term; 9] = [
    Term { name: "concordance", weight: 5.6, value: queue_concordance },
    Term { name: "high concordance", weight: 4.6, value: high_concordance },
    Term { name: "discordance", weight: 4.1, value: discordance },
    Term { name: "competing rates", weight: 7.0, value: competing_rates },
    Term { name: "rising together", weight: 6.8, value: rates_rise_together },
    Term { name: "steady rate", weight: 5.0, value: steady_rate },
    Term { name: "varying rates", weight: 3.1, value: varying_rates },
    Term { name: "bursts", weight: 5.0, value: bursts },
    Term { name: "losses", weight: 2.2, value: coinciding_losses },
];

/// Log-odds that two congested subflows share a bottleneck.
pub(super) fn log_odds(evidence: &Evidence) -> f64 {
    BIAS * absence(evidence) + TERMS.iter().map(|term| term.weight * (term.value)(evidence)).sum::<f64>()
}

/// Weight of [`BIAS`], which stands for absent evidence: 1 or, without rates, the fraction of the variation of delays that is not noise.
fn absence(evidence: &Evidence) -> f64 {
    if evidence.rate_variation.is_some() { 1.0 } else { evidence.queue_signal.unwrap_or(0.0) }
}

/// Weight of similar delays, 0 to 1. Subflows that share a link disturb each other's rates within a second or two. If both rates are steady, each
/// subflow has a link of its own, and the delays are similar because equal links fill and drain in step.
fn credit(evidence: &Evidence) -> f64 {
    const STEADY: f64 = 0.015;
    const DISTURBED: f64 = 0.035;
    evidence
        .rate_variation
        .map_or(1.0, |variation| ((variation - STEADY) / (DISTURBED - STEADY)).clamp(0.0, 1.0))
}

/// Queueing delays of subflows in one queue are equal.
fn queue_concordance(evidence: &Evidence) -> f64 {
    evidence.queue_concordance.map_or(0.0, |concordance| concordance.max(0.0) * credit(evidence))
}

/// Delays of two queues may be similar for a while, but rarely as similar as two measurements of one queue.
fn high_concordance(evidence: &Evidence) -> f64 {
    const HIGH: f64 = 0.75;
    evidence
        .queue_concordance
        .map_or(0.0, |concordance| (concordance - HIGH).max(0.0) / (1.0 - HIGH) * credit(evidence))
}

/// Delays that clearly vary, but not together, belong to two queues.
fn discordance(evidence: &Evidence) -> f64 {
    const LOW: f64 = 0.5;
    let signal = evidence.queue_signal.unwrap_or(0.0);
    evidence.queue_concordance.map_or(0.0, |concordance| -(LOW - concordance).max(0.0) * signal)
}

/// In a shared queue, a subflow gains what the other loses. A constant application rate makes subflows compete without a queue.
fn competing_rates(evidence: &Evidence) -> f64 {
    const BUSY: f64 = 0.2;
    let correlation = evidence.rate_correlation.unwrap_or(0.0);
    if evidence.busy_a.min(evidence.busy_b) < BUSY { 0.0 } else { (-correlation).max(0.0) }
}

/// Without cross traffic, competing rates do not rise and fall together. This term uses only the two rates of the pair, because partial
/// correlations are small if the rates of all subflows rise together.
fn rates_rise_together(evidence: &Evidence) -> f64 {
    -evidence.sum_variation.map_or(0.0, |variation| (variation - 1.0).max(0.0))
}

/// A subflow that shares a link has no steady rate.
fn steady_rate(evidence: &Evidence) -> f64 {
    const STEADY: f64 = 0.02;
    const DISTURBED: f64 = 0.08;
    let steadiness = |variation: f64| ((DISTURBED - variation) / (DISTURBED - STEADY)).clamp(0.0, 1.0);
    -evidence.least_variation.map_or(0.0, steadiness)
}

/// The more subflows share a link, the more their rates vary.
fn varying_rates(evidence: &Evidence) -> f64 {
    const LOW: f64 = 0.08;
    const HIGH: f64 = 0.4;
    let scaled = |variation: f64| (variation.max(LOW) / LOW).ln() / (HIGH / LOW).ln();
    evidence.least_variation.map_or(0.0, |variation| scaled(variation).min(1.0))
}

/// Bursts are short, so bursts on separate links rarely coincide by chance.
fn bursts(evidence: &Evidence) -> f64 {
    const BY_CHANCE: f64 = 0.3;
    evidence.burst_concordance.map_or(0.0, |concordance| {
        let excess = concordance - BY_CHANCE;
        if excess > 0.0 { excess * credit(evidence) } else { excess * absence(evidence) }
    })
}

/// A queue that overflows drops packets of all its subflows; but equal links may overflow at the same time as well.
fn coinciding_losses(evidence: &Evidence) -> f64 {
    evidence.loss_coincidence.unwrap_or(0.0) * credit(evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_is_zero_without_evidence() {
        let nothing = Evidence::default();
        assert!(TERMS.iter().all(|term| (term.value)(&nothing).abs() < f64::EPSILON));
    }

    /// Weights from the regression on the training runs.
    const FITTED: [f64; 9] = [3.12, 2.53, 2.25, 3.90, 3.77, 2.80, 1.71, 2.75, 1.21];

    #[test]
    fn weights_are_the_rounded_weights_of_the_regression() {
        let fitted = FITTED.map(|weight: f64| (weight * EVALUATIONS * 10.0).round() / 10.0);
        let is_equal = |(term, fitted): (&Term, f64)| (term.weight - fitted).abs() < 1e-9;
        assert!(TERMS.iter().zip(fitted).all(is_equal), "{fitted:?}");
    }
}
