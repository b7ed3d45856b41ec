// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that is never idle and was never calibrated: mpwatch fits the idle power while the load varies.

use std::thread::sleep;
use std::time::Duration;

use mpwatch_bench::energy::processes::{self, Bystander};
use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{TrafficSpec, Workload};
use mpwatch_tests::simulated_counters::{SimulatedCounters, cpus};
use mpwatch_tests::{Observer, list, may_run_as_root, number, text};

use super::exclusive::exclusive;

/// Relative error of the energy of a transfer, after two minutes of varying load and beside a last load. The truth follows the CPU time that
/// the kernel counts for both ends, of which flows have the part that mpwatch gives them.
fn error_beside(percent: u32, options: &[&str]) -> f64 {
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.start(LoadScope::Machine);
    let observer =
        Observer::start(&[options, &simulated.arguments().each_ref().map(String::as_str)[..]].concat());
    let other = (cpus() as usize).min(2) - 1;
    for step in 0..60_u32 {
        let load = Bystander::start(other, 10 + step * 17 % 60);
        sleep(Duration::from_secs(2));
        drop(load);
    }
    let bystander = Bystander::start(other, percent);
    let workload = Workload::upload_for(Duration::from_secs(10));
    let mut spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), workload);
    (spec.read_socket_info, spec.cpus) = (false, Some([0, 0]));
    let endpoints = processes::run(&topology, &spec);
    drop(bystander);
    let report = observer.finish_after_close(&topology);
    let (mut charged, mut time, mut bounds) = (0, 0, [0, 0]);
    for end in [topology.client(), topology.server()] {
        for connection in report.connections_in(end.name()) {
            let energy = &connection["energy"];
            assert_eq!(text(energy, "idle"), "fitted", "{energy:#}");
            charged += number(energy, "active_uj");
            time += number(energy, "cpu_ns");
            bounds[0] += number(energy, "lo_uj");
            bounds[1] += number(energy, "hi_uj");
        }
    }
    let others =
        |account: &str| list(&report.json, "cpus").iter().map(|cpu| number(cpu, account)).sum::<u64>();
    let part = time as f64 / (time + others("app_ns") + others("net_shared_ns")) as f64;
    let truth = simulated.machine().active(endpoints).unwrap() as f64 / 1e6 * part;
    assert!(bounds[0] as f64 <= truth && truth <= bounds[1] as f64, "{truth} not in {bounds:?}");
    let error = charged as f64 / truth - 1.0;
    println!(
        "beside {percent} %: {:.2} J, truth {:.2} J, error {:+.2} %",
        charged as f64 / 1e6,
        truth / 1e6,
        error * 100.0
    );
    error
}

fn assert_close(options: &[&str]) {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let [quiet, busy] = [10, 100].map(|percent| error_beside(percent, options));
    assert!(quiet.abs() <= 0.05 && busy.abs() <= 0.05, "{quiet} {busy}");
    assert!((busy - quiet).abs() <= 0.03, "{quiet} {busy}");
}

#[test]
#[ignore = "takes five minutes"]
fn a_fitted_idle_power_gives_the_energy_of_flows_on_a_machine_that_is_never_idle() {
    assert_close(&["--ledger", "exact"]);
}

#[test]
#[ignore = "takes five minutes"]
fn a_fitted_idle_power_gives_the_energy_of_flows_with_default_settings() {
    assert_close(&[]);
}
