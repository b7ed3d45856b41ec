// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch's round-trip times and losses beside an enforcer that shares no code with this project: the kernel's `netem`.
//! Runs in the guests, whose kernels have it; where it is missing these tests fail rather than fall back to the lab's relay.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{Path, Quality};
use mpwatch_lab::traffic::{self, ConnectionReport, Control, Transfer, Workload};
use mpwatch_lab::{
    Direction, Enforcer, Impairer, ImpairerCounters, Impairment, Namespace, TcpInfo, Topology, mib,
    poll_until,
};
use mpwatch_tests::{Observer, list, number, text};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

const RTT: Duration = Duration::from_millis(20);
const RTT_TOLERANCE: f64 = 0.05;
const LOSS: f64 = 0.01;
/// Two-sided 99.9 % of the normal distribution.
const DEVIATIONS: f64 = 3.291;
const PATIENCE: Duration = Duration::from_mins(1);

/// These tests are for the guests, which `./dev vm` runs with MPWATCH_REQUIRE_ALL=1; there netem must be.
fn may_run() -> bool {
    let required = std::env::var_os("MPWATCH_REQUIRE_ALL").is_some();
    let able = nix::unistd::geteuid().is_root() && matches!(Enforcer::here(), Ok(Enforcer::Netem));
    if !able && !required {
        eprintln!("SKIP: needs root and a kernel with netem; `./dev vm` has both");
    }
    able || required
}

#[test]
fn round_trips_are_those_that_netem_was_told() {
    if !may_run() {
        return;
    }
    let topology = two_paths_of_netem();
    acknowledge_at_once(topology.server());
    let observer = Observer::start(&[]);
    // Paced below what an emulated machine carries: no queue adds to the delay.
    let workload = Workload::Paced { rate: 8_000_000, duration: Duration::from_secs(6) };
    let spec = topology.traffic(workload).unwrap();
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_when_quiet(&topology);

    let client = report.only_connection_in(topology.client().name());
    let server = report.only_connection_in(topology.server().name());
    let mut far_off = Vec::new();
    for path in topology.paths() {
        // If these are off it is the machine that is slow, not mpwatch that is wrong.
        let trips = datagram_round_trips(&topology, path, 50);
        far_off.extend(off("datagrams, the median", trips[trips.len() / 2]));
        let (ours, theirs) = (subflow_on(client, path), peer_of(server, path));
        let kernel = kernel_account(&outcome.client.connections[0], ours);
        far_off.extend(off("the kernel's srtt", kernel.srtt_us.into()));
        far_off.extend(off("the kernel's minimum", kernel.min_rtt_us.into()));
        for field in ["srtt_us", "rtt_p50_us", "rtt_min_us", "handshake_us"] {
            far_off.extend(off(field, number(ours, field)));
        }
        far_off.extend(off("the server's handshake_us", number(theirs, "handshake_us")));
        assert!(number(ours, "rtt_samples") > 100, "{ours:#}");
    }
    assert!(far_off.is_empty(), "further than 5 % off: {far_off:#?}\n{client:#}\n{server:#}");
}

