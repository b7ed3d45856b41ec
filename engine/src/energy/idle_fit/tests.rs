// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the fit with simulated power curves, whose idle power is known.

use proptest::prelude::*;

use super::*;

const SECOND: Nanos = Nanos(1_000_000_000);
const IDLE: f64 = 20e6;

/// Pseudo-random numbers that are the same in every run.
struct Noise(u64);

impl Noise {
    /// Between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Fits windows of one second with the load and power that `window` returns.
fn fit(seconds: u64, mut window: impl FnMut(u64, &mut Noise) -> (f64, f64)) -> Option<FittedPower> {
    let (mut fit, mut noise) = (IdleFit::default(), Noise(7));
    for nth in 0..seconds {
        let (busy, power) = window(nth, &mut noise);
        fit.observe(Nanos(nth * SECOND.0), SECOND, busy, power);
    }
    fit.fitted().copied()
}

/// The load of a service that is never idle.
fn varying(nth: u64, noise: &mut Noise) -> f64 {
    0.05 + 0.1 * (1.0 + (nth as f64 / 9.0).sin()) + 0.01 * noise.next()
}

fn assert_close(fitted: Option<FittedPower>, percent: f64) {
    let fitted = fitted.expect("the load varies");
    let idle = fitted.idle;
    assert!((idle.power as f64 / IDLE - 1.0).abs() * 100.0 <= percent, "{fitted:?}");
    assert!(idle.lo as f64 <= IDLE + 1.0 && IDLE - 1.0 <= idle.hi as f64, "{fitted:?}");
}

#[test]
fn two_minutes_of_varying_load_give_idle_power_and_slope() {
    let fitted = fit(120, |nth, noise| {
        let busy = varying(nth, noise);
        (busy, IDLE + 30e6 * busy)
    });
    assert_close(fitted, 0.1);
    let fitted = fitted.unwrap();
    assert!((fitted.slope / 30e6 - 1.0).abs() < 0.01, "{fitted:?}");
    assert!(fitted.slope_lo <= 30e6 + 1.0 && fitted.slope_hi >= 30e6 - 1.0, "{fitted:?}");
}

#[test]
fn noise_of_the_counter_widens_the_interval_only() {
    let noisy = fit(120, |nth, noise| {
        let busy = varying(nth, noise);
        (busy, (IDLE + 30e6 * busy) * (1.0 + 0.03 * noise.next()))
    });
    assert_close(noisy, 5.0);
    let noisy = noisy.unwrap();
    assert!(noisy.idle.hi > noisy.idle.lo + 100_000, "{noisy:?}");
}

#[test]
fn a_turbo_bump_at_some_loads_moves_the_fit_little() {
    let bump = |busy: f64| if (0.15..0.18).contains(&busy) { 1.5e6 } else { 0.0 };
    assert_close(
        fit(240, |nth, noise| {
            let busy = varying(nth, noise);
            (busy, IDLE + 30e6 * busy + bump(busy))
        }),
        5.0,
    );
}

#[test]
fn work_that_draws_more_power_per_cpu_second_moves_the_fit_little() {
    // Every seventh window does vector work.
    assert_close(
        fit(240, |nth, noise| {
            let busy = varying(nth, noise);
            let slope = if nth % 7 == 0 { 60e6 } else { 30e6 };
            (busy, IDLE + slope * busy)
        }),
        5.0,
    );
}

#[test]
fn a_process_that_fills_a_cpu_does_not_move_the_fit() {
    let alone = fit(120, |nth, noise| {
        let busy = varying(nth, noise);
        (busy, (IDLE + 30e6 * busy) * (1.0 + 0.003 * noise.next()))
    });
    let with_process = fit(120, |nth, noise| {
        let busy = varying(nth, noise) + 0.5;
        (busy, (IDLE + 30e6 * busy) * (1.0 + 0.003 * noise.next()))
    });
    assert_close(alone, 3.0);
    if with_process.is_some() {
        assert_close(with_process, 3.0);
    }
    // The process starts while mpwatch is running.
    let later = fit(240, |nth, noise| {
        let busy = varying(nth, noise) + if nth < 120 { 0.0 } else { 0.5 };
        (busy, (IDLE + 30e6 * busy) * (1.0 + 0.003 * noise.next()))
    });
    assert_close(later, 3.0);
}

#[test]
fn a_constant_load_gives_no_fit() {
    assert_eq!(fit(3_600, |_, _| (0.3, 29e6)), None);
    let noisy = |spread: f64| {
        fit(3_600, move |_, noise| (0.3 + spread * noise.next(), 29e6 * (1.0 + 0.02 * noise.next())))
    };
    assert_eq!(noisy(0.001), None);
    // The range of loads is small compared with the distance from the lowest load to idle.
    assert_eq!(noisy(0.03), None);
}

#[test]
fn the_usual_load_does_not_outweigh_the_others() {
    let mostly = |nth: u64| if nth % 20 < 18 { 0.06 } else { 0.06 + 0.02 * (nth % 11) as f64 };
    assert_close(
        fit(1_200, |nth, noise| {
            let busy = mostly(nth) + 0.005 * noise.next();
            (busy, (IDLE + 30e6 * busy) * (1.0 + 0.005 * noise.next()))
        }),
        3.0,
    );
}

#[test]
fn a_fit_stays_until_the_load_varies_again() {
    let (mut fit, mut noise) = (IdleFit::default(), Noise(7));
    let mut vary = |fit: &mut IdleFit, seconds: std::ops::Range<u64>, idle: f64| {
        for nth in seconds {
            let busy = varying(nth, &mut noise);
            fit.observe(Nanos(nth * SECOND.0), SECOND, busy, idle + 30e6 * busy);
        }
    };
    vary(&mut fit, 0..240, IDLE);
    let before = fit.fitted().copied();
    assert_close(before, 0.1);
    (4_000..8_000).for_each(|nth| fit.observe(Nanos(nth * SECOND.0), SECOND, 0.3, 40e6));
    assert_eq!(fit.fitted().copied(), before);
    assert!(fit.samples.len() <= KEPT.count);
    vary(&mut fit, 20_000..20_240, IDLE * 1.5);
    assert!((fit.fitted().unwrap().idle.power as f64 / IDLE - 1.5).abs() < 0.01);
}

#[test]
fn short_windows_are_added_up() {
    let (mut fit, mut noise) = (IdleFit::default(), Noise(7));
    for nth in 0..1_200 {
        let busy = varying(nth / 10, &mut noise);
        fit.observe(Nanos(nth * SECOND.0 / 10), Nanos(SECOND.0 / 10), busy, IDLE + 30e6 * busy);
    }
    assert_eq!(fit.samples.len(), 120);
    assert_close(fit.fitted().copied(), 1.0);
}

/// The power of real machines is a concave function of load. The fit must give an interval that contains the true idle power, or no result.
#[test]
fn a_concave_curve_gives_an_interval_that_contains_the_truth_or_none() {
    // Idle power is 20 W. Load on all CPUs adds 30 W minus `bend`. A part of the load adds more than the same part of this power.
    for bend in [0.0, 5.0, 10.0, 20.0] {
        let fitted = fit(1_200, |nth, noise| {
            let busy = varying(nth, noise);
            (busy, IDLE + 30e6 * busy - bend * 1e6 * busy * busy)
        });
        let Some(fitted) = fitted else { continue };
        let (lo, hi) = (fitted.idle.lo as f64, fitted.idle.hi as f64);
        assert!(lo <= IDLE * 1.005 && hi >= IDLE * 0.995, "bend {bend}: {fitted:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_found_whatever_their_watts(
        idle in 2e6..200e6_f64, dynamic in 0.2..4.0_f64, low in 0.03..0.3_f64, range in 0.1..0.6_f64, seed in any::<u64>(),
    ) {
        let (mut fit, mut noise) = (IdleFit::default(), Noise(seed));
        for nth in 0..120_u64 {
            let busy = low + range * f64::midpoint(1.0, noise.next());
            let power = (idle + idle * dynamic * busy) * (1.0 + 0.002 * noise.next());
            fit.observe(Nanos(nth * SECOND.0), SECOND, busy, power);
        }
        if let Some(fitted) = fit.fitted() {
            prop_assert!((fitted.idle.power as f64 / idle - 1.0).abs() <= 0.05, "{:?} for {}", fitted, idle);
        }
    }
}
