// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch fits the idle power while the load varies, on a machine that is never idle and was never calibrated.

use std::thread::sleep;
use std::time::Duration;

use mpwatch_bench::energy::processes::{self, Bystander};
use mpwatch_bench::energy::run::KernelThreads;
use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{TrafficSpec, Workload};
use mpwatch_tests::simulated_counters::{SimulatedCounters, cpus};
use mpwatch_tests::{Observer, Report, list, may_run_as_root, number, text};

use super::exclusive::exclusive;

const LENGTH: Duration = Duration::from_secs(10);

/// The charge to both ends of a transfer, and its bounds, microjoules.
struct Charged {
    energy: u64,
    bounds: [u64; 2],
}

/// Relative errors of the energy of transfers, after two minutes of varying load and in parallel with a process that uses this share of a
/// CPU.
///
/// The true energy follows the CPU time that the kernel counts for both ends and for its own threads. mpwatch charges a part of this time to
/// flows; the rest is time of the applications, and of packets whose socket is not known.
fn errors_with_other_load(percent: u32, options: &[&str], rounds: usize) -> Vec<f64> {
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.start(LoadScope::Machine);
    let observer =
        Observer::start(&[options, &simulated.arguments().each_ref().map(String::as_str)[..]].concat());
    let other = (cpus() as usize).min(2) - 1;
    // mpwatch fits the idle power from different loads, each of which lasts for several windows.
    for step in 0..60_u32 {
        let load = Bystander::start(other, 10 + step * 17 % 60);
        sleep(Duration::from_secs(2));
        drop(load);
    }
    let times: Vec<u64> = (0..rounds).map(|_| transfer(&topology, other, percent)).collect();
    let report = observer.finish_after_close(&topology);
    let part = part_of_flows(&report);
    let error = |(index, time): (usize, u64)| {
        let truth = simulated.machine().active(time).unwrap() as f64 / 1e6 * part;
        let Charged { energy, bounds } = charged(&report, &topology, index);
        let error = energy as f64 / truth - 1.0;
        println!(
            "with other load of {percent} %: {:.2} J, truth {:.2} J, error {:+.2} %",
            energy as f64 / 1e6,
            truth / 1e6,
            error * 100.0
        );
        assert!(bounds[0] as f64 <= truth && truth <= bounds[1] as f64, "{truth} not in {bounds:?}");
        error
    };
    times.into_iter().enumerate().map(error).collect()
}

/// Returns the CPU time of both ends and of the kernel's threads, nanoseconds.
fn transfer(topology: &Topology, other: usize, percent: u32) -> u64 {
    let _bystander = Bystander::start(other, percent);
    let server = topology.path(0).unwrap().server_address();
    let mut spec = TrafficSpec::new(server, Workload::upload_for(LENGTH));
    (spec.read_socket_info, spec.cpus) = (false, Some([0, 0]));
    let threads = KernelThreads::start();
    processes::run(topology, &spec) + threads.used()
}

/// Share of the traffic's CPU time that mpwatch charges to flows.
fn part_of_flows(report: &Report) -> f64 {
    let sum = |account: &str| list(&report.json, "cpus").iter().map(|cpu| number(cpu, account)).sum::<u64>();
    sum("flow_ns") as f64 / ["flow_ns", "app_ns", "net_shared_ns"].map(sum).iter().sum::<u64>() as f64
}

/// The charge to the transfer with this number.
fn charged(report: &Report, topology: &Topology, index: usize) -> Charged {
    let mut sum = Charged { energy: 0, bounds: [0, 0] };
    for end in [topology.client(), topology.server()] {
        let energy = &report.connections_in(end.name())[index]["energy"];
        assert_eq!(text(energy, "idle"), "fitted", "{energy:#}");
        sum.energy += number(energy, "active_uj");
        sum.bounds[0] += number(energy, "lo_uj");
        sum.bounds[1] += number(energy, "hi_uj");
    }
    sum
}

/// Asserts that the mean errors of several transfers with both loads are small and close to each other. Returns all errors.
fn assert_means_are_close(options: &[&str], rounds: usize) -> Vec<f64> {
    let errors = [10, 100].map(|percent| errors_with_other_load(percent, options, rounds));
    let [quiet, busy] = errors.each_ref().map(|errors| errors.iter().sum::<f64>() / errors.len() as f64);
    println!("means {:+.2} % and {:+.2} %", quiet * 100.0, busy * 100.0);
    assert!(quiet.abs() <= 0.05 && busy.abs() <= 0.05, "{errors:?}");
    assert!((busy - quiet).abs() <= 0.03, "{errors:?}");
    errors.concat()
}

#[test]
#[ignore = "takes five minutes"]
fn a_fitted_idle_power_gives_the_energy_of_flows_on_a_machine_that_is_never_idle() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    let errors = assert_means_are_close(&["--ledger", "exact"], 3);
    assert!(errors.iter().all(|error| error.abs() <= 0.05), "{errors:?}");
}

/// The default ledger measures some ten windows of each transfer. Without a rate limit, a transfer on a busy machine comes in bursts, and
/// ten windows have an error of 3 to 5 % (one standard deviation). Therefore the test measures many transfers, and for a single transfer it
/// checks only the interval.
#[test]
#[ignore = "takes ten minutes"]
fn a_fitted_idle_power_gives_the_energy_of_flows_with_default_settings() {
    if !may_run_as_root() {
        return;
    }
    let _guard = exclusive();
    assert_means_are_close(&[], 12);
}
