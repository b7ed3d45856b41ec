// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the published methods behave as their papers describe, on constructed and simulated samples.

use mpwatch_engine::bottleneck::{Detector, Method as _, PairEvaluation};
use mpwatch_fixtures::delay_samples::{SECOND, batches, id, sample};
use mpwatch_fixtures::simulator::{BUSY, Link, QUIET, Sender, on, run};
use mpwatch_model::flow::bottleneck::{DetectionMethod, Verdict};
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::ese::{Ese, Parameters, Reading};
use super::new;

/// The results of a method after it has processed all samples.
fn detect_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<PairEvaluation> {
    let mut detector = Detector::with_method(new(method));
    for batch in batches(rows) {
        detector.add(&batch);
    }
    let end = rows.iter().flatten().map(|sample| sample.at).max().unwrap_or(Nanos(0));
    detector.advance(end + Nanos(SECOND));
    detector.pairs().to_vec()
}

fn verdicts_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    detect_by(method, rows).iter().map(|pair| pair.verdict).collect()
}

fn rtts(of: &[(u64, u64)]) -> Vec<DelaySample> {
    of.iter().map(|&(at_ms, rtt_us)| sample(at_ms, rtt_us, 0)).collect()
}

/// The samples before the time `second`.
fn before(second: u64, rows: &[Vec<DelaySample>]) -> Vec<Vec<DelaySample>> {
    let early =
        |row: &Vec<DelaySample>| row.iter().copied().filter(|sample| sample.at.0 < second * SECOND).collect();
    rows.iter().map(early).collect()
}

#[test]
fn ese_finds_subflows_with_the_same_raised_rtt() {
    // Base RTT 10 ms. The first RTT exceeds 13 ms and becomes the reference. The second is within 1 ms of the reference, the third is not.
    let rows = [
        rtts(&[(0, 10_000), (10, 15_000)]),
        rtts(&[(1, 10_000), (20, 15_900)]),
        rtts(&[(2, 10_000), (30, 17_000)]),
    ];
    let (shared, unknown) = (Verdict::Shared, Verdict::Unknown);
    assert_eq!(verdicts_by(DetectionMethod::Ese, &rows), [shared, unknown, unknown]);
    assert_eq!(verdicts_by(DetectionMethod::EseLiteral, &rows), [shared, unknown, unknown]);
}

#[test]
fn ese_read_literally_closes_the_subflow_that_set_the_reference() {
    let alone = rtts(&[(0, 10_000), (10, 15_000)]);
    let closed = |reading| {
        let mut ese = Ese::new(Parameters { reading, ..Parameters::default() });
        ese.add(id(1), &alone);
        ese.evaluate(Nanos(2 * SECOND));
        ese.closed().unwrap().len()
    };
    assert_eq!((closed(Reading::Literal), closed(Reading::Else)), (1, 0));
}

#[test]
fn ese_mistakes_two_links_with_equal_rtts_for_one_link() {
    let separate = [Sender { link: 0, rtt_ms: 10, start_ms: 0 }, Sender { link: 1, rtt_ms: 10, start_ms: 0 }];
    assert_eq!(verdicts_by(DetectionMethod::Ese, &run(&[QUIET, QUIET], &separate, 4, 1)), [Verdict::Shared]);
}

#[test]
fn rfc_8382_decides_once_its_window_of_ten_seconds_is_full() {
    let rows = run(&[BUSY], &on(0, 2), 20, 1);
    let early = before(9, &rows);
    assert_eq!(verdicts_by(DetectionMethod::Rfc8382, &early), [Verdict::Unknown]);
    assert_ne!(verdicts_by(DetectionMethod::Rfc8382, &rows), [Verdict::Unknown]);
}

#[test]
fn dcw_finds_one_queue_after_six_to_ten_seconds() {
    let rows = run(&[BUSY], &on(0, 2), 14, 1);
    let early = before(6, &rows);
    assert_eq!(verdicts_by(DetectionMethod::Dcw, &early), [Verdict::Unknown]);
    assert_eq!(verdicts_by(DetectionMethod::Dcw, &rows), [Verdict::Shared]);
}

#[test]
fn dwc_decides_only_at_losses() {
    let rows = run(&[QUIET], &on(0, 2), 8, 1);
    let mut lossless = rows.clone();
    for sample in lossless.iter_mut().flatten() {
        (sample.lost, sample.cut) = (0, false);
    }
    assert_eq!(verdicts_by(DetectionMethod::Dwc, &lossless), [Verdict::Unknown]);
    assert_eq!(verdicts_by(DetectionMethod::Dwc, &rows), [Verdict::Shared]);
}

#[test]
fn no_method_panics() {
    let wide = Link { mbit: 1_000, ..QUIET };
    let some = [
        run(&[BUSY], &on(0, 3), 2, 1),
        run(&[wide, QUIET], &on(1, 2), 1, 2),
        vec![rtts(&[(0, 0)]), rtts(&[(30_000_000, 1), (0, 7)]), Vec::new()],
    ];
    for method in DetectionMethod::ALL {
        for rows in &some {
            for pair in detect_by(method, rows) {
                assert!(pair.a < pair.b, "{method:?}");
                assert_eq!(pair.since.is_none(), pair.verdict == Verdict::Unknown, "{method:?}");
            }
        }
    }
}
