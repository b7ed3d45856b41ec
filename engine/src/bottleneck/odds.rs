// SPDX-License-Identifier: MIT OR Apache-2.0
//! From evidence to the log-odds that two congested subflows share a bottleneck: a sum of terms, each with a reason that can be told.
//! A term is above 0 where the evidence speaks for sharing and below where it speaks against it; its weight is never negative. The
//! weights are those of a logistic regression on training runs (docs/bottleneck.md tells the command), times `LOOKS`, and are frozen here.

use mpwatch_model::bottleneck::Evidence;

/// What speaks, and how loud.
pub struct Term {
    /// For people, and for the table that the regression prints.
    pub name: &'static str,
    weight: f64,
    /// Of the evidence.
    pub of: fn(&Evidence) -> f64,
}

/// The regression weighs single looks; a verdict rests on several that agree, so each weighs this much more than it found.
#[cfg(test)]
const LOOKS: f64 = 1.8;

/// Log-odds without any evidence.
const BIAS: f64 = -2.6;

/// All terms.
pub const TERMS: [Term; 9] = [
    Term { name: "alike", weight: 5.6, of: alike },
    Term { name: "very alike", weight: 4.6, of: very_alike },
    Term { name: "unlike", weight: 4.1, of: unlike },
    Term { name: "takes away", weight: 7.0, of: takes_away },
    Term { name: "rise together", weight: 6.8, of: rise_together },
    Term { name: "one steady", weight: 5.0, of: one_steady },
    Term { name: "pushed", weight: 3.1, of: pushed },
    Term { name: "bursts", weight: 5.0, of: bursts },
    Term { name: "losses", weight: 2.2, of: losses },
];

/// Log-odds that two congested subflows share a bottleneck.
pub(super) fn log_odds(evidence: &Evidence) -> f64 {
    BIAS * told(evidence) + TERMS.iter().map(|term| term.weight * (term.of)(evidence)).sum::<f64>()
}

/// How much it means that nothing is seen. Where rates are too coarse to tell anything, only as much as delays are no noise.
fn told(evidence: &Evidence) -> f64 {
    if evidence.rate_variation.is_some() { 1.0 } else { evidence.queue_signal.unwrap_or(0.0) }
}

/// How much likeness counts. Two who share a link push each other about, within a second or two. Where neither is pushed, each has a link
/// for itself, and equal links that fill and drain in step look exactly alike.
fn credit(evidence: &Evidence) -> f64 {
    const UNMOVED: f64 = 0.015;
    const MOVED: f64 = 0.035;
    evidence.rate_variation.map_or(1.0, |most| ((most - UNMOVED) / (MOVED - UNMOVED)).clamp(0.0, 1.0))
}

/// One queue is one process: delays move together in microseconds.
fn alike(evidence: &Evidence) -> f64 {
    evidence.queue_concordance.map_or(0.0, |alike| alike.max(0.0) * credit(evidence))
}

/// Two queues may look alike for a while; hardly as much as one queue looks like itself.
fn very_alike(evidence: &Evidence) -> f64 {
    const VERY: f64 = 0.75;
    evidence.queue_concordance.map_or(0.0, |alike| (alike - VERY).max(0.0) / (1.0 - VERY) * credit(evidence))
}

/// Delays that clearly move, and not together, are those of two queues.
fn unlike(evidence: &Evidence) -> f64 {
    const LITTLE: f64 = 0.5;
    let signal = evidence.queue_signal.unwrap_or(0.0);
    evidence.queue_concordance.map_or(0.0, |alike| -(LITTLE - alike).max(0.0) * signal)
}

/// What one gets the other one loses, while both wait: they divide something. An application that sends at a constant rate divides
/// that between its paths as well; but then no queue stands.
fn takes_away(evidence: &Evidence) -> f64 {
    const BUSY: f64 = 0.2;
    let correlation = evidence.rate_correlation.unwrap_or(0.0);
    if evidence.busy_a.min(evidence.busy_b) < BUSY { 0.0 } else { (-correlation).max(0.0) }
}

/// Those that divide something do not rise and fall together, unless other traffic makes them. By the two alone: where all subflows rise
/// together, each explains the others.
fn rise_together(evidence: &Evidence) -> f64 {
    -evidence.sum_variation.map_or(0.0, |variation| (variation - 1.0).max(0.0))
}

/// Whoever shares a link is pushed about by the other one.
fn one_steady(evidence: &Evidence) -> f64 {
    const STEADY: f64 = 0.02;
    const PUSHED: f64 = 0.08;
    let steadiness = |variation: f64| ((PUSHED - variation) / (PUSHED - STEADY)).clamp(0.0, 1.0);
    -evidence.least_variation.map_or(0.0, steadiness)
}

/// And the more there are, the wider its rate swings.
fn pushed(evidence: &Evidence) -> f64 {
    const A_LITTLE: f64 = 0.08;
    const MUCH: f64 = 0.4;
    let swing = |variation: f64| (variation.max(A_LITTLE) / A_LITTLE).ln() / (MUCH / A_LITTLE).ln();
    evidence.least_variation.map_or(0.0, |variation| swing(variation).min(1.0))
}

/// Bursts are too short for two senders to be in step about them.
fn bursts(evidence: &Evidence) -> f64 {
    const USUAL: f64 = 0.3;
    evidence.burst_concordance.map_or(0.0, |alike| {
        let speaks = alike - USUAL;
        if speaks > 0.0 { speaks * credit(evidence) } else { speaks * told(evidence) }
    })
}

/// A queue that overflows drops packets of all who are in it; but equal links overflow at the same time as well.
fn losses(evidence: &Evidence) -> f64 {
    evidence.loss_coincidence.unwrap_or(0.0) * credit(evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_says_nothing_where_nothing_is_known() {
        let nothing = Evidence::default();
        assert!(TERMS.iter().all(|term| (term.of)(&nothing).abs() < f64::EPSILON));
    }

    /// What the regression found on the training runs, times the looks that agree: the frozen weights are these, rounded.
    #[test]
    fn weights_are_those_of_the_regression() {
        let found = FITTED.map(|weight: f64| (weight * LOOKS * 10.0).round() / 10.0);
        assert!(TERMS.iter().zip(found).all(|(term, found)| (term.weight - found).abs() < 1e-9), "{found:?}");
    }

    const FITTED: [f64; 9] = [3.12, 2.53, 2.25, 3.90, 3.77, 2.80, 1.71, 2.75, 1.21];
}
