// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published methods do what their papers say, on samples made for it.

use mpwatch_model::unit::Micros;

use super::simulator::{BUSY, Link, QUIET, Sender, on, run};
use super::*;

fn rtts(of: &[(u64, u64)]) -> Vec<DelaySample> {
    let point = |&(at_ms, rtt_us): &(u64, u64)| DelaySample {
        at: Nanos(SECOND + at_ms * 1_000_000),
        rtt: Micros(rtt_us),
        ..DelaySample::default()
    };
    of.iter().map(point).collect()
}

fn verdicts_by(method: DetectionMethod, rows: &[Vec<DelaySample>]) -> Vec<Verdict> {
    judged_by(method, rows).iter().map(|evaluation| evaluation.verdict).collect()
}

#[test]
fn ese_takes_subflows_of_one_raised_rtt_for_extra_ones() {
    // Base 10 ms; the first one rises above 13 ms and is the reference; the second is within 1 ms of it, the third is not.
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
    use crate::bottleneck::ese::{Ese, Parameters, Reading};
    use crate::bottleneck::method::Method as _;
    let alone = rtts(&[(0, 10_000), (10, 15_000)]);
    let closed = |reading| {
        let mut ese = Ese::new(Parameters { reading, ..Parameters::default() });
        ese.take(id(1), &alone);
        ese.evaluate(Nanos(2 * SECOND));
        ese.closed().unwrap().len()
    };
    assert_eq!((closed(Reading::Literal), closed(Reading::Else)), (1, 0));
}

#[test]
fn ese_takes_equal_links_for_one_which_its_paper_does_not_tell() {
    let separate = [Sender { link: 0, rtt_ms: 10, start_ms: 0 }, Sender { link: 1, rtt_ms: 10, start_ms: 0 }];
    assert_eq!(verdicts_by(DetectionMethod::Ese, &run(&[QUIET, QUIET], &separate, 4, 1)), [Verdict::Shared]);
}

#[test]
fn rfc_8382_decides_after_its_window_of_ten_seconds() {
    let rows = run(&[BUSY], &on(0, 2), 20, 1);
    let early: Vec<Vec<DelaySample>> = rows
        .iter()
        .map(|points| points.iter().copied().filter(|point| point.at.0 < 9 * SECOND).collect())
        .collect();
    assert_eq!(verdicts_by(DetectionMethod::Rfc8382, &early), [Verdict::Unknown]);
    assert_ne!(verdicts_by(DetectionMethod::Rfc8382, &rows), [Verdict::Unknown]);
}

#[test]
fn dcw_finds_one_queue_in_ten_seconds_and_no_sooner_than_in_six() {
    let rows = run(&[BUSY], &on(0, 2), 14, 1);
    let early: Vec<Vec<DelaySample>> = rows
        .iter()
        .map(|points| points.iter().copied().filter(|point| point.at.0 < 6 * SECOND).collect())
        .collect();
    assert_eq!(verdicts_by(DetectionMethod::Dcw, &early), [Verdict::Unknown]);
    assert_eq!(verdicts_by(DetectionMethod::Dcw, &rows), [Verdict::Shared]);
}

#[test]
fn dwc_decides_only_at_losses() {
    let rows = run(&[QUIET], &on(0, 2), 8, 1);
    let mut lossless = rows.clone();
    for point in lossless.iter_mut().flatten() {
        (point.lost, point.cut) = (0, false);
    }
    assert_eq!(verdicts_by(DetectionMethod::Dwc, &lossless), [Verdict::Unknown]);
    assert_eq!(verdicts_by(DetectionMethod::Dwc, &rows), [Verdict::Shared]);
}

#[test]
fn every_method_bears_anything() {
    let wide = Link { mbit: 1_000, ..QUIET };
    let some = [
        run(&[BUSY], &on(0, 3), 2, 1),
        run(&[wide, QUIET], &on(1, 2), 1, 2),
        vec![rtts(&[(0, 0)]), rtts(&[(30_000_000, 1), (0, 7)]), Vec::new()],
    ];
    for method in DetectionMethod::ALL {
        for rows in &some {
            for evaluation in judged_by(*method, rows) {
                assert!(evaluation.a < evaluation.b, "{method:?}");
                assert_eq!(evaluation.since.is_none(), evaluation.verdict == Verdict::Unknown, "{method:?}");
            }
        }
    }
}
