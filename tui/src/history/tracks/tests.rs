// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the values of flows over time: reuse of slots, sums and means.

use super::super::series::SAMPLES;
use super::*;

fn span(tick: u32) -> Span {
    (f64::from(tick) - 1.0, f64::from(tick))
}

fn value(rate: u64) -> FlowValues {
    FlowValues { rate: Some(BitsPerSecond(rate)), rtt: None, active: None }
}

#[test]
fn a_reused_slot_has_no_values_of_the_previous_flow() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=5 {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        tracks.add(1, 1.0, value(tick * 10));
    }
    tracks.begin(6, (5.0, 6.0));
    tracks.forget(6, |_| false);
    assert!(tracks.get(1).is_none());
    tracks.add(2, 1.0, value(7));
    assert_eq!(tracks.slots.len(), 1, "the slot is reused");
    let track = tracks.get(2).unwrap();
    assert_eq!(track.values(Series::Rate, 6), [7.0]);
    assert!(track.values(Series::Rate, 5).is_empty());
    assert!((track.recent(6) - 7.0).abs() < 1e-9);
}

#[test]
fn a_remembered_flow_keeps_its_values_when_its_slot_is_freed() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=3 {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        let (rtt, active) = (Some(Micros(tick * 1000)), Some(Microjoules(tick * 2_000_000)));
        tracks.add(1, 1.0, FlowValues { rate: Some(BitsPerSecond(tick)), rtt, active });
    }
    let ticks = 3 + SAMPLES as Tick * 2;
    for tick in 4..=ticks {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        tracks.forget(tick.saturating_sub(16), |id| *id == 1);
    }
    let track = tracks.get(1).unwrap();
    assert_eq!(track.values(Series::Rate, ticks), [1.0, 2.0, 3.0]);
    assert_eq!(track.values(Series::Rtt, 2), [0.001, 0.002]);
    let spans =
        |until| track.spans(Series::Rate, until).into_iter().map(|(span, _)| span).collect::<Vec<_>>();
    assert_eq!(spans(ticks), [1, 2, 3].map(span));
    assert_eq!(spans(2), [1, 2].map(span));
    assert_eq!((track.watts(ticks), track.watts(1)), (Some(2.0), None));
    tracks.forget(ticks, |_| false);
    assert!(tracks.get(1).is_none() && tracks.kept.is_empty());
}

#[test]
fn flows_are_found_in_any_order() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=3 {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        for id in if tick == 2 { [3, 1, 2] } else { [1, 2, 3] } {
            tracks.add(id, 1.0, value(id * tick));
        }
    }
    for id in [2, 3, 1, 3, 2] {
        let values = tracks.get(id).unwrap().values(Series::Rate, 3);
        assert_eq!(values, [1.0, 2.0, 3.0].map(|tick| tick * f32::from(u8::try_from(id).unwrap())));
    }
    assert_eq!(tracks.sums([2, 1].into_iter(), Series::Rate, 3, 4), [3.0, 6.0, 9.0]);
}

#[test]
fn power_is_the_mean_of_the_latest_seconds() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=40 {
        // Energy of one second is charged in one of four ticks.
        let active = Some(Microjoules(tick / 4 * 2_000_000));
        tracks.begin(tick, (tick as f64 / 4.0 - 0.25, tick as f64 / 4.0));
        tracks.add(1, 0.25, FlowValues { active, ..value(0) });
    }
    let watts = |tick| tracks.get(1).unwrap().watts(tick);
    assert_eq!((watts(40), watts(37), watts(1)), (Some(2.0), Some(2.0), None));
}

#[test]
fn a_sum_of_unknown_values_is_unknown() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=2 {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        tracks.add(1, 1.0, FlowValues { rate: (tick > 1).then_some(BitsPerSecond(5)), ..value(0) });
        tracks.add(2, 1.0, FlowValues { rate: None, ..value(0) });
    }
    let sums = tracks.sums([1, 2].into_iter(), Series::Rate, 2, 4);
    assert!(sums[0].is_nan() && (sums[1] - 5.0).abs() < 1e-6, "{sums:?}");
}

#[test]
fn sums_contain_each_flow_in_its_own_time() {
    let mut tracks: Tracks<u64> = Tracks::default();
    for tick in 1..=5 {
        tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
        tracks.add(1, 1.0, value(tick));
        if tick > 2 {
            tracks.add(2, 1.0, value(tick * 10));
        }
        if tick < 4 {
            tracks.add(3, 1.0, value(tick * 100));
        }
    }
    let sums = |ids: &[u64], until, most| {
        let sums = tracks.sums(ids.iter().copied(), Series::Rate, until, most);
        sums.into_iter().map(f64::from).collect::<Vec<_>>()
    };
    assert_eq!(sums(&[1, 2], 5, 40), [1.0, 2.0, 33.0, 44.0, 55.0]);
    assert_eq!(sums(&[2, 1], 5, 2), [44.0, 55.0]);
    assert_eq!(sums(&[2, 9], 4, 40), [30.0, 40.0]);
    assert_eq!(sums(&[1, 3, 2], 2, 40), [101.0, 202.0]);
    // The values of a closed flow are aligned so that they end at the same tick as the values of live flows.
    assert_eq!(sums(&[2, 3], 5, 40), [130.0, 240.0, 350.0]);
    assert!(sums(&[], 5, 40).is_empty() && sums(&[9], 5, 40).is_empty());
}
