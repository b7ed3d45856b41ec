// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts for the networks of the demo while traffic runs: subflows behind one queue share a bottleneck, and subflows on disjoint
//! paths do not. The tests wait for the verdict; docs/bottleneck.md has the time that it takes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;
use mpwatch_tests::{lines, list, may_run_as_root, program, text};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);
const MAX_GAP: Nanos = Nanos(100_000_000);

/// The snapshots of a running `mpwatch top --batch`.
struct Snapshots {
    child: Child,
    lines: Receiver<String>,
}

impl Snapshots {
    fn start(namespace: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["top", "--batch", "--json", "-n", "100000", "--interval", "250ms", "--netns", namespace])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let lines = lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits until the only connection is as expected, and returns it.
    #[track_caller]
    fn wait_for(&self, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut latest = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("waiting for {what}: {error}; {latest:#}"));
            latest = serde_json::from_str(&line).expect("a line is a snapshot");
            if let [connection] = list(&latest, "connections")
                && is_expected(connection)
            {
                return connection.clone();
            }
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs an upload until the verdicts are as expected, and returns the connection.
#[track_caller]
fn upload_until(lab: &Topology, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    upload_with_options_until(lab, &[], what, is_expected)
}

/// The same as [`upload_until`], with command line options.
#[track_caller]
fn upload_with_options_until(
    lab: &Topology,
    options: &[&str],
    what: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Value {
    let snapshots = Snapshots::start(lab.client().name(), options);
    let workload = Workload::upload_for(TIMEOUT * 2);
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), workload);
    spec.congestion = Some("cubic".to_owned());
    spec.timeout = TIMEOUT * 3;
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let found = snapshots.wait_for(what, is_expected);
    control.cancel();
    // The upload was cancelled, so its result is an error.
    let _ = transfer.join();
    found
}

fn verdicts(connection: &Value) -> Vec<&str> {
    let pairs = connection["bottlenecks"]["pairs"].as_array().map_or(&[][..], Vec::as_slice);
    pairs.iter().map(|pair| text(pair, "verdict")).collect()
}

fn link(mbit: f64, rtt_ms: u64) -> LinkSpec {
    LinkSpec::rate(mbit, Duration::from_millis(50)).rtt(Duration::from_millis(rtt_ms))
}

#[test]
fn subflows_behind_one_queue_share_a_bottleneck() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(&[LinkSpec::default(); 3], link(40.0, 20)).unwrap();
    let found = upload_until(&lab, "one group of three", |connection| connection["extra_subflows"] == 2);
    let [group] = list(&found["bottlenecks"], "groups") else { panic!("{found:#}") };
    assert_eq!(group.as_array().unwrap().len(), 3);
    assert!(!verdicts(&found).contains(&"disjoint"), "{found:#}");
    for pair in list(&found["bottlenecks"], "pairs").iter().filter(|pair| pair["verdict"] == "shared") {
        assert!(pair["probability"].as_f64().unwrap() > 0.5, "{pair:#}");
        assert!(pair["since_us"].is_u64() && pair["evidence"]["busy_a"].is_f64(), "{pair:#}");
    }
}

#[test]
fn subflows_on_disjoint_paths_are_disjoint() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(link(40.0, 10), link(20.0, 30)).unwrap();
    let found = upload_until(&lab, "a disjoint pair", |connection| verdicts(connection) == ["disjoint"]);
    assert_eq!(found["extra_subflows"], 0);
    assert_eq!(list(&found["bottlenecks"], "groups").len(), 2);
}

/// The sawtooths of both subflows are synchronized and their delays correlate. No intermediate verdict may be `shared`.
#[test]
fn equal_disjoint_paths_are_never_shared() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(link(30.0, 10), link(30.0, 10)).unwrap();
    let found = upload_until(&lab, "a disjoint pair", |connection| {
        let verdicts = verdicts(connection);
        assert!(!verdicts.contains(&"shared"), "{:#}", connection["bottlenecks"]);
        verdicts == ["disjoint"]
    });
    assert_eq!(found["extra_subflows"], 0);
}

#[test]
fn the_method_can_be_selected() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(&[LinkSpec::default(); 2], link(40.0, 20)).unwrap();
    let found = upload_with_options_until(&lab, &["--method", "dwc"], "one group of two", |connection| {
        connection["extra_subflows"] == 1
    });
    assert_eq!(found["bottlenecks"]["method"], "dwc");
    assert!(found["bottlenecks"]["pairs"][0]["evidence"].is_null(), "{found:#}");
}

#[test]
fn with_no_bottlenecks_there_are_no_verdicts() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(link(40.0, 10), link(20.0, 10)).unwrap();
    let snapshots = Snapshots::start(lab.client().name(), &["--no-bottlenecks"]);
    let spec =
        TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload_for(Duration::from_secs(2)));
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let found = snapshots.wait_for("two subflows", |connection| list(connection, "subflows").len() == 2);
    assert_eq!((&found["bottlenecks"], &found["extra_subflows"]), (&Value::Null, &Value::Null));
    control.cancel();
    let _ = transfer.join();
}

/// Collects the kernel's samples of the client's two subflows.
#[test]
fn samples_of_a_busy_subflow_are_less_than_100_ms_apart() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(link(20.0, 10), link(20.0, 10)).unwrap();
    let mut tracer =
        Tracer::start(TracerSettings { ledger: LedgerMode::Off, ..TracerSettings::default() }).unwrap();
    let control = Arc::new(Control::default());
    let spec = lab.traffic(Workload::upload_for(TIMEOUT * 4)).unwrap();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let inode = lab.client().inode();
    let (mut subflows, mut collected) = (BTreeSet::new(), BTreeMap::<SubflowId, Vec<DelaySample>>::new());
    let are_close = |last: &[DelaySample]| last.windows(2).all(|pair| pair[1].at.since(pair[0].at) < MAX_GAP);
    let reached = poll_until("ten samples in a row of two subflows", TIMEOUT, || {
        let mut sink = |event: &KernelEvent| match event {
            KernelEvent::Subflow(record) if u64::from(record.netns_inode) == inode => {
                subflows.insert(record.id);
            }
            KernelEvent::Samples(samples) => {
                collected.entry(samples.id).or_default().extend(&samples.samples);
            }
            _ => {}
        };
        tracer.poll(Duration::from_millis(20), &mut sink).unwrap();
        tracer.snapshot(&mut sink).unwrap();
        let last_ten = subflows.iter().filter_map(|id| collected.get(id)?.rchunks_exact(10).next());
        (last_ten.filter(|last| are_close(last)).count() == 2).then_some(())
    });
    reached.unwrap_or_else(|error| panic!("{error}: {collected:?}"));
    control.cancel();
    let _ = transfer.join();
}
