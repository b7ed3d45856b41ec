// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transfer that mpwatch records while `ss` and the application measure it independently.
#![allow(dead_code, reason = "each target uses a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{JoinBy, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, TransferOutcome, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_tests::{Observer, Report, emulation, list, text};
use serde_json::Value;

/// Timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// Round-trip time of each path of [`lab`].
pub(crate) const RTT: Duration = Duration::from_millis(20);

/// Two paths of 40 Mbit/s. `backup`: whether the second path is a backup.
pub(crate) fn lab(join: JoinBy, backup: bool) -> Topology {
    let link = LinkSpec::rate(40.0, Duration::from_millis(20)).rtt(RTT);
    let path = |backup| PathSpec { link, backup, ..PathSpec::default() };
    let paths = vec![path(false), path(backup)];
    let lab = Topology::build(&TopologySpec { paths, join, quick_timeouts: true, ..TopologySpec::default() })
        .unwrap();
    // A subflow ends after four retransmission timeouts instead of six.
    for namespace in [lab.client(), lab.server()] {
        namespace.sysctl("net.ipv4.tcp_retries2", "3").unwrap();
    }
    lab
}

/// An upload whose connection stays open until [`ObservedTransfer::finish`].
pub(crate) struct ObservedTransfer {
    pub(crate) lab: Topology,
    pub(crate) control: Arc<Control>,
    observer: Observer,
    transfer: Transfer,
    stalls: Monitor<Duration>,
    sockets: [Monitor<BTreeMap<Addresses, Counters>>; 2],
}

/// The result of a transfer.
pub(crate) struct TransferResult {
    pub(crate) lab: Topology,
    pub(crate) report: Report,
    pub(crate) outcome: TransferOutcome,
    /// The longest time in which the receiving application read nothing.
    pub(crate) longest_stall: Duration,
    /// The last output of `ss` about each socket, at the client and at the server.
    pub(crate) last_counters: [BTreeMap<Addresses, Counters>; 2],
}

/// Local and remote address of a socket.
pub(crate) type Addresses = (SocketAddr, SocketAddr);
/// Counters of `ss -ti`, by name.
pub(crate) type Counters = BTreeMap<String, u64>;

impl ObservedTransfer {
    pub(crate) fn start(lab: Topology, bytes: u64) -> Self {
        let spec = lab.traffic(Workload::upload(bytes)).unwrap();
        Self::with_spec(lab, &spec, &[])
    }

    /// Starts an upload with scheduler accounting, which needs the exact ledger.
    pub(crate) fn with_ledger(lab: Topology, bytes: u64) -> Self {
        let spec = lab.traffic(Workload::upload(bytes)).unwrap();
        Self::observe(Observer::start_complete(&["--ledger", "exact"]), lab, &spec)
    }

    pub(crate) fn with_spec(lab: Topology, spec: &TrafficSpec, arguments: &[&str]) -> Self {
        Self::observe(Observer::start(arguments), lab, spec)
    }

    fn observe(observer: Observer, lab: Topology, spec: &TrafficSpec) -> Self {
        let control = Arc::new(Control::holding());
        let transfer = Transfer::start(lab.client(), lab.server(), spec, &control).unwrap();
        let stalls = monitor_stalls(&control);
        let sockets = [lab.client(), lab.server()].map(monitor_sockets);
        Self { lab, control, observer, transfer, stalls, sockets }
    }

    /// Waits until the receiver has this many bytes.
    pub(crate) fn wait_for_bytes(&self, bytes: u64) {
        wait_until(&format!("{bytes} bytes to arrive"), || self.control.received() >= bytes);
    }

    /// Waits until everything is sent and acknowledged.
    pub(crate) fn wait_for_completion(&self) {
        wait_until("the end of the transfer", || self.control.held() == 1);
    }

    /// Closes the connection, waits until both ends have removed its sockets, and collects all results.
    pub(crate) fn finish(self) -> TransferResult {
        self.control.release();
        let outcome = self.transfer.join().unwrap();
        for namespace in [self.lab.client(), self.lab.server()] {
            poll_until("all sockets to close", TIMEOUT, || sockets(namespace).is_empty().then_some(()))
                .unwrap();
        }
        let report = self.observer.finish();
        let longest_stall = self.stalls.finish();
        let last_counters = self.sockets.map(Monitor::finish);
        TransferResult { lab: self.lab, report, outcome, longest_stall, last_counters }
    }
}

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    poll_until(what, TIMEOUT, || condition().then_some(())).unwrap();
}

impl TransferResult {
    pub(crate) fn client(&self) -> &Value {
        self.report.only_connection_in(self.lab.client().name())
    }

    pub(crate) fn server(&self) -> &Value {
        self.report.only_connection_in(self.lab.server().name())
    }

    /// Asserts that the application received all bytes, and that mpwatch counted them.
    pub(crate) fn assert_complete(&self) {
        let (sender, receiver) = (&self.outcome.client.connections[0], &self.outcome.server.connections[0]);
        assert_eq!((self.outcome.client.first_error(), self.outcome.server.first_error()), (None, None));
        assert_eq!((sender.sent, sender.sent_hash), (receiver.received, receiver.received_hash));
        assert_eq!(self.client()["bytes_sent"], sender.sent);
        assert_eq!(self.server()["bytes_received"], sender.sent);
    }
}

