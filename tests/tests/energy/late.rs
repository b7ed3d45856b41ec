// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch observes only the last part of a connection. The energy of this part is divided by the observed payload.
//!
//! The cost of a byte changes with the load, by a factor of two on a busy machine, and a second recorder increases it. Therefore only bytes
//! that both recorders observed are compared.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::Topology;
use mpwatch_lab::poll_until;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_tests::simulated_counters::SimulatedCounters;
use mpwatch_tests::{Observer, Report, list, may_run_as_root, mpwatch, number};
use serde_json::Value;

use super::exclusive::exclusive;

const BYTES: u64 = 800_000_000;
const TIMEOUT: Duration = Duration::from_mins(2);

/// Joules per gigabyte, with its bounds.
#[derive(Debug)]
struct Cost {
    per_gigabyte: f64,
    bounds: [f64; 2],
}

impl Cost {
    /// Cost of the client's only connection, and its observed payload in bytes.
    fn from_report(report: &Report, topology: &Topology) -> (Self, u64) {
        let connection = report.only_connection_in(topology.client().name());
        let observed = number(&connection["observed"], "bytes");
        let per_gigabyte = |key: &str| number(&connection["energy"], key) as f64 * 1e3 / observed as f64;
        let reported = connection["energy"]["j_per_gb"].as_f64().unwrap();
        assert!((reported / per_gigabyte("active_uj") - 1.0).abs() < 1e-6, "{connection:#}");
        (Self { per_gigabyte: reported, bounds: ["lo_uj", "hi_uj"].map(per_gigabyte) }, observed)
    }

    /// The same relative bounds for another number of joules per gigabyte.
    fn scaled_to(&self, per_gigabyte: f64) -> Self {
        Self { per_gigabyte, bounds: self.bounds.map(|bound| bound * per_gigabyte / self.per_gigabyte) }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.bounds[0] <= other.bounds[1] && other.bounds[0] <= self.bounds[1]
    }
}

/// Acknowledged bytes and an energy value of the client's connection at each tick of a recording.
fn course(report: &Report, topology: &Topology, key: &str) -> Vec<(f64, f64)> {
    let file = report.recording();
    let netns = topology.client().name();
    let replayed = mpwatch(&["replay", file.to_str().unwrap(), "--snapshots", "--netns", netns]);
    let snapshots = replayed.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let point = |snapshot: Value| {
        let connection = list(&snapshot, "connections").first()?.clone();
        let energy = connection["energy"][key].as_f64()?;
        Some((connection["bytes_acked"].as_f64()?, energy))
    };
    snapshots.filter_map(point).collect()
}

/// The energy value when `acked` bytes were acknowledged, interpolated between two ticks.
fn energy_at(course: &[(f64, f64)], acked: f64) -> f64 {
    let after = course.iter().position(|point| point.0 >= acked).unwrap();
    let [(from, low), (to, high)] = [course[after - 1], course[after]];
    low + (high - low) * (acked - from) / (to - from)
}

/// Observes one upload from its opening and from 85 % of it on, and compares the cost of the bytes that both recorders observed.
/// Returns whether the intervals of both recorders overlap.
fn intervals_overlap() -> bool {
    let link = LinkSpec::rate(200.0, Duration::from_millis(20));
    let topology = Topology::two_paths(link, link).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    simulated.start(LoadScope::Machine);
    let counters = simulated.arguments();
    let arguments = [&["--ledger", "exact"], &counters.each_ref().map(String::as_str)[..]].concat();
    let complete = Observer::start(&arguments);
    let control = Arc::new(Control::holding());
    let spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    let arrived = |bytes: u64| (control.received() >= bytes).then_some(());
    poll_until("most of the bytes", TIMEOUT, || arrived(BYTES / 20 * 17)).unwrap();
    let late = Observer::start(&arguments);
    poll_until("all bytes", TIMEOUT, || arrived(BYTES)).unwrap();
    control.release();
    transfer.join().unwrap();
    let [complete, late] = [complete, late].map(|observer| observer.finish_after_close(&topology));
    let (whole, all) = Cost::from_report(&complete, &topology);
    let (end, observed) = Cost::from_report(&late, &topology);
    assert_eq!(all, BYTES);
    assert!((BYTES / 200..=BYTES / 7).contains(&observed), "{observed}");
    let spent_on_last = |key: &str| {
        let course = course(&complete, &topology, key);
        course.last().unwrap().1 - energy_at(&course, (BYTES - observed) as f64)
    };
    let spent = spent_on_last("active_uj");
    let cpu = number(&late.only_connection_in(topology.client().name())["energy"], "cpu_ns") as f64;
    let cpu_ratio = cpu / spent_on_last("cpu_ns");
    let same_bytes = whole.scaled_to(spent * 1e3 / observed as f64);
    println!(
        "J/GB of the last {observed} bytes: late recorder {end:.2?}, first {same_bytes:.2?}; of all: {whole:.2?}"
    );
    let overlaps = end.overlaps(&same_bytes);
    println!("intervals overlap: {overlaps}; ratio of CPU time: {cpu_ratio:.3}");
    let ratio = end.per_gigabyte / same_bytes.per_gigabyte;
    assert!((0.87..1.15).contains(&cpu_ratio) && (0.8..1.25).contains(&ratio), "{cpu_ratio}, {ratio}");
    let connection = late.only_connection_in(topology.client().name());
    assert_eq!(connection["seen_open"], Value::from(false), "{connection:#}");
    overlaps
}

/// With other load, power changes within a tick, and the ticks of the two recorders differ: in two of seven runs the intervals did not
/// overlap. With a systematic error the intervals would never overlap.
const ATTEMPTS: usize = 3;

#[test]
fn a_connection_observed_at_its_end_has_the_energy_per_gigabyte_of_a_full_observation() {
    if !may_run_as_root() {
        return;
    }
    let _alone = exclusive();
    let overlaps = (0..ATTEMPTS).any(|_| intervals_overlap());
    assert!(overlaps, "the intervals of the recorders overlap in none of {ATTEMPTS} runs");
}
