// SPDX-License-Identifier: MIT OR Apache-2.0
//! The networks of the demo, judged while traffic runs: subflows behind one queue are found, and those on paths of their own are told
//! apart. Waits for the verdict, whenever it comes; how soon it comes is measured elsewhere (docs/bottleneck.md).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{Control, Spec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::event::KernelEvent;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::{DelaySample, Rest, RttRange};
use mpwatch_model::unit::{Micros, Nanos};
use mpwatch_tests::{list, may_run_as_root, program, text};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(2);

/// `mpwatch top --batch`, a snapshot at a time.
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

    /// The only connection, in the first snapshot in which this holds for it.
    #[track_caller]
    fn wait_for(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut latest = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("waiting for {what}: {error}; {latest:#}"));
            latest = serde_json::from_str(&line).expect("a line is a snapshot");
            if let [connection] = list(&latest, "connections")
                && holds(connection)
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

/// Runs an upload through this network until the verdicts on it are as wanted.
#[track_caller]
fn judge(lab: &Topology, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    judge_by(lab, &[], what, is_it)
}

/// As [`judge`], with options of the command line.
#[track_caller]
fn judge_by(lab: &Topology, options: &[&str], what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let snapshots = Snapshots::of(lab.client().name(), options);
    let workload = Workload::upload_for(PATIENCE * 2);
    let mut spec = Spec::new(lab.path(0).unwrap().server_address(), workload);
    spec.congestion = Some("cubic".to_owned());
    spec.deadline = PATIENCE * 3;
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let found = snapshots.wait_for(what, is_it);
    control.cancel();
    // Cut off in the middle, and meant to be.
    let _ = transfer.join();
    found
}

fn verdicts(connection: &Value) -> Vec<&str> {
    let pairs = connection["bottlenecks"]["pairs"].as_array().map_or(&[][..], Vec::as_slice);
    pairs.iter().map(|pair| text(pair, "verdict")).collect()
}

fn path(mbit: f64, rtt_ms: u64) -> Quality {
    Quality::rate(mbit, Duration::from_millis(50)).rtt(Duration::from_millis(rtt_ms))
}

#[test]
fn subflows_behind_one_queue_share_a_bottleneck() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(&[Quality::default(); 3], path(40.0, 20)).unwrap();
    let found = judge(&lab, "one group of three", |connection| connection["extra_subflows"] == 2);
    let [group] = list(&found["bottlenecks"], "groups") else { panic!("{found:#}") };
    assert_eq!(group.as_array().unwrap().len(), 3);
    assert!(!verdicts(&found).contains(&"disjoint"), "{found:#}");
    for pair in list(&found["bottlenecks"], "pairs").iter().filter(|pair| pair["verdict"] == "shared") {
        assert!(pair["probability"].as_f64().unwrap() > 0.5, "{pair:#}");
        assert!(pair["since_us"].is_u64() && pair["evidence"]["busy_a"].is_f64(), "{pair:#}");
    }
}

#[test]
fn subflows_on_paths_of_their_own_are_disjoint() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(path(40.0, 10), path(20.0, 30)).unwrap();
    let found = judge(&lab, "a disjoint pair", |connection| verdicts(connection) == ["disjoint"]);
    assert_eq!(found["extra_subflows"], 0);
    assert_eq!(list(&found["bottlenecks"], "groups").len(), 2);
}

/// Their sawtooths line up and their delays move together; no verdict on the way may take them for one.
#[test]
fn equal_paths_of_their_own_are_never_taken_for_one() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(path(30.0, 10), path(30.0, 10)).unwrap();
    let found = judge(&lab, "a disjoint pair", |connection| {
        let verdicts = verdicts(connection);
        assert!(!verdicts.contains(&"shared"), "{:#}", connection["bottlenecks"]);
        verdicts == ["disjoint"]
    });
    assert_eq!(found["extra_subflows"], 0);
}

#[test]
fn the_method_can_be_chosen_where_traffic_runs() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(&[Quality::default(); 2], path(40.0, 20)).unwrap();
    let found = judge_by(&lab, &["--method", "dwc"], "one group of two", |connection| {
        connection["extra_subflows"] == 1
    });
    assert_eq!(found["bottlenecks"]["method"], "dwc");
    assert!(found["bottlenecks"]["pairs"][0]["evidence"].is_null(), "{found:#}");
}

