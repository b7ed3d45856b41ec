// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the single values of a run that plots show. No I/O.

use crate::data::detail::{Detail, Series};
use crate::run::{INTERVAL, MachineTrace, RunData, Sample};

/// Maximum number of rates per subflow and run. A plot cannot show more.
const MAX_RATES: usize = 200;
/// Maximum number of connections per run whose values are kept: the first in the order of the traffic report.
const MAX_CONNECTIONS: usize = 10_000;

/// The single values of a run.
pub(crate) fn details(run: &RunData) -> Vec<Detail> {
    let outcome = &run.outcome;
    let mut details = Vec::new();
    for (series, values) in [
        (Series::CompletionTimes, &outcome.completion),
        (Series::ShortCompletionTimes, &run.short),
        (Series::FlowGoodput, &outcome.rates),
    ] {
        let kept = values.iter().take(MAX_CONNECTIONS);
        details.extend(kept.map(|value| Detail { series, at_s: None, value: *value }));
    }
    details.extend(rates(&run.trace, outcome.seconds));
    details
}

/// The rates of the first two subflows in the first `seconds` of the traffic. Each rate may be a mean over several snapshots.
fn rates(trace: &MachineTrace, seconds: f64) -> Vec<Detail> {
    let since = |at: u64| at.saturating_sub(trace.began.0) as f64 / 1e9;
    let during =
        |sample: &&Sample| sample.at >= trace.began && since(sample.at.0) <= seconds + INTERVAL.as_secs_f64();
    let known = trace.samples.iter().filter(during);
    let known: Vec<(f64, [f64; 2])> =
        known.filter_map(|sample| Some((since(sample.at.0), sample.rates?))).collect();
    let every = known.len().div_ceil(MAX_RATES).max(1);
    let subflows = [Series::FirstSubflow, Series::SecondSubflow];
    let means = known.chunks(every).flat_map(|part| {
        let at_s = Some(part.iter().map(|(at, _)| at).sum::<f64>() / part.len() as f64);
        let mean =
            move |nth: usize| part.iter().map(|(_, rates)| rates[nth]).sum::<f64>() / part.len() as f64;
        [0, 1].map(|nth| Detail { series: subflows[nth], at_s, value: mean(nth) })
    });
    means.collect()
}

#[cfg(test)]
mod tests {
    use mpwatch_model::unit::Nanos;

    use super::*;

    #[test]
    fn rates_are_means_from_the_start_to_the_last_byte() {
        let sample = |at: u64, rates| Sample { at: Nanos(at), joules: None, rates, judgements: Vec::new() };
        let mut samples = vec![sample(0, Some([9.0, 9.0])), sample(1_500_000_000, None)];
        samples.extend((2..402).map(|at| sample(at * 1_000_000_000, Some([at as f64, 1.0]))));
        samples.push(sample(500_000_000_000, Some([0.0, 0.0])));
        let found = rates(&MachineTrace { began: Nanos(1_000_000_000), samples }, 400.0);
        assert_eq!(found.len(), 2 * MAX_RATES);
        assert_eq!(found[0], Detail { series: Series::FirstSubflow, at_s: Some(1.5), value: 2.5 });
        assert_eq!(found[1], Detail { series: Series::SecondSubflow, at_s: Some(1.5), value: 1.0 });
    }
}