/// netem loses packets only while nothing but payload goes from client to server: SYNs have been answered and FINs are not
/// sent yet. So each packet that it dropped is one that TCP must send again, lost repetitions included, and no other is but
/// for needless ones; and those the receiver reports, each by itself (D-SACK, RFC 2883).
#[test]
fn losses_are_those_that_netem_counted() {
    /// Packets that netem may have dropped though TCP does not repeat them: one in a hundred of the client's few pure
    /// acknowledgements (of an `ADD_ADDR`, of a window) and of neighbour discovery.
    const NOT_REPEATED: u64 = 3;
    if !may_run() {
        return;
    }
    let topology = two_paths_of_netem();
    let (clean, lossy) = (topology.path(0).unwrap(), topology.path(1).unwrap());
    let observer = Observer::start(&[]);
    on_one_cpu();
    let duplicates_before = reported_duplicates(&topology);
    let idle = sent_over(lossy);
    let control = Arc::new(Control::holding());
    let workload = Workload::Paced { rate: 16_000_000, duration: Duration::from_secs(12) };
    let mut spec = topology.traffic(workload).unwrap();
    // It does not slow down for each loss, so the scheduler keeps using the path.
    spec.congestion = Some("bbr".to_owned());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("payload on the second path", PATIENCE, || (sent_over(lossy) > idle + 100_000).then_some(()))
        .unwrap();
    let rule = impairer(lossy).impairment(Direction::Forward);
    let before = forward(lossy);
    impairer(lossy).set(Direction::Forward, Impairment { loss: LOSS, ..rule }).unwrap();
    poll_until("all payload to be acknowledged", PATIENCE, || (control.held() > 0).then_some(())).unwrap();
    impairer(lossy).set(Direction::Forward, rule).unwrap();
    let after = forward(lossy);
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(outcome.server.received(), outcome.client.sent());
    let report = observer.finish_when_quiet(&topology);

    let connection = report.only_connection_in(topology.client().name());
    let [on_clean, on_lossy] = [clean, lossy].map(|path| subflow_on(connection, path));
    let resent = |subflow| number(subflow, "segments_retransmitted");
    let dropped = after.lost - before.lost;
    let packets = dropped + after.forwarded - before.forwarded;
    let needless = reported_duplicates(&topology) - duplicates_before;
    println!(
        "netem dropped {dropped} of {packets}; sent again {}, needlessly {needless}, {}; on the clean path {}",
        resent(on_lossy),
        on_lossy["retransmits"],
        on_clean["retransmits"],
    );

    for subflow in [on_clean, on_lossy] {
        let kernel = kernel_account(&outcome.client.connections[0], subflow);
        assert_eq!(resent(subflow), u64::from(kernel.total_retrans), "{subflow:#}");
    }
    assert_eq!((forward(clean).lost, before.lost), (0, 0));
    assert_eq!((resent(on_clean), number(on_clean, "lost_segments")), (0, 0), "{on_clean:#}");
    let needed = resent(on_lossy).checked_sub(needless).expect("what came twice was sent again");
    assert!((needed..=needed + NOT_REPEATED).contains(&dropped), "{on_lossy:#}");
    within_binomial("netem's drops", dropped, packets);
    within_binomial("mpwatch's retransmissions", needed, packets);
}

/// Two paths of 20 ms, whose neighbours have met and whose code has run once.
fn two_paths_of_netem() -> Topology {
    let quality = Quality::default().rtt(RTT);
    let topology = Topology::two_paths(quality, quality).expect("a lab can be built");
    for path in topology.paths() {
        let enforcer = impairer(path).enforcer();
        assert_eq!(enforcer, Enforcer::Netem, "no netem: this test is for the guests, see `./dev vm`");
    }
    // The first packets wait for the addresses of their neighbours, which would count as handshake time.
    let spec = topology.traffic(Workload::upload(1_000_000)).unwrap();
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    topology
}