#[test]
fn without_detection_nobody_looks() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(path(40.0, 10), path(20.0, 10)).unwrap();
    let snapshots = Snapshots::of(lab.client().name(), &["--no-bottlenecks"]);
    let spec = Spec::new(lab.path(0).unwrap().server_address(), Workload::upload_for(Duration::from_secs(2)));
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let found = snapshots.wait_for("two subflows", |connection| list(connection, "subflows").len() == 2);
    assert_eq!((&found["bottlenecks"], &found["extra_subflows"]), (&Value::Null, &Value::Null));
    control.cancel();
    let _ = transfer.join();
}

/// The points of the client's subflows of a lab, as they come.
struct Watch<'a> {
    tracer: Tracer,
    lab: &'a Topology,
    ours: BTreeSet<SubflowId>,
    points: BTreeMap<SubflowId, Vec<DelaySample>>,
}

impl Watch<'_> {
    /// Waits until both subflows have as many points as that, one after the other, that are as wanted.
    #[track_caller]
    fn until_each_has(&mut self, count: usize, what: &str, is_wanted: impl Fn(&[DelaySample]) -> bool) {
        self.points.clear();
        let reached = poll_until(what, PATIENCE, || {
            let (inode, ours, points) = (self.lab.client().inode(), &mut self.ours, &mut self.points);
            let mut sink = |event: &KernelEvent| match event {
                KernelEvent::Subflow(record) if u64::from(record.netns_inode) == inode => {
                    ours.insert(record.id);
                }
                KernelEvent::Samples(samples) => {
                    points.entry(samples.id).or_default().extend(&samples.points);
                }
                _ => {}
            };
            self.tracer.poll(Duration::from_millis(20), &mut sink).unwrap();
            self.tracer.snapshot(&mut sink).unwrap();
            let enough = |id: &SubflowId| {
                let last = self.points.get(id)?.rchunks(count).next()?;
                (last.len() == count && is_wanted(last)).then_some(())
            };
            let sampled = self.ours.iter().filter(|id| self.points.contains_key(id));
            (sampled.filter_map(enough).count() == 2).then_some(())
        });
        reached.unwrap_or_else(|error| panic!("{error}: {:?}", self.points));
    }
}

/// Times between points, which are what they are by the time of sending; the queue makes them a little longer or shorter.
fn gaps(points: &[DelaySample]) -> impl Iterator<Item = Duration> + '_ {
    points.windows(2).map(|two| Duration::from_nanos(two[1].at.since(two[0].at).0))
}

#[test]
fn the_kernel_lets_paths_rest_until_they_are_woken() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::two_paths(path(20.0, 10), path(20.0, 10)).unwrap();
    let tracer = Tracer::start(Settings { ledger: false, ..Settings::default() }).unwrap();
    let mut watch = Watch { tracer, lab: &lab, ours: BTreeSet::new(), points: BTreeMap::new() };
    let control = Arc::new(Control::default());
    let mut spec = lab.traffic(Workload::upload_for(PATIENCE * 4)).unwrap();
    spec.deadline = PATIENCE * 5;
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    let is_dense = |points: &[DelaySample]| gaps(points).all(|gap| gap < Duration::from_millis(100));
    watch.until_each_has(10, "dense samples", is_dense);
    let order = |until, shortest, longest| {
        let usual = RttRange { from: Micros(shortest), to: Micros(longest) };
        watch_ids(&watch)
            .into_iter()
            .map(|id| Rest { id, until, pause: Nanos(1_000_000_000), usual })
            .collect::<Vec<_>>()
    };
    let rest = order(Nanos(u64::MAX), 0, u64::MAX);
    let (news, wake) = (order(Nanos(u64::MAX), 0, 1), order(Nanos(0), 0, u64::MAX));
    watch.tracer.rest(&rest);
    let are_between = |least, most| {
        let allowed = Duration::from_millis(least)..Duration::from_millis(most);
        move |points: &[DelaySample]| gaps(points).all(|gap| allowed.contains(&gap))
    };
    watch.until_each_has(3, "sparse samples", are_between(750, 1_500));
    watch.tracer.rest(&news);
    watch.until_each_has(5, "samples of RTTs that are news", are_between(150, 600));
    watch.tracer.rest(&wake);
    watch.until_each_has(10, "dense samples again", is_dense);
    control.cancel();
    let _ = transfer.join();
}

fn watch_ids(watch: &Watch<'_>) -> Vec<SubflowId> {
    watch.ours.iter().copied().collect()
}
