// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of impairers, with netem or the relay: delay, jitter, throughput, losses and packet order must be as configured.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::{LinkSpec, PathFailure};
use mpwatch_lab::traffic::{self, Transport, Workload};
use mpwatch_lab::{Direction, ImpairerCounters, Impairment, Topology, mib};
use mpwatch_testkit::may_run_as_root;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Round-trip times of UDP datagrams in microseconds, sorted. UDP is used because TCP delays acknowledgements.
fn round_trips(topology: &Topology, count: usize) -> Vec<u64> {
    use std::net::UdpSocket;
    let path = topology.path(0).unwrap();
    let server = topology.server().enter(|| UdpSocket::bind((path.server_address(), 7)).unwrap()).unwrap();
    let client = topology.client().enter(|| UdpSocket::bind((path.client_address(), 0)).unwrap()).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    client.connect(server.local_addr().unwrap()).unwrap();
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        for _ in 0..=count {
            let (_, from) = server.recv_from(&mut byte).unwrap();
            server.send_to(&byte, from).unwrap();
        }
    });
    let mut trips: Vec<u64> = (0..=count)
        .map(|_| {
            let start = Instant::now();
            client.send(&[1]).unwrap();
            client.recv(&mut [0]).unwrap();
            u64::try_from(start.elapsed().as_micros()).unwrap()
        })
        .skip(1) // the first round trip includes neighbour discovery
        .collect();
    echo.join().unwrap();
    trips.sort_unstable();
    trips
}

fn forward_counters(topology: &Topology) -> ImpairerCounters {
    let path = topology.path(0).unwrap();
    let impairer = path.impairer().unwrap();
    println!("{:?}", impairer.kind());
    impairer.counters(Direction::Forward).unwrap()
}

#[test]
fn a_round_trip_of_20_ms_takes_20_ms() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::default().rtt(Duration::from_millis(20));
    let topology = Topology::disjoint(&[path]).unwrap();
    let trips = round_trips(&topology, 200);
    let at = |share: usize| trips[share * (trips.len() - 1) / 100];
    println!(
        "20 ms configured, measured min {} p50 {} p90 {} p99 {} max {} us",
        at(0),
        at(50),
        at(90),
        at(99),
        at(100)
    );
    assert!(at(0) >= 19_990, "{trips:?}");
    assert!((20_000..21_000).contains(&at(50)), "{trips:?}");
}

#[test]
fn jitter_spreads_round_trip_times_over_its_range() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::default().rtt(Duration::from_millis(10)).jitter(Duration::from_millis(10), 7);
    let topology = Topology::disjoint(&[path]).unwrap();
    let trips = round_trips(&topology, 200);
    let (least, most) = (trips[0], trips[trips.len() - 1]);
    println!("10 ms and two jitters of 10 ms: {least} to {most} us");
    assert!(least >= 9_990 && most - least > 8_000, "{trips:?}");
    assert!(trips[trips.len() / 2] < 31_000, "{trips:?}");
}

#[test]
fn jitter_never_reorders() {
    if !may_run_as_root() {
        return;
    }
    // With two CPUs, the kernel reorders packets between namespaces, including the relay's packets.
    let mut one = CpuSet::new();
    one.set(0).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    let path = LinkSpec::default().rtt(Duration::from_millis(10)).jitter(Duration::from_millis(10), 7);
    let topology = Topology::disjoint(&[path]).unwrap();
    let spec = topology.traffic(Workload::upload(4_000_000)).unwrap();
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.server.received(), 4_000_000);
    // `TCPOFOQueue` counts the segments that arrived out of order.
    let counters = mib::read(topology.server()).unwrap();
    assert_eq!(counters["TcpExtTCPOFOQueue"], 0, "{:?}", forward_counters(&topology));
}

