// SPDX-License-Identifier: MIT OR Apache-2.0
//! The budget of CPU time: under traffic that exceeds it, mpwatch applies every step that saves CPU time; without traffic, it undoes them
//! all.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mpwatch_lab::Topology;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_tests::{lines, may_run_as_root, program};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(3);
const STEPS: u64 = 5;
/// Number of snapshots that are skipped after a change of the load, and number over which the cost is averaged, because only some snapshots
/// contain a window of the ledger.
const SETTLING: usize = 15;
const MEASURED: usize = 20;
/// Number of connections that keep two CPUs busy.
const CONNECTIONS: u32 = 8;

/// Snapshots of a tracer, five per second.
struct Snapshots {
    tracer: Child,
    lines: Receiver<String>,
}

impl Snapshots {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["top", "--batch", "--json", "--interval", "200ms"]).args(options);
        let mut tracer = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines(tracer.stdout.take().unwrap());
        Self { tracer, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(TIMEOUT).expect("mpwatch continues")).unwrap()
    }

    /// Mean cost of the tracer after the load has settled, as a share of the machine's CPU time.
    fn cost(&mut self) -> f64 {
        (0..SETTLING).for_each(|_| drop(self.next()));
        let ratio = |snapshot: Value| snapshot["overhead"]["ratio"].as_f64().expect("the cost is measured");
        (0..MEASURED).map(|_| ratio(self.next())).sum::<f64>() / MEASURED as f64
    }

    /// Reads until this many steps are applied. Returns all snapshots in which the number had changed.
    fn until(&mut self, steps: u64) -> Vec<Value> {
        let (mut changes, begin) = (Vec::<Value>::new(), Instant::now());
        loop {
            let snapshot = self.next();
            let taken = reductions(&snapshot);
            if changes.last().is_none_or(|last| reductions(last) != taken) {
                changes.push(snapshot);
            }
            if taken == Some(steps) {
                return changes;
            }
            assert!(begin.elapsed() < TIMEOUT, "{steps} steps are not reached: {:#?}", changes.last());
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}

/// `None`: the cost is not measured yet.
fn reductions(snapshot: &Value) -> Option<u64> {
    snapshot["overhead"]["reductions"].as_u64()
}

fn missing(snapshot: &Value) -> Vec<&Value> {
    let all = snapshot["host"]["missing"].as_array().unwrap();
    all.iter().filter(|entry| entry["why"].as_str().is_some_and(|why| why.contains("trace.budget"))).collect()
}

#[test]
fn every_step_is_taken_under_load_and_undone_without() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let workload = Workload::Requests {
        count: u64::MAX,
        request_bytes: 64,
        response_bytes: 64,
        think_time: Duration::ZERO,
    };
    let mut unlimited = Snapshots::start(&[]);
    let at_rest = unlimited.cost();
    let mut spec = lab.traffic(workload).unwrap();
    (spec.connections, spec.concurrency) = (CONNECTIONS, CONNECTIONS);
    (spec.timeout, spec.read_socket_info) = (2 * TIMEOUT, false);
    let control = Arc::new(Control::default());
    let traffic = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let loaded = unlimited.cost();
    drop(unlimited);
    assert!(loaded > 1.8 * at_rest, "traffic costs {loaded}, no traffic {at_rest}");

    // The budget is above the reduced cost without traffic and below the reduced cost with traffic.
    let budget = format!("{}%", (at_rest * loaded).sqrt() * 100.0);
    let mut snapshots = Snapshots::start(&["--budget", &budget]);
    let up = snapshots.until(STEPS);
    let taken: Vec<u64> = up.iter().filter_map(reductions).collect();
    assert_eq!(taken, (0..=STEPS).collect::<Vec<_>>(), "one step after the other");
    let named = missing(up.last().unwrap());
    assert_eq!(named.len(), 3, "windows, samples, RTTs: {named:#?}");
    let open = up.last().unwrap()["connections"].as_array().unwrap();
    assert!(
        open.iter().any(|connection| connection["bytes_received"].as_u64() > Some(0)),
        "tracing continues"
    );

    control.cancel();
    // The traffic was cancelled, so its report is not used.
    let _ = traffic.join();
    let down = snapshots.until(0);
    // A step may be applied again, because the cost without traffic is just below the budget.
    let taken: Vec<u64> = down.iter().filter_map(reductions).collect();
    assert!(
        taken.windows(2).all(|pair| pair[0].abs_diff(pair[1]) == 1),
        "one step after the other: {taken:?}"
    );
    assert_eq!((taken.first(), taken.last()), (Some(&STEPS), Some(&0)));
    assert_eq!(missing(down.last().unwrap()).len(), 0);
}
