// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection of which mpwatch observed only the end: its energy is divided by the payload that was observed.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::Topology;
use mpwatch_lab::poll_until;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_tests::simulated_counters::SimulatedCounters;
use mpwatch_tests::{Observer, Report, may_run_as_root, number};
use serde_json::Value;

use super::exclusive::exclusive;

const BYTES: u64 = 400_000_000;
const TIMEOUT: Duration = Duration::from_mins(2);

/// Joules per gigabyte of the only connection of the client, with its bounds, and the payload that was observed.
fn ratio(report: &Report, topology: &Topology) -> (f64, [f64; 2], u64) {
    let connection = report.only_connection_in(topology.client().name());
    let observed = number(&connection["observed"], "bytes");
    let per_gigabyte = |key: &str| number(&connection["energy"], key) as f64 * 1e3 / observed as f64;
    let ratio = connection["energy"]["j_per_gb"].as_f64().unwrap();
    assert!((ratio / per_gigabyte("active_uj") - 1.0).abs() < 1e-6, "{connection:#}");
    (ratio, ["lo_uj", "hi_uj"].map(per_gigabyte), observed)
}

#[test]
fn a_connection_seen_at_its_end_costs_as_much_per_gigabyte_as_one_seen_completely() {
    if !may_run_as_root() {
        return;
    }
    let _alone = exclusive();
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
    poll_until("90 % of the bytes", TIMEOUT, || arrived(BYTES / 10 * 9)).unwrap();
    let late = Observer::start(&arguments);
    poll_until("all bytes", TIMEOUT, || arrived(BYTES)).unwrap();
    control.release();
    transfer.join().unwrap();
    let [complete, late] = [complete, late].map(|observer| observer.finish_after_close(&topology));
    let (whole, _, all) = ratio(&complete, &topology);
    let (end, [lo, hi], observed) = ratio(&late, &topology);
    println!("{whole:.2} J/GB of {all} bytes; at the end {end:.2} [{lo:.2} to {hi:.2}] of {observed} bytes");
    assert_eq!(all, BYTES);
    assert!((BYTES / 100..=BYTES / 8).contains(&observed), "{observed}");
    // The last second of a transfer may differ from the others; divided by all bytes, it would cost a tenth.
    assert!((0.5..2.0).contains(&(end / whole)), "{end} and {whole}");
    let connection = late.only_connection_in(topology.client().name());
    assert_eq!(connection["seen_open"], Value::from(false), "{connection:#}");
}
