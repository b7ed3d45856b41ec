// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the error rate of elimination in many sets of transfers over two disjoint paths. In every second run the route of one subflow changes
//! after a third of the time, so that both subflows share a bottleneck from then on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::Topology;
use mpwatch_lab::bottleneck::cell::{Cell, Layout, Set};
use mpwatch_lab::bottleneck::network::topology;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_tests::elimination::Elimination;
use mpwatch_tests::may_run_as_root;
use serde_json::Value;

const SECONDS: u32 = 12;
/// Number of connections. Only several connections show that their address pairs share a bottleneck.
const CONNECTIONS: u32 = 3;
/// Default of `--stable`: how long a verdict must have been stable before a removal.
const STABLE: Duration = Duration::from_millis(2_500);

/// The cell of a run. Layouts alternate; the seed determines RTTs and the length of queues.
fn cell(run: u32) -> Cell {
    let layout = [Layout::Disjoint, Layout::Switching][run as usize % 2];
    let mbit = [20, 50, 100][run as usize / 2 % 3];
    Cell {
        unequal: run / 6 % 2 == 1,
        seed: run / 12,
        seconds: SECONDS,
        ..Cell::new(Set::Evaluation, layout, mbit)
    }
}

/// Numbers of removals. A removal is wrong if the removed subflow had its own bottleneck.
#[derive(Debug, Default, PartialEq, Eq)]
struct Removals {
    wrong: usize,
    right: usize,
}

/// Runs a transfer during elimination. Asserts that all bytes arrived.
fn run(cell: &Cell) -> Removals {
    let lab = Topology::build(&topology(cell)).unwrap();
    let mut elimination = Elimination::start(&lab, &["--yes"]);
    let seconds = Duration::from_secs(cell.seconds.into());
    let mut spec = lab.traffic(Workload::upload_for(seconds)).unwrap();
    (spec.congestion, spec.seed) = (Some(cell.congestion.name().to_owned()), cell.seed.into());
    (spec.connections, spec.concurrency) = (CONNECTIONS, CONNECTIONS);
    let (began, control) = (Instant::now(), std::sync::Arc::new(Control::default()));
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let sleep_until = |time: Instant| thread::sleep(time.saturating_duration_since(Instant::now()));
    let mut wrong = None;
    if cell.layout == Layout::Switching {
        sleep_until(began + seconds / 3);
        // Only the initial subflow follows the route. Joined subflows are bound to the interface of their endpoint.
        lab.path(0).unwrap().reroute_over(&lab.path(1).unwrap()).unwrap();
        // Until this time, removals are based on verdicts from before the change.
        sleep_until(began + seconds / 3 + STABLE);
        wrong = Some(elimination.steps("removed").len());
    }
    let outcome = transfer.join().unwrap();
    for client in &outcome.client.connections {
        let server = outcome.server.connections.iter().find(|server| server.remote == client.local).unwrap();
        assert_eq!((&client.error, &server.error), (&None, &None), "{cell}");
        let (sent, received) = ((client.sent, client.sent_hash), (server.received, server.received_hash));
        assert_eq!(sent, received, "{cell}: lost bytes");
    }
    let events = elimination.stop();
    let removals: Vec<&Value> = events.iter().filter(|event| event["step"] == "removed").collect();
    for removal in &removals {
        println!("removed with probability {} after {} us", removal["probability"], removal["stable_us"]);
    }
    let removed = removals.len();
    let wrong = wrong.unwrap_or(removed);
    Removals { wrong, right: removed - wrong }
}

#[test]
#[ignore = "MPWATCH_TEST_RUNS runs, 20 by default, of 15 s each, from number MPWATCH_TEST_FIRST on"]
fn few_removals_are_wrong_and_all_bytes_arrive() {
    if !may_run_as_root() {
        return;
    }
    let number = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let first = number("MPWATCH_TEST_FIRST", 0);
    let numbers = first..first + number("MPWATCH_TEST_RUNS", 20);
    let mut sum = Removals::default();
    for number in numbers.clone() {
        let cell = cell(number);
        let removals = run(&cell);
        println!("{number}: {cell}: {removals:?}");
        (sum.wrong, sum.right) = (sum.wrong + removals.wrong, sum.right + removals.right);
    }
    println!("{} runs: {sum:?}", numbers.len());
    assert!(sum.right > 0, "nothing was removed");
    assert!(sum.wrong * 100 <= sum.wrong + sum.right, "{sum:?}");
}
