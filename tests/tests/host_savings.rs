// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table I of [MPTCP-D]: a transfer over several links ends sooner. On a machine with high idle power this saves energy, although the
//! power is higher during the transfer. The traffic is real, the energy counters are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Transport, Workload};
use mpwatch_tests::simulated_counters::SimulatedCounters;
use mpwatch_tests::{Observer, list, may_run_as_root, number};
use std::time::Duration;

/// Rate of a link in the paper's first rows, Mbit/s.
const LINK_RATE: f64 = 19.0;
const BYTES: u64 = 20_000_000;
/// Energy savings in the paper, in percent, including idle energy, with two to five links instead of one (i7-3770).
const PAPER_SAVINGS: [f64; 4] = [46.9, 63.6, 69.5, 74.1];

/// Duration and energy of a transfer.
#[derive(Debug)]
struct Cost {
    seconds: f64,
    /// Joules of the whole machine, including idle energy.
    full: f64,
    /// Joules of the flows, above idle.
    active: f64,
}

impl Cost {
    fn watts(&self) -> f64 {
        self.full / self.seconds
    }
}

/// Runs a transfer. The counters advance only during the transfer, so they show its energy.
fn transfer(links: usize) -> Cost {
    let link = LinkSpec::rate(LINK_RATE, Duration::from_millis(50));
    let topology = Topology::disjoint(&vec![link; links]).unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    let mut arguments: Vec<String> = simulated.arguments().into();
    arguments.push("--tcp".to_owned());
    let observer = Observer::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    spec.transport = if links == 1 { Transport::Tcp } else { Transport::Mptcp };
    simulated.start(LoadScope::Machine);
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let truth = simulated.stop();
    assert_eq!((outcome.client.first_error(), outcome.client.sent()), (None, BYTES));
    let report = observer.finish_after_close(&topology);
    let energy = &report.json["energy"];
    let sum =
        |field: &str| list(energy, "zones").iter().map(|zone| number(zone, field)).sum::<u64>() as f64 / 1e6;
    Cost { seconds: truth.elapsed as f64 / 1e9, full: sum("zone_uj"), active: sum("flows_uj") }
}

#[test]
fn more_links_save_energy_because_transfers_end_sooner() {
    if !may_run_as_root() {
        return;
    }
    let tcp = transfer(1);
    println!(
        "| links | time | power | saved, idle included | the paper | flows above idle |\n|---|---|---|---|---|---|"
    );
    println!("| 1 (TCP) | {:.2} s | {:.1} W | - | - | {:.2} J |", tcp.seconds, tcp.watts(), tcp.active);
    let mut last = 0.0;
    for (links, paper) in (2..).zip(PAPER_SAVINGS) {
        let mptcp = transfer(links);
        let (more_power, less_time) = (mptcp.watts() / tcp.watts() - 1.0, 1.0 - mptcp.seconds / tcp.seconds);
        let saved = 1.0 - mptcp.full / tcp.full;
        println!(
            "| {links} | {:.2} s ({:+.1} %) | {:.1} W ({:+.1} %) | {:.1} % | {paper} % | {:.2} J |",
            mptcp.seconds,
            -less_time * 100.0,
            mptcp.watts(),
            more_power * 100.0,
            saved * 100.0,
            mptcp.active
        );
        // Energy is power times time.
        assert!((saved - (1.0 - (1.0 + more_power) * (1.0 - less_time))).abs() < 1e-9);
        // With many links, a subflow that joins late saves no time, and a busy machine delays it.
        assert!(saved > last - 0.15, "{links} links save {saved}, one link less saves {last}");
        assert!(mptcp.active > 0.0);
        last = saved;
    }
    assert!(last > 0.5, "five links save only {last}");
}
