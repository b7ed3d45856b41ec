// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a run showed to the single values that are drawn. Pure.

use mpwatch_model::study::detail::{Detail, Series};

use super::run::{Evidence, Observed};

/// More values of a run are not visible in a plot.
const MAX_VALUES: usize = 200;

/// The single values of a run.
pub(crate) fn details(evidence: &Evidence) -> Vec<Detail> {
    let outcome = &evidence.outcome;
    let mut details = Vec::new();
    for (series, values) in [
        (Series::CompletionTimes, &outcome.completion),
        (Series::ShortCompletionTimes, &evidence.short),
        (Series::FlowGoodput, &outcome.rates),
    ] {
        details.extend(thinned(values).map(|value| Detail { series, at_s: None, value }));
    }
    details.extend(rates(&evidence.observed));
    details
}

/// Sorted; of many values, so many at even distances that their distribution stays, the largest included.
fn thinned(values: &[f64]) -> impl Iterator<Item = f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let every = sorted.len().div_ceil(MAX_VALUES).max(1);
    sorted.into_iter().rev().step_by(every)
}

/// The rates of the first two subflows since the traffic started: means over several snapshots if there are many.
fn rates(observed: &Observed) -> Vec<Detail> {
    let since = |at: u64| at.saturating_sub(observed.began.0) as f64 / 1e9;
    let known = observed.samples.iter().filter(|sample| sample.at >= observed.began);
    let known: Vec<(f64, [f64; 2])> = known.filter_map(|one| Some((since(one.at.0), one.rates?))).collect();
    let every = known.len().div_ceil(MAX_VALUES).max(1);
    let subflows = [Series::FirstSubflow, Series::SecondSubflow];
    let means = known.chunks(every).flat_map(|part| {
        let at_s = part.last().map(|(at, _)| *at);
        let mean =
            move |nth: usize| part.iter().map(|(_, rates)| rates[nth]).sum::<f64>() / part.len() as f64;
        [0, 1].map(|nth| Detail { series: subflows[nth], at_s, value: mean(nth) })
    });
    means.collect()
}

#[cfg(test)]
mod tests {
    use mpwatch_model::unit::Nanos;

    use super::super::run::Sample;
    use super::*;

    #[test]
    fn many_values_are_thinned_and_keep_the_largest() {
        let values: Vec<f64> = (1..=1_001).map(f64::from).collect();
        let kept: Vec<f64> = thinned(&values).collect();
        assert!((150..=MAX_VALUES).contains(&kept.len()), "{}", kept.len());
        assert!(kept[0] >= 1_001.0 && kept.iter().sum::<f64>() / kept.len() as f64 > 490.0);
        assert_eq!(thinned(&[2.0, 1.0]).collect::<Vec<_>>(), [2.0, 1.0]);
        assert_eq!(thinned(&[]).count(), 0);
    }

    #[test]
    fn rates_are_means_since_the_start_and_gaps_stay() {
        let sample = |at: u64, rates| Sample { at: Nanos(at), joules: None, rates, judgements: Vec::new() };
        let mut samples = vec![sample(0, Some([9.0, 9.0])), sample(1_500_000_000, None)];
        samples.extend((2..402).map(|at| sample(at * 1_000_000_000, Some([at as f64, 1.0]))));
        let found = rates(&Observed { began: Nanos(1_000_000_000), samples });
        assert_eq!(found.len(), 2 * MAX_VALUES);
        assert_eq!(found[0], Detail { series: Series::FirstSubflow, at_s: Some(2.0), value: 2.5 });
        assert_eq!(found[1], Detail { series: Series::SecondSubflow, at_s: Some(2.0), value: 1.0 });
    }
}
