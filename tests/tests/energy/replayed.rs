// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording contains all input of the estimates of a sampled ledger.

use std::time::Duration;

use mpwatch_bench::energy::processes;
use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{TrafficSpec, Workload};
use mpwatch_tests::simulated_counters::SimulatedCounters;
use mpwatch_tests::{Observer, may_run_as_root, mpwatch, number, text};

use super::exclusive::exclusive;

#[test]
fn a_replay_of_a_sampled_ledger_prints_the_identical_report() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    simulated.start(LoadScope::Machine);
    let observer = Observer::start(
        &[&["--ledger", "sampled"], &simulated.arguments().each_ref().map(String::as_str)[..]].concat(),
    );
    let workload = Workload::upload_for(Duration::from_secs(3));
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    (spec.read_socket_info, spec.cpus) = (false, Some([0, 0]));
    processes::run(&topology, &spec);
    let report = observer.finish_after_close(&topology);
    let energy = &report.only_connection_in(topology.client().name())["energy"];
    assert_eq!(text(energy, "convention"), "sampled-cpu-time");
    assert!(number(energy, "active_uj") > 0 && number(energy, "cpu_ns") > 0, "{energy:#}");
    let recording = report.recording();
    let replayed = mpwatch(&["replay", recording.to_str().unwrap(), "--format", "json"]);
    assert_eq!((replayed.code, replayed.stderr.as_str()), (Some(0), ""));
    assert!(replayed.stdout == report.text, "recorded\n{}\nreplayed\n{}", report.text, replayed.stdout);
}
