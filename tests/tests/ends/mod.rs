// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by `root_close` and `root_paths`: a transfer that something happens to, watched by mpwatch and by two independent witnesses: `ss`, and the application.
#![allow(dead_code, reason = "each of the two uses its part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{JoinBy, PathSpec, Quality, TopologySpec};
use mpwatch_lab::traffic::{Control, Outcome, Spec, Transfer, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_tests::{Observer, Report, list, pace, text};
use serde_json::Value;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Round-trip time of each path of [`lab`].
pub(crate) const RTT: Duration = Duration::from_millis(20);

/// Two paths of 40 Mbit/s; the second one a backup or not.
pub(crate) fn lab(join: JoinBy, backup: bool) -> Topology {
    let quality = Quality::rate(40.0, Duration::from_millis(20)).rtt(RTT);
    let path = |backup| PathSpec { quality, backup, ..PathSpec::default() };
    let paths = vec![path(false), path(backup)];
    let lab = Topology::build(&TopologySpec { paths, join, quick_timeouts: true, ..TopologySpec::default() })
        .unwrap();
    // Still quicker: four timeouts instead of six.
    for namespace in [lab.client(), lab.server()] {
        namespace.sysctl("net.ipv4.tcp_retries2", "3").unwrap();
    }
    lab
}

/// One upload, held open at its end until [`Run::finish`].
pub(crate) struct Run {
    pub(crate) lab: Topology,
    pub(crate) control: Arc<Control>,
    observer: Observer,
    transfer: Transfer,
    progress: Witness<Duration>,
    sockets: [Witness<BTreeMap<Ends, Counters>>; 2],
}

/// What came of it.
pub(crate) struct Ended {
    pub(crate) lab: Topology,
    pub(crate) report: Report,
    pub(crate) outcome: Outcome,
    /// The longest pause of the receiving application.
    pub(crate) pause: Duration,
    /// The last that `ss` said of each socket, at the client and at the server.
    pub(crate) last_seen: [BTreeMap<Ends, Counters>; 2],
}

/// Local and remote address of a socket.
pub(crate) type Ends = (SocketAddr, SocketAddr);
/// What `ss -ti` says, by name.
pub(crate) type Counters = BTreeMap<String, u64>;

impl Run {
    pub(crate) fn start(lab: Topology, bytes: u64) -> Self {
        let spec = lab.traffic(Workload::upload(bytes)).unwrap();
        Self::of(lab, &spec, &[])
    }

    pub(crate) fn of(lab: Topology, spec: &Spec, arguments: &[&str]) -> Self {
        let observer = Observer::start(arguments);
        let control = Arc::new(Control::holding());
        let transfer = Transfer::start(lab.client(), lab.server(), spec, &control).unwrap();
        let progress = watch_progress(&control);
        let sockets = [lab.client(), lab.server()].map(watch_sockets);
        Self { lab, control, observer, transfer, progress, sockets }
    }

    /// Waits until the receiver has this many bytes.
    pub(crate) fn received(&self, bytes: u64) {
        until(&format!("{bytes} bytes to arrive"), || self.control.received() >= bytes);
    }

    /// Waits until everything is sent and acknowledged.
    pub(crate) fn held(&self) {
        until("the transfer to be done", || self.control.held() == 1);
    }

    /// Closes the connection, waits until no socket of it is left at either end, and gathers all testimony.
    pub(crate) fn finish(self) -> Ended {
        self.control.release();
        let outcome = self.transfer.join().unwrap();
        for namespace in [self.lab.client(), self.lab.server()] {
            poll_until("all sockets to close", PATIENCE, || sockets(namespace).is_empty().then_some(()))
                .unwrap();
        }
        let report = self.observer.finish();
        let pause = self.progress.finish();
        let last_seen = self.sockets.map(Witness::finish);
        Ended { lab: self.lab, report, outcome, pause, last_seen }
    }
}

/// Waits for a condition.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    poll_until(what, PATIENCE, || condition().then_some(())).unwrap();
}

impl Ended {
    pub(crate) fn client(&self) -> &Value {
        self.report.only_connection_in(self.lab.client().name())
    }

    pub(crate) fn server(&self) -> &Value {
        self.report.only_connection_in(self.lab.server().name())
    }

    /// The application got what was sent, on a connection that lived through it.
    pub(crate) fn assert_complete(&self) {
        let (sender, receiver) = (&self.outcome.client.connections[0], &self.outcome.server.connections[0]);
        assert_eq!((self.outcome.client.first_error(), self.outcome.server.first_error()), (None, None));
        assert_eq!((sender.sent, sender.sent_hash), (receiver.received, receiver.received_hash));
        assert_eq!(self.client()["bytes_sent"], sender.sent);
        assert_eq!(self.server()["bytes_received"], sender.sent);
    }
}

/// The subflow of a connection on path `number`, counted from 1: the client's address there is 10.NUMBER.1.2.
#[track_caller]
pub(crate) fn on_path(connection: &Value, number: u8) -> &Value {
    let here: Vec<&Value> = all_on_path(connection, number);
    assert_eq!(here.len(), 1, "subflows on path {number}: {connection:#}");
    here[0]
}

