// SPDX-License-Identifier: MIT OR Apache-2.0
//! Denoises a row with Daubechies' orthonormal wavelet with four vanishing moments (eight coefficients): decomposes it into approximation and
//! details, level by level, removes details that are not larger than noise, and reconstructs the row. Rows are continued periodically.

/// Coefficients of the scaling function. Orthonormality and the four vanishing moments determine the coefficients up to their order.
const SCALING: [f64; TAPS] = [
    0.230_377_813_308_896_5,
    0.714_846_570_552_915_7,
    0.630_880_767_929_858_9,
    -0.027_983_769_416_859_85,
    -0.187_034_811_719_093_1,
    0.030_841_381_835_560_76,
    0.032_883_011_666_885_2,
    -0.010_597_401_785_069_03,
];
const TAPS: usize = 8;
/// Minimum length of a row that is decomposed further. In a shorter row, the periodic continuation would dominate.
const MIN_LENGTH: usize = 2 * (TAPS - 1);

/// Coefficients of the wavelet: the coefficients of the scaling function in reverse order, with alternating signs.
fn detail(tap: usize) -> f64 {
    let coefficient = SCALING[TAPS - 1 - tap];
    if tap.is_multiple_of(2) { coefficient } else { -coefficient }
}

/// Approximation and detail of a row of even length.
fn decompose(row: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let half = |coefficient: fn(usize) -> f64| {
        let at =
            |index: usize| (0..TAPS).map(|tap| coefficient(tap) * row[(2 * index + tap) % row.len()]).sum();
        (0..row.len() / 2).map(at).collect()
    };
    (half(|tap| SCALING[tap]), half(detail))
}

/// The inverse of [`decompose`].
fn reconstruct(approximation: &[f64], details: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; 2 * approximation.len()];
    let length = row.len();
    for (index, (slow, fast)) in approximation.iter().zip(details).enumerate() {
        for tap in 0..TAPS {
            row[(2 * index + tap) % length] += SCALING[tap] * slow + detail(tap) * fast;
        }
    }
    row
}

/// Denoises a row whose length is a power of two by Donoho's universal threshold: estimates the noise from the median of the finest details and
/// shrinks every detail towards zero by a threshold, a multiple of the noise level that pure noise rarely exceeds.
pub(super) fn denoised(row: &[f64]) -> Vec<f64> {
    if row.len() < MIN_LENGTH {
        return row.to_vec();
    }
    let (_, finest) = decompose(row);
    let mut sizes: Vec<f64> = finest.iter().map(|detail| detail.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let noise = sizes[sizes.len() / 2] / 0.6745;
    shrunk(row, noise * (2.0 * (row.len() as f64).ln()).sqrt())
}

fn shrunk(row: &[f64], threshold: f64) -> Vec<f64> {
    if row.len() < MIN_LENGTH {
        return row.to_vec();
    }
    let (approximation, mut details) = decompose(row);
    for detail in &mut details {
        *detail = detail.signum() * (detail.abs() - threshold).max(0.0);
    }
    reconstruct(&shrunk(&approximation, threshold), &details)
}

#[cfg(test)]
mod tests {
    use mpwatch_lab::random::Random;
    use proptest::prelude::*;

    use super::*;

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Only Daubechies' coefficients, in either order, meet these conditions.
    #[test]
    fn the_coefficients_are_orthonormal_with_four_vanishing_moments() {
        assert!(is_near(SCALING.iter().sum(), f64::sqrt(2.0)));
        for shift in 0..TAPS / 2 {
            let product: f64 = SCALING.iter().zip(&SCALING[2 * shift..]).map(|(a, b)| a * b).sum();
            assert!(is_near(product, if shift == 0 { 1.0 } else { 0.0 }), "shifted by {shift}: {product}");
        }
        for power in 0..4 {
            let moment: f64 = (0..TAPS).map(|tap| detail(tap) * (tap as f64).powi(power)).sum();
            assert!(is_near(moment, 0.0), "moment {power}: {moment}");
        }
    }

    /// The details vanish because of the four vanishing moments. Haar's wavelet, for comparison, has details wherever a row varies.
    #[test]
    fn a_cubic_has_no_details_away_from_its_ends() {
        let row: Vec<f64> = (0..64).map(|x| f64::from(x).powi(3) - 30.0 * f64::from(x).powi(2)).collect();
        let (_, details) = decompose(&row);
        assert!(details[..28].iter().all(|detail| detail.abs() < 1e-6), "{details:?}");
    }

    #[test]
    fn denoising_removes_noise_and_keeps_a_slow_wave() {
        let wave: Vec<f64> =
            (0..128).map(|x| 10.0 * (f64::from(x) * std::f64::consts::TAU / 128.0).sin()).collect();
        let mut random = Random::new(1);
        let row: Vec<f64> = wave.iter().map(|value| value + random.unit() - 0.5).collect();
        let error = |row: &[f64]| row.iter().zip(&wave).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        assert!(error(&denoised(&row)) < error(&row) / 4.0, "{} of {}", error(&denoised(&row)), error(&row));
    }

    proptest! {
        #[test]
        fn a_decomposed_row_can_be_reconstructed(row in prop::collection::vec(-1e3..1e3, 1..65_usize)) {
            let row = [row.clone(), row].concat();
            let (slow, fast) = decompose(&row);
            let again = reconstruct(&slow, &fast);
            prop_assert!(row.iter().zip(&again).all(|(a, b)| is_near(*a, *b)), "{:?} {:?}", row, again);
            let energy = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>();
            prop_assert!((energy(&row) - energy(&slow) - energy(&fast)).abs() <= 1e-9 * energy(&row).max(1.0));
        }

        #[test]
        fn a_threshold_of_zero_changes_nothing(row in prop::collection::vec(-1e3..1e3, 128)) {
            prop_assert!(row.iter().zip(shrunk(&row, 0.0)).all(|(a, b)| is_near(*a, b)));
        }
    }
}
