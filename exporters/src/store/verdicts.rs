// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on bottlenecks in few bytes: a list of subflows by their places in each group, and for each pair its two places, the verdict's
//! number and what it rests on, shares in ten-thousandths. The view v_bottleneck (schema.sql) takes the same apart. Pure.

use mpwatch_model::bottleneck::{Bottlenecks, Evidence, MethodName, PairVerdict, SharedCap, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Micros;
use serde::{Deserialize, Serialize};

use super::writer::json;

/// In the order of their numbers, which the view knows too.
const VERDICTS: [Verdict; 4] = [Verdict::Unknown, Verdict::Shared, Verdict::Disjoint, Verdict::NoBottleneck];
/// Parts of one: shares are whole numbers of these.
const PARTS: f64 = 1e4;

type Share = Option<i64>;

/// A pair: the places of both from 1, the number of the verdict, probability, microseconds until the verdict.
#[derive(Serialize, Deserialize)]
struct Pair(usize, usize, usize, Share, Option<u64>, Option<Rest>);

/// What it rests on, in the order of [`Evidence`].
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Rest(Share, Share, Share, Share, Share, Share, Share, Share, Share, Share, Share, u64);

/// What is not as usual is written down; the rest, and the whole where all is usual, is left out.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Unusual {
    #[serde(default, skip_serializing_if = "MethodName::is_usual")]
    method: MethodName,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared_caps: Vec<SharedCap>,
}

impl Unusual {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize, Deserialize)]
struct Compact(
    Vec<Vec<usize>>,
    Vec<Pair>,
    #[serde(default, skip_serializing_if = "Unusual::is_none")] Unusual,
);

#[allow(clippy::cast_possible_truncation, reason = "an `as` cast saturates")]
fn share(value: Option<f64>) -> Share {
    value.filter(|value| value.is_finite()).map(|value| (value * PARTS).round() as i64)
}

fn value(share: Share) -> Option<f64> {
    share.map(|share| share as f64 / PARTS)
}

/// As text; where a subflow that is in the verdicts is not among those of the connection, in full.
pub(super) fn written(bottlenecks: &Bottlenecks, subflows: &[SubflowId]) -> rusqlite::Result<String> {
    match compact(bottlenecks, subflows) {
        Some(compact) => json(&compact),
        None => json(bottlenecks),
    }
}

fn compact(bottlenecks: &Bottlenecks, subflows: &[SubflowId]) -> Option<Compact> {
    let place = |id: &SubflowId| Some(1 + subflows.iter().position(|one| one == id)?);
    let groups = bottlenecks.groups.iter().map(|group| group.iter().map(place).collect());
    let pairs = bottlenecks.pairs.iter().map(|pair| {
        let verdict = VERDICTS.iter().position(|one| *one == pair.verdict)?;
        let since = pair.since.map(|since| since.0);
        Some(Pair(
            place(&pair.a)?,
            place(&pair.b)?,
            verdict,
            share(pair.probability),
            since,
            pair.evidence.map(rest),
        ))
    });
    let unusual = Unusual { method: bottlenecks.method, shared_caps: bottlenecks.shared_caps.clone() };
    Some(Compact(groups.collect::<Option<_>>()?, pairs.collect::<Option<_>>()?, unusual))
}

fn rest(evidence: Evidence) -> Rest {
    let Evidence {
        queue_concordance,
        burst_concordance,
        queue_signal,
        rate_correlation,
        sum_variation,
        rate_variation,
        least_variation,
        loss_coincidence,
        busy_a,
        busy_b,
        coverage,
        window,
    } = evidence;
    Rest(
        share(queue_concordance),
        share(burst_concordance),
        share(queue_signal),
        share(rate_correlation),
        share(sum_variation),
        share(rate_variation),
        share(least_variation),
        share(loss_coincidence),
        share(Some(busy_a)),
        share(Some(busy_b)),
        share(Some(coverage)),
        window.0,
    )
}

/// From text. `None`: it is damaged.
pub(super) fn read(text: &str, subflows: &[SubflowId]) -> Option<Bottlenecks> {
    if text.starts_with('{') {
        return serde_json::from_str(text).ok();
    }
    let Compact(groups, pairs, Unusual { method, shared_caps }) = serde_json::from_str(text).ok()?;
    let subflow = |place: usize| subflows.get(place.checked_sub(1)?).copied();
    let groups = groups.into_iter().map(|group| group.into_iter().map(subflow).collect());
    let pairs = pairs.into_iter().map(|Pair(a, b, verdict, probability, since, rest)| {
        Some(PairVerdict {
            a: subflow(a)?,
            b: subflow(b)?,
            verdict: *VERDICTS.get(verdict)?,
            probability: value(probability),
            since: since.map(Micros),
            evidence: rest.map(evidence),
        })
    });
    let (groups, pairs) = (groups.collect::<Option<_>>()?, pairs.collect::<Option<_>>()?);
    Some(Bottlenecks { method, groups, pairs, shared_caps })
}

fn evidence(rest: Rest) -> Evidence {
    Evidence {
        queue_concordance: value(rest.0),
        burst_concordance: value(rest.1),
        queue_signal: value(rest.2),
        rate_correlation: value(rest.3),
        sum_variation: value(rest.4),
        rate_variation: value(rest.5),
        least_variation: value(rest.6),
        loss_coincidence: value(rest.7),
        busy_a: value(rest.8).unwrap_or_default(),
        busy_b: value(rest.9).unwrap_or_default(),
        coverage: value(rest.10).unwrap_or_default(),
        window: Micros(rest.11),
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    #[test]
    fn verdicts_come_out_as_they_went_in_to_a_ten_thousandth() {
        let flow = fixture::closed(1);
        let ids: Vec<SubflowId> = flow.subflows.iter().map(|subflow| subflow.id).collect();
        let mut given = flow.bottlenecks.unwrap();
        let text = written(&given, &ids).unwrap();
        assert_eq!(read(&text, &ids), Some(given.clone()));
        given.pairs[0].probability = Some(1.0 / 3.0);
        let rounded = read(&written(&given, &ids).unwrap(), &ids).unwrap();
        assert_eq!(rounded.pairs[0].probability, Some(0.3333));
        for verdict in VERDICTS {
            given.pairs[0] =
                PairVerdict { verdict, evidence: None, since: None, probability: None, ..given.pairs[0] };
            let text = written(&given, &ids).unwrap();
            assert_eq!((read(&text, &ids), text.len() < 50), (Some(given.clone()), true), "{text}");
        }
        given.shared_caps = vec![fixture::bottleneck::cap(&flow.subflows)];
        given.method = MethodName::Rfc8382;
        assert_eq!(read(&written(&given, &ids).unwrap(), &ids), Some(given.clone()));
        let text = written(&given, &ids[..1]).unwrap();
        assert_eq!(read(&text, &ids[..1]), Some(given), "with a subflow that is not there");
        assert_eq!(read("[[[1],[9]],[]]", &ids), None);
    }
}
