// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts for the networks of the demo while traffic runs: subflows behind one queue share a bottleneck, and subflows on disjoint
//! paths do not. The tests wait for the verdict; docs/bottleneck.md says how long it takes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::event::KernelEvent;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::{DelaySample, Rest, RttRange};
use mpwatch_model::unit::{Micros, Nanos};
use mpwatch_tests::{list, may_run_as_root, program, text};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);

/// The snapshots of a running `mpwatch top --batch`.
struct Snapshots {
    child: Child,
    lines: Receiver<String>,
}

impl Snapshots {
    fn of(namespace: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["top", "--batch", "--json", "-n", "100000", "--interval", "250ms", "--netns", namespace])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits until the only connection is as expected, and returns it.
    #[track_caller]
    fn wait_for(&self, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let only = |snapshot: &Value| match list(snapshot, "connections") {
            [connection] => is_expected(connection),
            _ => false,
        };
        self.wait_for_snapshot(what, only)["connections"][0].clone()
    }

    /// Waits for the first snapshot that is as expected.
    #[track_caller]
    fn wait_for_snapshot(&self, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut latest = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("waiting for {what}: {error}; {latest:#}"));
            latest = serde_json::from_str(&line).expect("a line is a snapshot");
            if is_expected(&latest) {
                return latest;
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

/// As [`upload_until`], with command line options.
#[track_caller]
fn upload_with_options_until(
    lab: &Topology,
    options: &[&str],
    what: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Value {
    let snapshots = Snapshots::of(lab.client().name(), options);
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

/// Their sawtooths are synchronized and their delays correlate. No intermediate verdict may be `shared`.
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

/// Two connections with a subflow each, through one queue.
#[test]
fn with_across_connections_to_one_address_are_compared() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(&[LinkSpec::default()], link(40.0, 20)).unwrap();
    let snapshots = Snapshots::of(lab.client().name(), &["--across"]);
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload_for(TIMEOUT * 2));
    spec.congestion = Some("cubic".to_owned());
    (spec.connections, spec.concurrency, spec.timeout) = (2, 2, TIMEOUT * 3);
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let is_from = |one: &&Value| one["netns"] == lab.client().name();
    let found = snapshots.wait_for_snapshot("a shared pair", |snapshot| {
        let destinations = list(&snapshot["across"], "destinations");
        destinations.iter().filter(is_from).any(|one| one["pairs"][0]["verdict"] == "shared")
    });
    let destination = list(&found["across"], "destinations").iter().find(is_from).unwrap();
    assert_eq!(
        (list(destination, "subflows").len(), destination["left_out"].as_u64()),
        (2, Some(0)),
        "{destination:#}"
    );
    control.cancel();
    let _ = transfer.join();
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
    let snapshots = Snapshots::of(lab.client().name(), &["--no-bottlenecks"]);
    let spec =
        TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload_for(Duration::from_secs(2)));
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let found = snapshots.wait_for("two subflows", |connection| list(connection, "subflows").len() == 2);
    assert_eq!((&found["bottlenecks"], &found["extra_subflows"]), (&Value::Null, &Value::Null));
    control.cancel();
    let _ = transfer.join();
}

/// Collects the delay samples of the client's subflows.
struct SampleCollector<'a> {
    tracer: Tracer,
    lab: &'a Topology,
    subflows: BTreeSet<SubflowId>,
    samples: BTreeMap<SubflowId, Vec<DelaySample>>,
}

impl SampleCollector<'_> {
    /// Waits until both subflows have `count` successive samples that are as expected.
    #[track_caller]
    fn wait_for_samples(&mut self, count: usize, what: &str, are_expected: impl Fn(&[DelaySample]) -> bool) {
        self.samples.clear();
        let reached = poll_until(what, TIMEOUT, || {
            let (inode, subflows, collected) =
                (self.lab.client().inode(), &mut self.subflows, &mut self.samples);
            let mut sink = |event: &KernelEvent| match event {
                KernelEvent::Subflow(record) if u64::from(record.netns_inode) == inode => {
                    subflows.insert(record.id);
                }
                KernelEvent::Samples(samples) => {
                    collected.entry(samples.id).or_default().extend(&samples.points);
                }
                _ => {}
            };
            self.tracer.poll(Duration::from_millis(20), &mut sink).unwrap();
            self.tracer.snapshot(&mut sink).unwrap();
            let enough = |id: &SubflowId| {
                let last = self.samples.get(id)?.rchunks(count).next()?;
                (last.len() == count && are_expected(last)).then_some(())
            };
            let sampled = self.subflows.iter().filter(|id| self.samples.contains_key(id));
            (sampled.filter_map(enough).count() == 2).then_some(())
        });
        reached.unwrap_or_else(|error| panic!("{error}: {:?}", self.samples));
    }
}

/// Times between samples. The kernel selects samples by the time of sending, so the queueing delay changes the gaps a little.
fn gaps(samples: &[DelaySample]) -> impl Iterator<Item = Duration> + '_ {
    samples.windows(2).map(|pair| Duration::from_nanos(pair[1].at.since(pair[0].at).0))
}

#[test]
fn the_kernel_samples_less_often_until_the_backoff_ends() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(link(20.0, 10), link(20.0, 10)).unwrap();
    let tracer = Tracer::start(Settings { ledger: false, ..Settings::default() }).unwrap();
    let mut collector =
        SampleCollector { tracer, lab: &lab, subflows: BTreeSet::new(), samples: BTreeMap::new() };
    let control = Arc::new(Control::default());
    let mut spec = lab.traffic(Workload::upload_for(TIMEOUT * 4)).unwrap();
    spec.timeout = TIMEOUT * 5;
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let are_dense = |samples: &[DelaySample]| gaps(samples).all(|gap| gap < Duration::from_millis(100));
    collector.wait_for_samples(10, "dense samples", are_dense);
    let backoffs = |until, min_rtt, max_rtt| {
        let usual = RttRange { from: Micros(min_rtt), to: Micros(max_rtt) };
        let subflows = collector.subflows.iter().copied();
        subflows.map(|id| Rest { id, until, pause: Nanos(1_000_000_000), usual }).collect::<Vec<_>>()
    };
    let start = backoffs(Nanos(u64::MAX), 0, u64::MAX);
    let with_unusual_rtts = backoffs(Nanos(u64::MAX), 0, 1);
    let end = backoffs(Nanos(0), 0, u64::MAX);
    collector.tracer.rest(&start);
    let gaps_between = |min, max| {
        let allowed = Duration::from_millis(min)..Duration::from_millis(max);
        move |samples: &[DelaySample]| gaps(samples).all(|gap| allowed.contains(&gap))
    };
    collector.wait_for_samples(3, "sparse samples", gaps_between(750, 1_500));
    collector.tracer.rest(&with_unusual_rtts);
    collector.wait_for_samples(5, "samples of unusual RTTs", gaps_between(150, 600));
    collector.tracer.rest(&end);
    collector.wait_for_samples(10, "dense samples again", are_dense);
    control.cancel();
    let _ = transfer.join();
}
