// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the integer reference with the equations in floating point, and checks invariants for any trace.

use proptest::prelude::*;

use super::*;

/// One segment.
const SEGMENT: f64 = (1_u64 << INCREASE_SHIFT) as f64;
/// Maximum difference of an increase from the equation, as a share of Reno's increase on that path.
const TOLERANCE: f64 = 0.000_5;
/// Maximum difference of a window from the equation during a trace, in segments.
const TRACE_SEGMENTS: f64 = 1.5;

/// The equation of `[MPTCP-D]`. `paths` has the window and RTT of each path.
fn equation(paths: &[(f64, f64)], path: usize) -> f64 {
    let (cwnd, rtt) = paths[path];
    let sum: f64 = paths.iter().map(|(cwnd, rtt)| cwnd / rtt).sum();
    let min_rtt = paths.iter().map(|(_, rtt)| *rtt).fold(f64::INFINITY, f64::min);
    (min_rtt / rtt) * (cwnd / (rtt * rtt)) / (sum * sum)
}

fn floats(connection: &Connection) -> Vec<(f64, f64)> {
    connection.paths.iter().map(|path| (f64::from(path.cwnd), f64::from(path.rtt_us))).collect()
}

fn reno(cwnd: u32) -> u64 {
    (1 << INCREASE_SHIFT) / u64::from(cwnd.max(1))
}

#[derive(Clone, Debug)]
enum Event {
    Ack { path: usize, segments: u32 },
    Loss { path: usize },
    Rtt { path: usize, rtt_us: u32 },
}

fn path(max_cwnd: u32) -> impl Strategy<Value = Path> {
    (MIN_CWND..=max_cwnd, 1_u32..=MAX_RTT_US).prop_map(|(cwnd, rtt_us)| Path::new(cwnd, rtt_us))
}

/// RTTs of data centres and of the Internet, uniform in their logarithm.
fn usual_rtt() -> impl Strategy<Value = u32> {
    (5_u32..20, 0_u32..1024).prop_map(|(octave, part)| (1 << octave) + (part << octave >> 10))
}

fn usual_connection() -> impl Strategy<Value = Connection> {
    let path = (MIN_CWND..500, usual_rtt()).prop_map(|(cwnd, rtt_us)| Path::new(cwnd, rtt_us));
    prop::collection::vec(path, 1..=9).prop_map(|paths| Connection { paths })
}

