// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares mpwatch's round-trip times and losses with the kernel's `netem`, which shares no code with this project.
//! Runs in the guests, whose kernels have netem. These tests never use the lab's relay instead of netem.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{LinkSpec, Path};
use mpwatch_lab::traffic::{self, ConnectionReport, Control, Transfer, Workload};
use mpwatch_lab::{
    Direction, Impairer, ImpairerCounters, ImpairerKind, Impairment, Namespace, TcpInfo, Topology, mib,
    poll_until,
};
use mpwatch_tests::{Observer, list, may_run_as_root, number, skip, text};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

const RTT: Duration = Duration::from_millis(20);
const RTT_TOLERANCE: f64 = 0.05;
const LOSS: f64 = 0.01;
/// Two-sided 99.9 % quantile of the normal distribution, in standard deviations.
const DEVIATIONS: f64 = 3.291;
const TIMEOUT: Duration = Duration::from_mins(1);

/// Whether the kernel has netem, as in the guests of `./dev vm`.
fn may_run() -> bool {
    let has_netem = may_run_as_root() && matches!(ImpairerKind::detect(), Ok(ImpairerKind::Netem));
    if !has_netem {
        skip("needs a kernel with netem; `./dev vm` has one");
    }
    has_netem
}

#[test]
fn round_trip_times_are_as_configured_in_netem() {
    if !may_run() {
        return;
    }
    let topology = two_paths_of_netem();
    acknowledge_at_once(topology.server());
    let observer = Observer::start(&[]);
    // Slower than the capacity of an emulated machine, so that no queue adds to the delay.
    let workload = Workload::Paced { rate: 8_000_000, duration: Duration::from_secs(6) };
    let spec = topology.traffic(workload).unwrap();
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let report = observer.finish_after_close(&topology);

    let client = report.only_connection_in(topology.client().name());
    let server = report.only_connection_in(topology.server().name());
    let mut errors = Vec::new();
    for path in topology.paths() {
        // If these times deviate, the machine is too slow, and the error is not in mpwatch.
        let trips = datagram_round_trips(&topology, path, 50);
        errors.extend(deviation("datagrams, the median", trips[trips.len() / 2]));
        let (at_client, at_server) = (subflow_on(client, path), peer_of(server, path));
        let kernel = kernel_info(&outcome.client.connections[0], at_client);
        errors.extend(deviation("the kernel's srtt", kernel.srtt_us.into()));
        errors.extend(deviation("the kernel's minimum", kernel.min_rtt_us.into()));
        for field in ["srtt_us", "rtt_p50_us", "rtt_min_us", "handshake_us"] {
            errors.extend(deviation(field, number(at_client, field)));
        }
        errors.extend(deviation("the server's handshake_us", number(at_server, "handshake_us")));
        assert!(number(at_client, "rtt_samples") > 100, "{at_client:#}");
    }
    assert!(errors.is_empty(), "deviations of more than 5 %: {errors:#?}\n{client:#}\n{server:#}");
}

/// netem drops packets only while the client sends nothing but payload: after the SYNs and before the FINs. So TCP must retransmit
/// every dropped packet, including dropped retransmissions. All other retransmissions are spurious, and the receiver reports each of
/// them (D-SACK, RFC 2883).
#[test]
fn losses_are_as_netem_counted() {
    /// Maximum number of dropped packets that TCP does not retransmit. netem drops a hundredth of the client's few pure acknowledgements
    /// (of an `ADD_ADDR`, of a window) and of its neighbour discovery.
    const NOT_RETRANSMITTED: u64 = 3;
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
    // BBR does not slow down after each loss, so the scheduler continues to use the path.
    spec.congestion = Some("bbr".to_owned());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("payload on the second path", TIMEOUT, || (sent_over(lossy) > idle + 100_000).then_some(()))
        .unwrap();
    let impairment = impairer(lossy).impairment(Direction::Forward);
    let before = forward(lossy);
    impairer(lossy).set(Direction::Forward, Impairment { loss: LOSS, ..impairment }).unwrap();
    poll_until("all payload to be acknowledged", TIMEOUT, || (control.held() > 0).then_some(())).unwrap();
    impairer(lossy).set(Direction::Forward, impairment).unwrap();
    let after = forward(lossy);
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(outcome.server.received(), outcome.client.sent());
    let report = observer.finish_after_close(&topology);

    let connection = report.only_connection_in(topology.client().name());
    let [on_clean, on_lossy] = [clean, lossy].map(|path| subflow_on(connection, path));
    let retransmitted = |subflow| number(subflow, "segments_retransmitted");
    let dropped = after.lost - before.lost;
    let packets = dropped + after.forwarded - before.forwarded;
    let spurious = reported_duplicates(&topology) - duplicates_before;
    println!(
        "netem dropped {dropped} of {packets}; retransmitted {}, spuriously {spurious}, {}; on the clean path {}",
        retransmitted(on_lossy),
        on_lossy["retransmits"],
        on_clean["retransmits"],
    );

    for subflow in [on_clean, on_lossy] {
        let kernel = kernel_info(&outcome.client.connections[0], subflow);
        assert_eq!(retransmitted(subflow), u64::from(kernel.total_retrans), "{subflow:#}");
    }
    assert_eq!((forward(clean).lost, before.lost), (0, 0));
    assert_eq!((retransmitted(on_clean), number(on_clean, "lost_segments")), (0, 0), "{on_clean:#}");
    let needed = retransmitted(on_lossy).checked_sub(spurious).expect("duplicates were retransmitted");
    assert!((needed..=needed + NOT_RETRANSMITTED).contains(&dropped), "{on_lossy:#}");
    within_binomial("netem's drops", dropped, packets);
    within_binomial("mpwatch's retransmissions", needed, packets);
}

