// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the collection of samples from snapshots.

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::series::{CounterSample, MAX_SAMPLES, SeriesCollector};

#[test]
fn a_long_run_keeps_a_bounded_number_of_evenly_spaced_samples() {
    let mut collector = SeriesCollector::default();
    let mut snapshot = fixture::snapshot(vec![fixture::connection(1, 2), fixture::fallen_back(2)]);
    for _ in 0..10_000 {
        snapshot.at += SignedDuration::from_secs(1);
        collector.add(&snapshot);
    }
    let series = collector.finish();
    assert_eq!(series.len(), 2, "the two subflows of the long flow");
    for samples in series.values() {
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&samples.len()), "{}", samples.len());
        let spacing = |pair: &[CounterSample]| pair[1].at.duration_since(pair[0].at);
        assert!(samples.windows(2).all(|pair| spacing(pair) == SignedDuration::from_secs(16)));
    }
}

#[test]
fn a_closed_subflow_has_no_more_samples() {
    let mut collector = SeriesCollector::default();
    collector.add(&fixture::snapshot(vec![fixture::closed(1)]));
    assert!(collector.finish().is_empty());
}