fn trace() -> impl Strategy<Value = Vec<Event>> {
    let event = (0_usize..9, 0_u32..400, 1_u32..=64, usual_rtt());
    let event = event.prop_map(|(path, kind, segments, rtt_us)| match kind {
        0 => Event::Loss { path },
        1..=3 => Event::Rtt { path, rtt_us },
        _ => Event::Ack { path, segments },
    });
    prop::collection::vec(event, 0..3_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_increase_follows_the_equation(
        paths in prop::collection::vec(path(MAX_CWND), 1..=9), chosen in 0_usize..9,
    ) {
        let connection = Connection { paths };
        let chosen = chosen % connection.paths.len();
        let integer = connection.increase(chosen).unwrap() as f64 / SEGMENT;
        let exact = equation(&floats(&connection), chosen);
        let reno = 1.0 / f64::from(connection.paths[chosen].cwnd);
        prop_assert!((integer - exact).abs() <= TOLERANCE * reno, "{integer} instead of {exact}, reno {reno}");
    }

    #[test]
    fn an_increase_never_exceeds_renos(
        cwnd in any::<u32>(), rtt in any::<u32>(), min_rtt in any::<u32>(), others in 0_u64..=(8 << 56),
    ) {
        let total = others + rate(cwnd, rtt);
        let increase = increase_per_segment(cwnd, rtt, total, min_rtt);
        prop_assert!(increase <= reno(cwnd));
        // A stretched ACK increases the window by at most one segment.
        let mut path = Path::new(cwnd, rtt);
        path.credit = (1 << INCREASE_SHIFT) - 1;
        prop_assert!(path.grow(u32::MAX, increase) <= 1);
    }

    #[test]
    fn a_trace_stays_at_the_windows_of_the_equation(connection in usual_connection(), trace in trace()) {
        let mut integer = connection.clone();
        // Windows are whole numbers of segments, as in the kernel; the credits are exact.
        let mut exact = floats(&connection);
        let mut credits = vec![0.0; exact.len()];
        for event in trace {
            match event {
                Event::Ack { path, segments } => {
                    let path = path % exact.len();
                    let window_before = integer.paths[path].cwnd;
                    integer.acknowledge(path, segments).unwrap();
                    prop_assert!(integer.paths[path].cwnd <= window_before + 1);
                    credits[path] += f64::from(segments).min(exact[path].0) * equation(&exact, path);
                    exact[path].0 += credits[path].floor();
                    credits[path] = credits[path].fract();
                }
                Event::Loss { path } => {
                    let path = path % exact.len();
                    integer.lose(path);
                    exact[path].0 = (exact[path].0 / 2.0).floor().max(MIN_CWND.into());
                    credits[path] = 0.0;
                }
                Event::Rtt { path, rtt_us } => {
                    let path = path % exact.len();
                    integer.paths[path].rtt_us = rtt_us;
                    exact[path].1 = rtt_us.into();
                }
            }
            for ((path, (cwnd, _)), credit) in integer.paths.iter().zip(&exact).zip(&credits) {
                let difference = f64::from(path.cwnd) + path.credit as f64 / SEGMENT - cwnd - credit;
                prop_assert!(path.cwnd >= MIN_CWND);
                prop_assert!(difference.abs() <= TRACE_SEGMENTS, "{} instead of {cwnd}", path.cwnd);
            }
        }
    }

    #[test]
    fn equal_paths_grow_alike(
        cwnd in MIN_CWND..10_000, rtt in 1_u32..=MAX_RTT_US, count in 1_usize..=9,
    ) {
        let connection = Connection { paths: vec![Path::new(cwnd, rtt); count] };
        let increases: Vec<_> = (0..count).map(|path| connection.increase(path).unwrap()).collect();
        prop_assert!(increases.iter().all(|increase| *increase == increases[0]));
        // Each of n paths grows by 1/n^2 of a Reno flow's increase, so together they grow by 1/n of it.
        let exact = SEGMENT / f64::from(cwnd) / (count * count) as f64;
        prop_assert!((increases[0] as f64 - exact).abs() <= TOLERANCE * reno(cwnd) as f64);
    }
}

#[test]
fn one_path_is_reno() {
    let mut connection = Connection { paths: vec![Path::new(10, 20_000)] };
    let acks = (1..100).find(|_| connection.acknowledge(0, 1) == Some(1));
    // 1/10 is not exact in binary, so the window needs one more ACK than with Reno.
    assert_eq!(acks, Some(11));
    assert_eq!(connection.increase(1), None);
}

#[test]
fn a_slow_path_grows_less() {
    // Path 1 has twice the RTT and the same window, so a third of the total rate, and psi is 1/2.
    let connection = Connection { paths: vec![Path::new(30, 10_000), Path::new(30, 20_000)] };
    let share = |path| connection.increase(path).unwrap() as f64 / reno(30) as f64;
    assert!((share(0) - 4.0 / 9.0).abs() < 1e-4, "{}", share(0));
    assert!((share(1) - 1.0 / 18.0).abs() < 1e-4, "{}", share(1));
}

#[test]
fn a_loss_halves_the_window_of_its_path_only() {
    let mut connection = Connection { paths: vec![Path::new(30, 10_000), Path::new(3, 10_000)] };
    connection.lose(0);
    connection.lose(1);
    connection.lose(2);
    assert_eq!(connection.paths, [Path::new(15, 10_000), Path::new(MIN_CWND, 10_000)]);
}
