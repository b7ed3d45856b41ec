// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights of the terms of evidence: a logistic regression without negative weights (a term has its direction from its reason, not from
//! the data), each cell and each answer counting the same. Pure; what it prints is frozen by hand in agent/src/bottleneck/odds.rs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::score::Example;

const STEPS: u32 = 4_000;
const RATE: f64 = 1.0;
/// Keeps weights small that the data does not ask for.
const RIDGE: f64 = 0.001;

/// What was fitted: the bias, and a weight for each name.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    bias: f64,
    of: Vec<(String, f64)>,
}

/// An example as a row of numbers, and how much it counts.
struct Row {
    terms: Vec<f64>,
    shared: f64,
    counts: f64,
}

/// Weights from the examples of some cells.
pub fn fit(cells: &[Vec<Example>]) -> Weights {
    let examples = || cells.iter().flatten();
    let names: BTreeSet<&String> = examples().flat_map(|example| example.terms.keys()).collect();
    let mut rows = Vec::new();
    for answer in [true, false] {
        let of = |cell: &&Vec<Example>| cell.iter().any(|example| example.shared == answer);
        let alike = cells.iter().filter(of).count() as f64;
        for cell in cells {
            let ours: Vec<&Example> = cell.iter().filter(|example| example.shared == answer).collect();
            rows.extend(ours.iter().map(|example| Row {
                terms: names.iter().map(|name| example.terms.get(*name).copied().unwrap_or(0.0)).collect(),
                shared: f64::from(u8::from(answer)),
                counts: 0.5 / alike / ours.len() as f64,
            }));
        }
    }
    let (mut bias, mut weights) = (0.0, vec![0.0; names.len()]);
    for _ in 0..STEPS {
        let (mut bias_slope, mut slopes) = (0.0, vec![0.0; weights.len()]);
        for row in &rows {
            let odds: f64 =
                bias + row.terms.iter().zip(&weights).map(|(term, weight)| term * weight).sum::<f64>();
            let error = row.counts * (1.0 / (1.0 + (-odds).exp()) - row.shared);
            bias_slope += error;
            for (slope, term) in slopes.iter_mut().zip(&row.terms) {
                *slope += error * term;
            }
        }
        bias -= RATE * bias_slope;
        for (weight, slope) in weights.iter_mut().zip(slopes) {
            *weight = (*weight - RATE * (slope + RIDGE * *weight)).max(0.0);
        }
    }
    Weights { bias, of: names.into_iter().cloned().zip(weights).collect() }
}

impl Weights {
    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("BIAS {:.2}\n", self.bias);
        for (name, weight) in &self.of {
            let _ = writeln!(text, "{name} {weight:.2}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn weights_follow_the_data_and_are_never_negative() {
        let example = |(good, bad): (f64, f64), shared| Example {
            terms: BTreeMap::from([("good".to_owned(), good), ("misleading".to_owned(), bad)]),
            shared,
        };
        let cells = [
            vec![example((0.9, 0.1), true), example((0.7, 0.2), true), example((0.4, 0.1), true)],
            vec![example((0.1, 0.9), false), example((0.5, 0.8), false)],
        ];
        let Weights { of, .. } = fit(&cells);
        assert!(of[0].1 > 2.0, "{of:?}");
        assert_eq!(of[1], ("misleading".to_owned(), 0.0));
    }
}
