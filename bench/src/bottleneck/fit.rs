// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the weights of evidence by logistic regression. Weights are not negative: the sign of each term is known. Each cell and each
//! class has the same total weight. No I/O. A developer copies the result to engine/src/bottleneck/odds.rs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::bottleneck::score::Example;

const STEPS: u32 = 4_000;
const LEARNING_RATE: f64 = 1.0;
/// Regularization: shrinks weights that the data does not support.
const RIDGE: f64 = 0.001;

/// The bias, and a weight per term.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    bias: f64,
    terms: Vec<(String, f64)>,
}

/// An example in numerical form.
struct Row {
    terms: Vec<f64>,
    /// 1: shared, 0: disjoint.
    target: f64,
    /// Weight of the example.
    weight: f64,
}

/// Fits weights to the examples of several cells.
pub(crate) fn fit(cells: &[Vec<Example>]) -> Weights {
    let examples = || cells.iter().flatten();
    let names: BTreeSet<&str> = examples().flat_map(|example| example.terms.keys().copied()).collect();
    let rows = rows(cells, &names);
    let (mut bias, mut weights) = (0.0, vec![0.0; names.len()]);
    for _ in 0..STEPS {
        let (mut bias_slope, mut slopes) = (0.0, vec![0.0; weights.len()]);
        for row in &rows {
            let odds: f64 =
                bias + row.terms.iter().zip(&weights).map(|(term, weight)| term * weight).sum::<f64>();
            let error = row.weight * (1.0 / (1.0 + (-odds).exp()) - row.target);
            bias_slope += error;
            for (slope, term) in slopes.iter_mut().zip(&row.terms) {
                *slope += error * term;
            }
        }
        bias -= LEARNING_RATE * bias_slope;
        for (weight, slope) in weights.iter_mut().zip(slopes) {
            *weight = (*weight - LEARNING_RATE * (slope + RIDGE * *weight)).max(0.0);
        }
    }
    Weights { bias, terms: names.into_iter().map(str::to_owned).zip(weights).collect() }
}

fn rows(cells: &[Vec<Example>], names: &BTreeSet<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    for shared in [true, false] {
        let has_class = |cell: &&Vec<Example>| cell.iter().any(|example| example.shared == shared);
        let cells_of_class = cells.iter().filter(has_class).count() as f64;
        for cell in cells {
            let examples: Vec<&Example> = cell.iter().filter(|example| example.shared == shared).collect();
            rows.extend(examples.iter().map(|example| Row {
                terms: names.iter().map(|name| example.terms.get(name).copied().unwrap_or(0.0)).collect(),
                target: f64::from(u8::from(shared)),
                weight: 0.5 / cells_of_class / examples.len() as f64,
            }));
        }
    }
    rows
}

impl Weights {
    /// The weights as text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("BIAS {:.2}\n", self.bias);
        for (name, weight) in &self.terms {
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
            terms: BTreeMap::from([("good", good), ("misleading", bad)]),
            shared,
        };
        let cells = [
            vec![example((0.9, 0.1), true), example((0.7, 0.2), true), example((0.4, 0.1), true)],
            vec![example((0.1, 0.9), false), example((0.5, 0.8), false)],
        ];
        let Weights { terms, .. } = fit(&cells);
        assert!(terms[0].1 > 2.0, "{terms:?}");
        assert_eq!(terms[1], ("misleading".to_owned(), 0.0));
    }
}