/// Two paths of 20 ms, after a first transfer.
fn two_paths_of_netem() -> Topology {
    let link = LinkSpec::default().rtt(RTT);
    let topology = Topology::two_paths(link, link).expect("a lab can be built");
    for path in topology.paths() {
        let kind = impairer(path).kind();
        assert_eq!(kind, ImpairerKind::Netem, "no netem: this test is for the guests, see `./dev vm`");
    }
    // The first packets wait for neighbour discovery, which would count as handshake time.
    let spec = topology.traffic(Workload::upload(1_000_000)).unwrap();
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    topology
}

/// Disables delayed acknowledgements in a namespace. Otherwise the last segment of a burst may be acknowledged 40 ms later. If the last
/// sample is this late, the smoothed RTT (also the kernel's) is 5 ms too high.
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

/// Pins this thread, the threads that it starts, and so their packets, to one CPU. On two CPUs the kernel reorders packets of one
/// connection between namespaces, and TCP considers some of them lost.
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

/// Segments of the client that its peers reported as duplicates.
fn reported_duplicates(topology: &Topology) -> u64 {
    let counters = mib::read(topology.client()).unwrap();
    counters["TcpExtTCPDSACKRecv"] + counters["TcpExtTCPDSACKOfoRecv"]
}

/// Round-trip times of datagrams, microseconds, sorted. They are independent of delayed acknowledgements.
fn datagram_round_trips(topology: &Topology, path: Path<'_>, count: usize) -> Vec<u64> {
    let bind = |address| UdpSocket::bind((address, 0)).unwrap();
    let server = topology.server().enter(|| bind(path.server_address())).unwrap();
    let client = topology.client().enter(|| bind(path.client_address())).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
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

fn kernel_info<'a>(connection: &'a ConnectionReport, subflow: &Value) -> &'a TcpInfo {
    let info = connection.socket_info.as_ref().expect("the kernel's information about the connection");
    let local = text(subflow, "local");
    &info.subflows.iter().find(|info| info.local.to_string() == local).expect("the subflow").tcp
}

/// A message if a time deviates by more than the tolerance.
fn deviation(what: &str, micros: u64) -> Option<String> {
    let error = micros as f64 / RTT.as_micros() as f64 - 1.0;
    println!("{what}: {micros} us, {:+.2} %", error * 100.0);
    // Exactly 5 % (21 ms) is allowed, because the kernel may compute the server's handshake time from millisecond timestamps.
    (error.abs() > RTT_TOLERANCE + 1e-9).then(|| format!("{what}: {micros} us"))
}

#[track_caller]
fn within_binomial(what: &str, lost: u64, packets: u64) {
    let expected = packets as f64 * LOSS;
    assert!(expected > 20.0, "{packets} packets are too few");
    let deviations = (lost as f64 - expected) / (expected * (1.0 - LOSS)).sqrt();
    println!("{what}: {lost}, expected {expected:.1}, {deviations:+.2} standard deviations");
    assert!(deviations.abs() <= DEVIATIONS, "{what}: {lost} of {packets} are not 1 %");
}