/// Makes a namespace acknowledge each segment when it comes. Else the acknowledgement of a burst's last segment may wait 40 ms
/// for a further one, and if that was the last of all, the smoothed RTT ends 5 ms too high: the kernel's own as well.
fn acknowledge_at_once(namespace: &Namespace) {
    let ip = |arguments: &[&str]| {
        let output = Command::new("ip").args(arguments).output().unwrap();
        assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let change = || {
        for route in ip(&["route", "show"]).lines().filter(|route| route.contains(" via ")) {
            let words = route.split_whitespace();
            ip(&["route", "change"].into_iter().chain(words).chain(["quickack", "1"]).collect::<Vec<_>>());
        }
    };
    namespace.enter(change).unwrap();
}

/// Keeps the threads that this one starts, and so all packets of theirs, on one CPU: on two the kernel lets packets of one
/// connection overtake each other on their way between namespaces, and TCP takes some of them for lost.
fn on_one_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(0).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

fn impairer(path: Path<'_>) -> &Impairer {
    path.impairer().expect("a path with a delay has an impairer")
}

fn forward(path: Path<'_>) -> ImpairerCounters {
    impairer(path).counters(Direction::Forward).unwrap()
}

fn sent_over(path: Path<'_>) -> u64 {
    path.client_counters().unwrap().tx_bytes
}

/// Segments of the client that its peers reported to have received twice.
fn reported_duplicates(topology: &Topology) -> u64 {
    let counters = mib::read(topology.client()).unwrap();
    counters["TcpExtTCPDSACKRecv"] + counters["TcpExtTCPDSACKOfoRecv"]
}

/// What the application measures itself, microseconds, sorted; a datagram never waits for a delayed acknowledgement.
fn datagram_round_trips(topology: &Topology, path: Path<'_>, count: usize) -> Vec<u64> {
    let bind = |address| UdpSocket::bind((address, 0)).unwrap();
    let server = topology.server().enter(|| bind(path.server_address())).unwrap();
    let client = topology.client().enter(|| bind(path.client_address())).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    client.connect(server.local_addr().unwrap()).unwrap();
    let echo = std::thread::spawn(move || {
        for _ in 0..count {
            let (_, from) = server.recv_from(&mut [0]).unwrap();
            server.send_to(&[0], from).unwrap();
        }
    });
    let round_trip = |_| {
        let start = Instant::now();
        client.send(&[0]).unwrap();
        client.recv(&mut [0]).unwrap();
        u64::try_from(start.elapsed().as_micros()).unwrap()
    };
    let mut trips: Vec<u64> = (0..count).map(round_trip).collect();
    echo.join().unwrap();
    trips.sort_unstable();
    trips
}

fn subflow_on<'a>(connection: &'a Value, path: Path<'_>) -> &'a Value {
    subflow_whose(connection, "local", path)
}

fn peer_of<'a>(connection: &'a Value, path: Path<'_>) -> &'a Value {
    subflow_whose(connection, "remote", path)
}

fn subflow_whose<'a>(connection: &'a Value, end: &str, path: Path<'_>) -> &'a Value {
    let client = format!("{}:", path.client_address());
    let mut subflows = list(connection, "subflows").iter();
    subflows.find(|subflow| text(subflow, end).starts_with(&client)).expect("a subflow on each path")
}

fn kernel_account<'a>(connection: &'a ConnectionReport, subflow: &Value) -> &'a TcpInfo {
    let flow = connection.flow.as_ref().expect("the kernel's account of the connection");
    let local = text(subflow, "local");
    &flow.subflows.iter().find(|info| info.local.to_string() == local).expect("the subflow").tcp
}

/// What is to be complained about, if anything.
fn off(what: &str, micros: u64) -> Option<String> {
    let error = micros as f64 / RTT.as_micros() as f64 - 1.0;
    println!("{what}: {micros} us, {:+.2} %", error * 100.0);
    // 21 ms are 5 %: a server's handshake may be one of the millisecond time stamps that the kernel then takes its first sample from.
    (error.abs() > RTT_TOLERANCE + 1e-9).then(|| format!("{what}: {micros} us"))
}

#[track_caller]
fn within_binomial(what: &str, lost: u64, packets: u64) {
    let expected = packets as f64 * LOSS;
    assert!(expected > 20.0, "{packets} packets say little");
    let deviations = (lost as f64 - expected) / (expected * (1.0 - LOSS)).sqrt();
    println!("{what}: {lost}, expected {expected:.1}, {deviations:+.2} standard deviations");
    assert!(deviations.abs() <= DEVIATIONS, "{what}: {lost} of {packets} are no 1 %");
}
