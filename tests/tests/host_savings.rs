// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table I of [MPTCP-D]: a transfer over several links ends sooner, and on a machine that draws most of its power at rest that saves
//! energy, although the machine works harder meanwhile. Real traffic over real links, simulated counters, mpwatch's figures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Shape;
use mpwatch_lab::raplsim::live::Load;
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Transport, Workload};
use mpwatch_tests::simulated::Simulated;
use mpwatch_tests::{Observer, list, may_run_as_root, number};
use std::time::Duration;

/// A link of the paper's first rows, Mbit/s.
const LINK: f64 = 19.0;
const BYTES: u64 = 20_000_000;
/// Of energy with idle included, in percent, with two to five links instead of one (i7-3770).
const PAPER: [f64; 4] = [46.9, 63.6, 69.5, 74.1];

/// What one transfer has cost.
#[derive(Debug)]
struct Cost {
    seconds: f64,
    /// Of the whole machine, idle included.
    full: f64,
    /// Of the flows, above idle.
    active: f64,
}

impl Cost {
    fn watts(&self) -> f64 {
        self.full / self.seconds
    }
}

/// The counters move as long as the transfer lasts: what they show is what the machine draws meanwhile.
fn transfer(links: usize) -> Cost {
    let link = Quality::rate(LINK, Duration::from_millis(50));
    let topology = Topology::disjoint(&vec![link; links]).unwrap();
    let mut simulated = Simulated::new(Shape::Intel1);
    simulated.write_law();
    let mut arguments: Vec<String> = simulated.arguments().into();
    arguments.push("--tcp".to_owned());
    let observer = Observer::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut spec = topology.traffic(Workload::upload(BYTES)).unwrap();
    spec.transport = if links == 1 { Transport::Tcp } else { Transport::Mptcp };
    simulated.run(Load::Everything);
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let truth = simulated.stop();
    assert_eq!((outcome.client.first_error(), outcome.client.sent()), (None, BYTES));
    let report = observer.finish_when_quiet(&topology);
    let energy = &report.json["energy"];
    let sum =
        |field: &str| list(energy, "zones").iter().map(|zone| number(zone, field)).sum::<u64>() as f64 / 1e6;
    Cost { seconds: truth.elapsed as f64 / 1e9, full: sum("zone_uj"), active: sum("flows_uj") }
}

#[test]
fn more_links_save_energy_by_ending_sooner_as_the_paper_says() {
    if !may_run_as_root() {
        return;
    }
    let tcp = transfer(1);
    println!(
        "| links | time | power | saved, idle included | the paper | flows above idle |\n|---|---|---|---|---|---|"
    );
    println!("| 1 (TCP) | {:.2} s | {:.1} W | - | - | {:.2} J |", tcp.seconds, tcp.watts(), tcp.active);
    let mut last = 0.0;
    for (links, paper) in (2..).zip(PAPER) {
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
        // The identity behind the table.
        assert!((saved - (1.0 - (1.0 + more_power) * (1.0 - less_time))).abs() < 1e-9);
        // Of many links the last ends no sooner when another one has joined late.
        assert!(saved > last - 0.05, "{links} links save {saved}, one less {last}");
        assert!(mptcp.active > 0.0);
        last = saved;
    }
    assert!(last > 0.5, "five links save only {last}");
}
