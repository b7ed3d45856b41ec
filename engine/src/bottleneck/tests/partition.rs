// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated paths are divided into links by their rates.

use crate::bottleneck::pool::partition::compare;

/// Rates that vary without a pattern, -1 to 1.
fn noise(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 30) - 1.0
    })
}

/// Links with some paths each. The paths of a link divide its rate.
fn links(sizes: &[usize]) -> (Vec<usize>, Vec<Vec<f64>>) {
    let (mut link_of, mut rows) = (Vec::new(), Vec::new());
    for (link, size) in sizes.iter().enumerate() {
        let seeds = (link as u64 + 1) * 100;
        let mut parts: Vec<Vec<f64>> = (0..*size as u64)
            .map(|path| noise(seeds + path).take(40).map(|noise| 100.0 + 30.0 * noise).collect())
            .collect();
        for step in 0..40 {
            let sum: f64 = parts.iter().map(|part| part[step]).sum();
            let granularity = 1.0 + 0.01 * noise(seeds + 99).nth(step).unwrap();
            for part in &mut parts {
                part[step] *= 1_000.0 * granularity / sum;
            }
        }
        link_of.extend(vec![link; *size]);
        rows.extend(parts);
    }
    (link_of, rows)
}

#[test]
fn paths_are_divided_into_their_links() {
    for sizes in [&[2][..], &[1, 1], &[2, 2], &[4, 4], &[1, 3, 2], &[5], &[8, 8], &[3, 1, 1, 1]] {
        let (link_of, rows) = links(sizes);
        let pairs = compare(&rows);
        assert_eq!(pairs.len(), rows.len() * (rows.len() - 1) / 2, "{sizes:?}");
        for pair in pairs {
            let (a, b) = pair.rows;
            assert_eq!(pair.rate.is_some(), link_of[a] == link_of[b], "{sizes:?} {pair:?}");
            assert!(pair.variation < 0.02, "{sizes:?} {pair:?}");
        }
    }
}

#[test]
fn paths_without_a_constant_sum_are_not_a_link() {
    let rows: Vec<Vec<f64>> =
        (1..4).map(|seed| noise(seed * 77).take(40).map(|noise| 100.0 + 50.0 * noise).collect()).collect();
    assert!(compare(&rows).iter().all(|pair| pair.variation > 0.1), "{:?}", compare(&rows));
}

#[test]
fn nothing_delivered_does_not_divide_by_zero() {
    let pairs = compare(&[vec![0.0; 40], vec![0.0; 40]]);
    assert!(pairs.iter().all(|pair| pair.rate.is_none() && pair.variation.is_infinite()), "{pairs:?}");
    assert!(compare(&[]).is_empty());
}
