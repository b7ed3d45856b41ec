// SPDX-License-Identifier: MIT OR Apache-2.0
//! Denoising by Daubechies' orthonormal wavelet with four vanishing moments (eight coefficients): a row is taken apart into ever slower
//! halves, what is no larger than noise is shrunk away, and the rest is put together again. Rows are continued as if they were periodic.

/// Of the scaling function. They are fixed, up to their order, by being orthonormal and by the four moments that vanish.
const SMOOTH: [f64; TAPS] = [
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
/// A row shorter than this is not taken apart further: it would mostly meet its own other end.
const SHORTEST: usize = 2 * (TAPS - 1);

/// The coefficient of the wavelet itself: those of the scaling function backwards, with every second sign changed.
fn detail(tap: usize) -> f64 {
    let coefficient = SMOOTH[TAPS - 1 - tap];
    if tap.is_multiple_of(2) { coefficient } else { -coefficient }
}

/// The slow half and the fast half of a row of even length.
fn split(row: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let half = |coefficient: fn(usize) -> f64| {
        let at =
            |place: usize| (0..TAPS).map(|tap| coefficient(tap) * row[(2 * place + tap) % row.len()]).sum();
        (0..row.len() / 2).map(at).collect()
    };
    (half(|tap| SMOOTH[tap]), half(detail))
}

/// The row that has these halves.
fn join(slow: &[f64], fast: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; 2 * slow.len()];
    let length = row.len();
    for (place, (slow, fast)) in slow.iter().zip(fast).enumerate() {
        for tap in 0..TAPS {
            row[(2 * place + tap) % length] += SMOOTH[tap] * slow + detail(tap) * fast;
        }
    }
    row
}

/// A row whose length is a power of two, without what is noise by Donoho's universal threshold: its size is estimated from the median
/// of the fastest details, and every detail is moved towards zero by so many of it that noise alone hardly leaves any.
pub(super) fn denoised(row: &[f64]) -> Vec<f64> {
    if row.len() < SHORTEST {
        return row.to_vec();
    }
    let (_, fastest) = split(row);
    let mut sizes: Vec<f64> = fastest.iter().map(|detail| detail.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let noise = sizes[sizes.len() / 2] / 0.6745;
    shrunk(row, noise * (2.0 * (row.len() as f64).ln()).sqrt())
}

fn shrunk(row: &[f64], threshold: f64) -> Vec<f64> {
    if row.len() < SHORTEST {
        return row.to_vec();
    }
    let (slow, mut fast) = split(row);
    for detail in &mut fast {
        *detail = detail.signum() * (detail.abs() - threshold).max(0.0);
    }
    join(&shrunk(&slow, threshold), &fast)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// These conditions leave no other coefficients than Daubechies', but for their order.
    #[test]
    fn the_coefficients_are_orthonormal_and_four_moments_vanish() {
        assert!(is_near(SMOOTH.iter().sum(), f64::sqrt(2.0)));
        for shift in 0..TAPS / 2 {
            let product: f64 = SMOOTH.iter().zip(&SMOOTH[2 * shift..]).map(|(a, b)| a * b).sum();
            assert!(is_near(product, if shift == 0 { 1.0 } else { 0.0 }), "shifted by {shift}: {product}");
        }
        for power in 0..4 {
            let moment: f64 = (0..TAPS).map(|tap| detail(tap) * (tap as f64).powi(power)).sum();
            assert!(is_near(moment, 0.0), "moment {power}: {moment}");
        }
    }

    /// What four vanishing moments are for; Haar's wavelet has details wherever anything moves.
    #[test]
    fn a_cubic_has_no_details_away_from_its_ends() {
        let row: Vec<f64> = (0..64).map(|x| f64::from(x).powi(3) - 30.0 * f64::from(x).powi(2)).collect();
        let (_, fast) = split(&row);
        assert!(fast[..28].iter().all(|detail| detail.abs() < 1e-6), "{fast:?}");
    }

    #[test]
    fn noise_goes_and_a_slow_wave_stays() {
        let wave: Vec<f64> =
            (0..128).map(|x| 10.0 * (f64::from(x) * std::f64::consts::TAU / 128.0).sin()).collect();
        let mut state = 1_u64;
        let mut noise = || {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            state as f64 / f64::from(1_u32 << 31) - 0.5
        };
        let row: Vec<f64> = wave.iter().map(|value| value + noise()).collect();
        let off = |row: &[f64]| row.iter().zip(&wave).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        assert!(off(&denoised(&row)) < off(&row) / 4.0, "{} of {}", off(&denoised(&row)), off(&row));
    }

    proptest! {
        #[test]
        fn what_was_taken_apart_can_be_put_together(row in prop::collection::vec(-1e3..1e3, 1..65_usize)) {
            let row = [row.clone(), row].concat();
            let (slow, fast) = split(&row);
            let again = join(&slow, &fast);
            prop_assert!(row.iter().zip(&again).all(|(a, b)| is_near(*a, *b)), "{:?} {:?}", row, again);
            let energy = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>();
            prop_assert!((energy(&row) - energy(&slow) - energy(&fast)).abs() <= 1e-9 * energy(&row).max(1.0));
        }

        #[test]
        fn without_a_threshold_nothing_is_shrunk(row in prop::collection::vec(-1e3..1e3, 128)) {
            prop_assert!(row.iter().zip(shrunk(&row, 0.0)).all(|(a, b)| is_near(*a, b)));
        }
    }
}
