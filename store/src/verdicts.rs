// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on bottlenecks in few bytes: a row for each pair, of which the places of its two subflows are the number, with shares in
//! ten-thousandths; and the groups as lists of places, which are a word that many connections have in common. What is not as usual (another
//! method, caps) stands beside the groups. Pure.

use mpwatch_model::bottleneck::{Bottlenecks, DetectionMethod, Evidence, PairVerdict, SharedCap, Verdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Micros;
use serde::{Deserialize, Serialize};

use super::row::{PLACES, VerdictRow, counter, number};
use super::writer::json;

/// In the order of their numbers, which the view knows too.
const VERDICTS: [Verdict; 4] = [Verdict::Unknown, Verdict::Shared, Verdict::Disjoint, Verdict::NoBottleneck];
/// Parts of one: shares are whole numbers of these.
const PARTS: f64 = 1e4;

/// The groups, and what is not as usual where anything is.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Whole {
    Usual(Vec<Vec<usize>>),
    Unusual { groups: Vec<Vec<usize>>, method: DetectionMethod, shared_caps: Vec<SharedCap> },
}

/// Numbers of the verdicts of a connection: from the first, up to the second.
pub(super) fn range(connection: i64) -> [i64; 2] {
    [connection * PLACES * PLACES, (connection + 1) * PLACES * PLACES]
}

#[allow(clippy::cast_possible_truncation, reason = "an `as` cast saturates")]
fn share(value: Option<f64>) -> Option<i64> {
    value.filter(|value| value.is_finite()).map(|value| (value * PARTS).round() as i64)
}

fn value(share: Option<i64>) -> Option<f64> {
    share.map(|share| share as f64 / PARTS)
}

/// Places count from 1. `None`: it is not among those that are stored.
fn place(subflows: &[SubflowId], id: &SubflowId) -> Option<usize> {
    Some(1 + subflows.iter().position(|one| one == id)?)
}

/// All but the verdicts, as text.
pub(super) fn grouped(found: &Bottlenecks, subflows: &[SubflowId]) -> rusqlite::Result<String> {
    let places = |group: &Vec<SubflowId>| -> Vec<usize> {
        group.iter().filter_map(|id| place(subflows, id)).collect()
    };
    let groups = found.groups.iter().map(places).collect();
    let Bottlenecks { method, shared_caps, .. } = found;
    json(&if *method == DetectionMethod::default() && shared_caps.is_empty() {
        Whole::Usual(groups)
    } else {
        Whole::Unusual { groups, method: *method, shared_caps: shared_caps.clone() }
    })
}

/// The rows of a connection's verdicts on those of its subflows that are stored.
pub(super) fn rows(pairs: &[PairVerdict], subflows: &[SubflowId], connection: i64) -> Vec<VerdictRow> {
    let row = |pair: &PairVerdict| {
        let places = [place(subflows, &pair.a)?, place(subflows, &pair.b)?].map(|place| number(place as u64));
        Some(row(pair, range(connection)[0] + places[0] * PLACES + places[1]))
    };
    pairs.iter().filter_map(row).collect()
}

fn row(pair: &PairVerdict, id: i64) -> VerdictRow {
    let PairVerdict { a: _, b: _, verdict, probability, since, evidence } = *pair;
    let rest = evidence.map(|evidence| {
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
        let shares = [
            queue_concordance,
            burst_concordance,
            queue_signal,
            rate_correlation,
            sum_variation,
            rate_variation,
            least_variation,
            loss_coincidence,
            Some(busy_a),
            Some(busy_b),
            Some(coverage),
        ];
        (shares.map(share), number(window.0))
    });
    let of = |nth: usize| rest.and_then(|(shares, _)| shares[nth]);
    VerdictRow {
        id,
        verdict: VERDICTS.iter().position(|one| *one == verdict).map_or(0, |place| number(place as u64)),
        probability: share(probability),
        since_us: since.map(|since| number(since.0)),
        queue_concordance: of(0),
        burst_concordance: of(1),
        queue_signal: of(2),
        rate_correlation: of(3),
        sum_variation: of(4),
        rate_variation: of(5),
        least_variation: of(6),
        loss_coincidence: of(7),
        busy_a: of(8),
        busy_b: of(9),
        coverage: of(10),
        window_us: rest.map(|(_, window)| window),
    }
}