/// The subflow on path `number`, from 1, where the client's address is 10.NUMBER.1.2.
#[track_caller]
pub(crate) fn on_path(connection: &Value, number: u8) -> &Value {
    let subflows: Vec<&Value> = all_on_path(connection, number);
    assert_eq!(subflows.len(), 1, "subflows on path {number}: {connection:#}");
    subflows[0]
}

pub(crate) fn all_on_path(connection: &Value, number: u8) -> Vec<&Value> {
    let prefix = format!("10.{number}.");
    let client = if connection["role"] == "client" { "local" } else { "remote" };
    list(connection, "subflows").iter().filter(|subflow| text(subflow, client).starts_with(&prefix)).collect()
}

pub(crate) fn reason(subflow: &Value) -> &str {
    subflow["closed"]["reason"].as_str().unwrap_or("open")
}

/// The events of a timeline. Asserts that they are in order.
#[track_caller]
pub(crate) fn events(connection: &Value) -> Vec<&str> {
    let timeline = list(connection, "timeline");
    // Compares without the Z, because times omit trailing zeros of the fraction and digits sort before a Z.
    let times: Vec<&str> = timeline.iter().map(|entry| text(entry, "at").trim_end_matches('Z')).collect();
    assert!(times.is_sorted(), "{}", show(connection));
    timeline.iter().map(|entry| text(entry, "event")).collect()
}

/// The timeline entries of one kind.
pub(crate) fn timeline_entries<'a>(connection: &'a Value, event: &str) -> Vec<&'a Value> {
    list(connection, "timeline").iter().filter(|entry| entry["event"] == event).collect()
}

/// A summary of a connection for error messages.
pub(crate) fn show(connection: &Value) -> String {
    let subflow = |s: &Value| {
        let addresses =
            format!("{} {}>{} ids {}/{}", s["id"], s["local"], s["remote"], s["local_id"], s["remote_id"]);
        let carried =
            format!("sent {} acked {} received {}", s["bytes_sent"], s["bytes_acked"], s["bytes_received"]);
        format!("{addresses} {carried} {} {}", s["scheduler"], reason(s))
    };
    let head = format!("{} {} fallback {}", connection["netns"], connection["role"], connection["fallback"]);
    let subflows = list(connection, "subflows").iter().map(subflow);
    let timeline = list(connection, "timeline").iter().map(Value::to_string);
    std::iter::once(head).chain(subflows).chain(timeline).collect::<Vec<_>>().join("\n  ")
}

/// A thread that measures until it is stopped.
struct Monitor<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<mpwatch_lab::Result<T>>,
}

impl<T> Monitor<T> {
    fn finish(self) -> T {
        self.stop.store(true, Ordering::Relaxed);
        mpwatch_lab::join(self.thread).unwrap()
    }
}

/// Measures the longest time without progress of the receiving application, from its first byte on.
fn monitor_stalls(control: &Arc<Control>) -> Monitor<Duration> {
    let (stop, control) = (Arc::new(AtomicBool::new(false)), Arc::clone(control));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let (mut last, mut changed, mut longest) = (0, Instant::now(), Duration::ZERO);
        while !stopped.load(Ordering::Relaxed) {
            let received = control.received();
            if received != last {
                longest = longest.max(if last == 0 { Duration::ZERO } else { changed.elapsed() });
                (last, changed) = (received, Instant::now());
            }
            std::thread::sleep(emulation::timeout(Duration::from_millis(2)));
        }
        Ok(longest)
    });
    Monitor { stop, thread }
}

fn monitor_sockets(namespace: &Namespace) -> Monitor<BTreeMap<Addresses, Counters>> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = namespace.spawn("ss", move || {
        let mut counters = BTreeMap::new();
        while !stopped.load(Ordering::Relaxed) {
            counters.extend(run_ss());
            // Each sample starts a process, which is expensive on an emulated machine.
            std::thread::sleep(emulation::timeout(Duration::from_millis(50)));
        }
        Ok(counters)
    });
    Monitor { stop, thread: thread.unwrap() }
}

/// The connected TCP sockets of a namespace with their counters.
pub(crate) fn sockets(namespace: &Namespace) -> BTreeMap<Addresses, Counters> {
    namespace.enter(run_ss).unwrap()
}

/// Whether a namespace has a listening TCP socket.
pub(crate) fn has_listener(namespace: &Namespace) -> bool {
    let run_ss = || Command::new("ss").args(["-tlnH"]).output().expect("iproute2 has ss");
    !namespace.enter(run_ss).unwrap().stdout.is_empty()
}

fn run_ss() -> BTreeMap<Addresses, Counters> {
    let output = Command::new("ss").args(["-tinOH"]).output().expect("iproute2 has ss");
    String::from_utf8_lossy(&output.stdout).lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(Addresses, Counters)> {
    let mut words = line.split_whitespace().skip(3);
    let addresses = (parse_address(words.next()?)?, parse_address(words.next()?)?);
    let pairs = words.filter_map(|word| word.split_once(':'));
    let counters = pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    Some((addresses, counters.collect()))
}

/// Parses `10.1.1.2:80`, `10.1.1.2%eth0:80` and `[::ffff:10.1.1.2]:80`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip = ip.trim_matches(['[', ']']).split('%').next()?;
    let ip: std::net::IpAddr = ip.parse().ok()?;
    Some(SocketAddr::new(ip.to_canonical(), port.parse().ok()?))
}