pub(crate) fn all_on_path(connection: &Value, number: u8) -> Vec<&Value> {
    let net = format!("10.{number}.");
    let client = if connection["role"] == "client" { "local" } else { "remote" };
    list(connection, "subflows").iter().filter(|subflow| text(subflow, client).starts_with(&net)).collect()
}

pub(crate) fn reason(subflow: &Value) -> &str {
    subflow["closed"]["reason"].as_str().unwrap_or("open")
}

/// The events of a timeline, and that they are in order.
#[track_caller]
pub(crate) fn events(connection: &Value) -> Vec<&str> {
    let timeline = list(connection, "timeline");
    // Without the Z: fractions end with their last digit that is not 0, and any digit sorts before a Z.
    let times: Vec<&str> = timeline.iter().map(|entry| text(entry, "at").trim_end_matches('Z')).collect();
    assert!(times.is_sorted(), "{}", show(connection));
    timeline.iter().map(|entry| text(entry, "event")).collect()
}

/// Entries of a timeline of one kind.
pub(crate) fn told<'a>(connection: &'a Value, event: &str) -> Vec<&'a Value> {
    list(connection, "timeline").iter().filter(|entry| entry["event"] == event).collect()
}

/// For a person who reads a failed test.
pub(crate) fn show(connection: &Value) -> String {
    let subflow = |s: &Value| {
        let ends =
            format!("{} {}>{} ids {}/{}", s["id"], s["local"], s["remote"], s["local_id"], s["remote_id"]);
        let carried =
            format!("sent {} acked {} received {}", s["bytes_sent"], s["bytes_acked"], s["bytes_received"]);
        format!("{ends} {carried} {} {}", s["scheduler"], reason(s))
    };
    let head = format!("{} {} fallback {}", connection["netns"], connection["role"], connection["fallback"]);
    let subflows = list(connection, "subflows").iter().map(subflow);
    let timeline = list(connection, "timeline").iter().map(Value::to_string);
    std::iter::once(head).chain(subflows).chain(timeline).collect::<Vec<_>>().join("\n  ")
}

/// A thread that looks on until it is asked.
struct Witness<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<mpwatch_lab::Result<T>>,
}

impl<T> Witness<T> {
    fn finish(self) -> T {
        self.stop.store(true, Ordering::Relaxed);
        mpwatch_lab::join(self.thread).unwrap()
    }
}

/// The longest time in which the application, once it had begun, read nothing.
fn watch_progress(control: &Arc<Control>) -> Witness<Duration> {
    let (stop, control) = (Arc::new(AtomicBool::new(false)), Arc::clone(control));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let (mut last, mut since, mut longest) = (0, Instant::now(), Duration::ZERO);
        while !stopped.load(Ordering::Relaxed) {
            let received = control.received();
            if received != last {
                longest = longest.max(if last == 0 { Duration::ZERO } else { since.elapsed() });
                (last, since) = (received, Instant::now());
            }
            std::thread::sleep(pace::limit(Duration::from_millis(2)));
        }
        Ok(longest)
    });
    Witness { stop, thread }
}

fn watch_sockets(namespace: &Namespace) -> Witness<BTreeMap<Ends, Counters>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = namespace.spawn("ss", move || {
        let mut seen = BTreeMap::new();
        while !stopped.load(Ordering::Relaxed) {
            seen.extend(ask_ss());
            // Each look is a process: on an emulated machine, a good part of all work.
            std::thread::sleep(pace::limit(Duration::from_millis(50)));
        }
        Ok(seen)
    });
    Witness { stop, thread: thread.unwrap() }
}

/// Connected TCP sockets of a namespace with their counters.
pub(crate) fn sockets(namespace: &Namespace) -> BTreeMap<Ends, Counters> {
    namespace.enter(ask_ss).unwrap()
}

/// Whether anything listens in a namespace.
pub(crate) fn listens(namespace: &Namespace) -> bool {
    let ask = || Command::new("ss").args(["-tlnH"]).output().expect("iproute2 has ss");
    !namespace.enter(ask).unwrap().stdout.is_empty()
}

fn ask_ss() -> BTreeMap<Ends, Counters> {
    let output = Command::new("ss").args(["-tinOH"]).output().expect("iproute2 has ss");
    String::from_utf8_lossy(&output.stdout).lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(Ends, Counters)> {
    let mut words = line.split_whitespace().skip(3);
    let ends = (address(words.next()?)?, address(words.next()?)?);
    let pairs = words.filter_map(|word| word.split_once(':'));
    let counters = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    Some((ends, counters.collect()))
}

/// `[::ffff:10.1.1.2]:80`, `10.1.1.2%eth0:80` and `10.1.1.2:80` alike.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip = ip.trim_matches(['[', ']']).split('%').next()?;
    let ip: std::net::IpAddr = ip.parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port.parse().ok()?))
}