#[test]
fn a_path_of_20_ms_carries_more_than_50_mbit() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::default().rtt(Duration::from_millis(20));
    let topology = Topology::disjoint(&[path]).unwrap();
    let mut spec = topology.traffic(Workload::upload(0)).unwrap();
    spec.transport = Transport::Tcp;
    spec.workload = Workload::upload_for(Duration::from_secs(3));
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let connection = &outcome.server.connections[0];
    let mbit = connection.received as f64 * 8.0 / connection.transfer_time.as_secs_f64() / 1e6;
    let counters = forward_counters(&topology);
    println!("with 20 ms: {mbit:.0} Mbit/s of payload, {counters:?}");
    assert_eq!(counters.overflowed, 0);
    // The limit is far below the result on an idle machine, so that the test also passes on a busy machine.
    assert!(mbit > 50.0, "{mbit}");
}

#[test]
fn losses_have_the_configured_rate_and_are_counted() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::rate(50.0, Duration::from_millis(100)).rtt(Duration::from_millis(4)).loss(0.01, 3);
    let topology = Topology::disjoint(&[path]).unwrap();
    let spec = topology.traffic(Workload::upload(10_000_000)).unwrap();
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.server.received(), 10_000_000);
    let counters = forward_counters(&topology);
    let packets = (counters.lost + counters.forwarded) as f64;
    let rate = counters.lost as f64 / packets;
    println!("1 % loss configured, measured {:.2} %: {counters:?}", rate * 100.0);
    // netem's losses differ in each run, so the limit is five standard deviations.
    assert!((rate - 0.01).abs() < 5.0 * (0.01 * 0.99 / packets).sqrt(), "{rate}");
    let flow = outcome.client.connections[0].socket_info.as_ref().unwrap();
    let retransmitted: u32 = flow.subflows.iter().map(|subflow| subflow.tcp.total_retrans).sum();
    // At most three of the lost packets are pure acknowledgements, which are not retransmitted.
    assert!(u64::from(retransmitted) + 3 >= counters.lost, "{retransmitted} of {}", counters.lost);
}

#[test]
fn packets_queue_at_a_rate_limit_after_their_delay_and_are_dropped_there() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::rate(20.0, Duration::from_millis(20)).rtt(Duration::from_millis(10));
    let topology = Topology::disjoint(&[path]).unwrap();
    let path = topology.path(0).unwrap();
    let mut spec = topology.traffic(Workload::upload(4_000_000)).unwrap();
    spec.congestion = Some("cubic".to_owned());
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    let seconds = outcome.client.connections[0].transfer_time.as_secs_f64();
    let mbit = 32.0 / seconds;
    let queue = path.queue(Direction::Forward).unwrap().unwrap();
    let counters = forward_counters(&topology);
    println!("{mbit:.1} of 20 Mbit/s, {queue:?}, {counters:?}");
    assert!((12.0..20.0).contains(&mbit), "{mbit}");
    assert!(queue.drops > 0, "{queue:?}");
    assert_eq!(queue.drops, counters.queue_drops);
}

#[test]
fn an_impairment_can_be_changed_and_a_black_hole_ends() {
    if !may_run_as_root() {
        return;
    }
    let path = LinkSpec::rate(50.0, Duration::from_millis(50)).rtt(Duration::from_millis(4));
    let topology = Topology::disjoint(&[path]).unwrap();
    let path = topology.path(0).unwrap();
    let impairer = path.impairer().unwrap();
    let before = impairer.impairment(Direction::Forward);
    let slower = Impairment { delay: Duration::from_millis(10), ..before };
    impairer.set(Direction::Forward, slower).unwrap();
    assert_eq!(impairer.impairment(Direction::Forward), slower);
    let trips = round_trips(&topology, 20);
    assert!(trips[0] >= 11_990, "{trips:?}");

    path.fail(PathFailure::Blackhole).unwrap();
    let mut spec = topology.traffic(Workload::upload(100_000)).unwrap();
    spec.timeout = Duration::from_millis(200);
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.server.received(), 0);
    assert!(forward_counters(&topology).lost > 0);

    path.restore().unwrap();
    spec.timeout = Duration::from_secs(20);
    let outcome = traffic::run(topology.client(), topology.server(), &spec).unwrap();
    assert_eq!(outcome.server.received(), 100_000);
    let queue = path.queue(Direction::Forward).unwrap().unwrap();
    assert!(queue.bytes > 100_000, "the rate limit still exists: {queue:?}");
}