/// Puts them together again, pairs in the order of the subflows. `None`: they are damaged.
pub(super) fn read(grouped: &str, rows: &[VerdictRow], subflows: &[SubflowId]) -> Option<Bottlenecks> {
    let (groups, method, shared_caps) = match serde_json::from_str(grouped).ok()? {
        Whole::Usual(groups) => (groups, DetectionMethod::default(), Vec::new()),
        Whole::Unusual { groups, method, shared_caps } => (groups, method, shared_caps),
    };
    let subflow = |place: usize| subflows.get(place.checked_sub(1)?).copied();
    let groups = groups.into_iter().map(|group| group.into_iter().map(subflow).collect());
    let mut in_order: Vec<&VerdictRow> = rows.iter().collect();
    in_order.sort_by_key(|row| {
        let [a, b] = places(row);
        (a.min(b), a.max(b))
    });
    let pairs = in_order.into_iter().map(|row| {
        let [a, b] = places(row);
        Some(PairVerdict {
            a: subflow(a)?,
            b: subflow(b)?,
            verdict: *VERDICTS.get(usize::try_from(row.verdict).ok()?)?,
            probability: value(row.probability),
            since: row.since_us.map(|since| Micros(counter(since))),
            evidence: evidence(row),
        })
    });
    let (groups, pairs) = (groups.collect::<Option<_>>()?, pairs.collect::<Option<_>>()?);
    Some(Bottlenecks { method, groups, pairs, shared_caps })
}

fn places(row: &VerdictRow) -> [usize; 2] {
    [row.id / PLACES % PLACES, row.id % PLACES].map(|place| usize::try_from(place).unwrap_or_default())
}

fn evidence(row: &VerdictRow) -> Option<Evidence> {
    Some(Evidence {
        queue_concordance: value(row.queue_concordance),
        burst_concordance: value(row.burst_concordance),
        queue_signal: value(row.queue_signal),
        rate_correlation: value(row.rate_correlation),
        sum_variation: value(row.sum_variation),
        rate_variation: value(row.rate_variation),
        least_variation: value(row.least_variation),
        loss_coincidence: value(row.loss_coincidence),
        busy_a: value(row.busy_a).unwrap_or_default(),
        busy_b: value(row.busy_b).unwrap_or_default(),
        coverage: value(row.coverage).unwrap_or_default(),
        window: Micros(counter(row.window_us?)),
    })
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    fn again(given: &Bottlenecks, ids: &[SubflowId]) -> Option<Bottlenecks> {
        read(&grouped(given, ids).unwrap(), &rows(&given.pairs, ids, 7), ids)
    }

    #[test]
    fn verdicts_come_out_as_they_went_in_to_a_ten_thousandth() {
        let flow = fixture::failover(1);
        let ids: Vec<SubflowId> = flow.subflows.iter().map(|subflow| subflow.id).collect();
        let mut given = flow.bottlenecks.unwrap();
        assert_eq!((given.pairs.len(), again(&given, &ids)), (3, Some(given.clone())));
        given.pairs[0].probability = Some(1.0 / 3.0);
        assert_eq!(again(&given, &ids).unwrap().pairs[0].probability, Some(0.3333));
        for verdict in VERDICTS {
            given.pairs[0] =
                PairVerdict { verdict, evidence: None, since: None, probability: None, ..given.pairs[0] };
            assert_eq!(again(&given, &ids), Some(given.clone()));
        }
        // The one with the lower id comes first in its pair, wherever its place is.
        let pair = &mut given.pairs[1];
        (pair.a, pair.b) = (pair.b, pair.a);
        assert_eq!(again(&given, &ids), Some(given.clone()));
        given.shared_caps = vec![fixture::bottleneck::cap(&flow.subflows)];
        given.method = DetectionMethod::Rfc8382;
        assert_eq!(again(&given, &ids), Some(given.clone()));
    }

    #[test]
    fn what_is_on_a_subflow_that_is_not_stored_is_left_out() {
        let flow = fixture::closed(1);
        let ids: Vec<SubflowId> = flow.subflows.iter().map(|subflow| subflow.id).collect();
        let found = again(&flow.bottlenecks.unwrap(), &ids[..1]).unwrap();
        assert_eq!((found.groups, found.pairs.len()), (vec![vec![ids[0]], vec![]], 0));
        assert_eq!(read("[[1],[9]]", &[], &ids), None, "damaged");
    }
}
