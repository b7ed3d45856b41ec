// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of topologies and traffic: every path is used, and both ends and the kernel report the same number of bytes, in all
//! address families and directions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::{Family, JoinBy, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{self, Control, TrafficSpec, Transfer, TransferOutcome, Transport, Workload};
use mpwatch_lab::{Direction, SocketInfo, Topology, mib, poll_until};
use mpwatch_testkit::may_run_as_root;
use std::sync::Arc;
use std::time::Duration;

const MEGABYTE: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(20);

fn two_limited_paths() -> Topology {
    let link = LinkSpec::rate(50.0, Duration::from_millis(50));
    Topology::two_paths(link, link).unwrap()
}

fn spec(topology: &Topology, bytes: u64) -> TrafficSpec {
    topology.traffic(Workload::upload(bytes)).unwrap()
}

fn run(topology: &Topology, spec: &TrafficSpec) -> TransferOutcome {
    let outcome = traffic::run(topology.client(), topology.server(), spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!(outcome.server.first_error(), None);
    outcome
}

fn assert_ends_agree(outcome: &TransferOutcome) {
    let (client, server) = (&outcome.client, &outcome.server);
    assert_eq!(client.connections.len(), server.connections.len());
    for ours in &client.connections {
        let theirs = server
            .connections
            .iter()
            .find(|theirs| theirs.remote == ours.local)
            .expect("each connection has two ends");
        assert_eq!((ours.sent, ours.sent_hash), (theirs.received, theirs.received_hash));
        assert_eq!((ours.received, ours.received_hash), (theirs.sent, theirs.sent_hash));
    }
}

fn client_info(outcome: &TransferOutcome) -> &SocketInfo {
    outcome.client.connections[0].socket_info.as_ref().unwrap()
}

fn server_info(outcome: &TransferOutcome) -> &SocketInfo {
    outcome.server.connections[0].socket_info.as_ref().unwrap()
}

#[test]
fn a_bulk_transfer_uses_both_paths_and_every_count_agrees() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_limited_paths();
    let bytes = 10 * MEGABYTE;
    let outcome = run(&topology, &spec(&topology, bytes));
    assert_ends_agree(&outcome);
    assert_eq!(outcome.client.sent(), bytes);

    let sender = client_info(&outcome);
    let connection = sender.mptcp.as_ref().unwrap();
    assert!(!connection.fallback());
    // Kernels before 6.5 have no byte counters of connections and no subflow ids.
    let counts = connection.bytes_sent.is_some();
    assert_eq!(
        (connection.bytes_sent, connection.bytes_acked),
        (counts.then_some(bytes), counts.then_some(bytes))
    );
    assert!(sender.unique_subflow_bytes() >= bytes);
    assert_eq!(sender.subflows.len(), 2);
    for subflow in &sender.subflows {
        assert!(subflow.tcp.bytes_sent > MEGABYTE, "{subflow:?}");
        assert!(subflow.id.is_some() == counts && subflow.tcp.srtt_us > 0);
    }
    let receiver = server_info(&outcome);
    assert_eq!(receiver.mptcp.as_ref().unwrap().bytes_received, counts.then_some(bytes));
    assert_eq!(receiver.subflows.len(), 2);

    let joins = mib::read(topology.server()).unwrap();
    assert_eq!(joins["MPTcpExtMPJoinAckRx"], 1);
    for path in topology.paths() {
        let counters = path.client_counters().unwrap();
        assert!(counters.tx_bytes > MEGABYTE);
        let queue = path.queue(Direction::Forward).unwrap().unwrap();
        assert!(queue.bytes > MEGABYTE && queue.backlog == 0, "{queue:?}");
    }
}

#[test]
fn two_paths_together_are_faster_than_one() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_limited_paths();
    let mut spec = spec(&topology, 12 * MEGABYTE);
    let both = run(&topology, &spec).client.connections[0].transfer_time;
    spec.transport = Transport::Tcp;
    let outcome = run(&topology, &spec);
    assert_ends_agree(&outcome);
    assert!(client_info(&outcome).mptcp.is_none());
    let one = outcome.client.connections[0].transfer_time;
    let gain = one.as_secs_f64() / both.as_secs_f64();
    println!("two paths carry {gain:.2} times as much as one");
    // The packet scheduler of Linux 6.1 uses the second path less than later kernels: the gain is 1.34 to 1.37.
    assert!(gain > 1.25, "{gain}");
}

#[test]
fn the_server_can_send_over_both_paths_with_cubic_or_reno() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_limited_paths();
    for congestion in ["cubic", "reno"] {
        let mut spec = spec(&topology, 0);
        spec.congestion = Some(congestion.to_owned());
        spec.workload = Workload::download(5 * MEGABYTE);
        let outcome = run(&topology, &spec);
        assert_ends_agree(&outcome);
        assert_eq!(outcome.client.received(), 5 * MEGABYTE);
        assert_eq!(server_info(&outcome).subflows.len(), 2);
    }
}

#[test]
fn ipv6_paths_join_over_ipv6() {
    if !may_run_as_root() {
        return;
    }
    let path = PathSpec {
        link: LinkSpec::rate(50.0, Duration::from_millis(50)),
        family: Family::V6,
        ..PathSpec::default()
    };
    let topology =
        Topology::build(&TopologySpec { paths: vec![path; 2], ..TopologySpec::default() }).unwrap();
    let outcome = run(&topology, &spec(&topology, 4 * MEGABYTE));
    assert_ends_agree(&outcome);
    let info = client_info(&outcome);
    assert_eq!(info.subflows.len(), 2);
    assert!(info.subflows.iter().all(|subflow| subflow.local.is_ipv6()));
}

/// Every router must forward packets as soon as the topology is built.
#[test]
fn the_first_segments_over_ipv6_are_not_lost() {
    if !may_run_as_root() {
        return;
    }
    // The queue is long enough for all sent bytes.
    let link = LinkSpec::rate(50.0, Duration::from_millis(500));
    let path = PathSpec { link, family: Family::V6, ..PathSpec::default() };
    let topology =
        Topology::build(&TopologySpec { paths: vec![path; 2], ..TopologySpec::default() }).unwrap();
    let outcome = run(&topology, &spec(&topology, MEGABYTE));
    let info = client_info(&outcome);
    assert_eq!(info.subflows.len(), 2);
    assert!(info.subflows.iter().all(|subflow| subflow.tcp.total_retrans == 0), "{:?}", info.subflows);
}

#[test]
fn mapped_addresses_work_and_are_shown_as_ipv4() {
    if !may_run_as_root() {
        return;
    }
    let topology = two_limited_paths();
    let mut spec = spec(&topology, 4 * MEGABYTE);
    spec.mapped = true;
    let outcome = run(&topology, &spec);
    assert_ends_agree(&outcome);
    let info = client_info(&outcome);
    assert_eq!(info.subflows.len(), 2);
    assert!(info.subflows.iter().all(|subflow| subflow.local.is_ipv4()));
}

#[test]
fn the_server_announces_its_second_address() {
    if !may_run_as_root() {
        return;
    }
    let topology = Topology::build(&TopologySpec {
        paths: vec![PathSpec::default(); 3],
        join: JoinBy::ServerSignal,
        ..TopologySpec::default()
    })
    .unwrap();
    let control = Arc::new(Control::holding());
    let spec = spec(&topology, MEGABYTE);
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    poll_until("two joins", TIMEOUT, || {
        let counters = mib::read(topology.server()).unwrap();
        (counters["MPTcpExtMPJoinAckRx"] == 2).then_some(())
    })
    .unwrap();
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(client_info(&outcome).subflows.len(), 3);
}

#[test]
fn subflows_through_a_shared_bottleneck_share_its_rate() {
    if !may_run_as_root() {
        return;
    }
    let near = LinkSpec::default();
    let distant = LinkSpec::default().rtt(Duration::from_millis(20));
    let bottleneck = LinkSpec::rate(40.0, Duration::from_millis(50));
    let topology = Topology::shared(&[near, distant, near], bottleneck).unwrap();
    let outcome = run(&topology, &spec(&topology, 8 * MEGABYTE));
    assert_ends_agree(&outcome);
    let info = client_info(&outcome);
    // On 6.1 and 6.12 the client resets the distant subflow directly after its SYN-ACK (MPTcpExtMPRstTx). The cause is unknown.
    assert!((2..=3).contains(&info.subflows.len()), "{info:?}");
    let seconds = outcome.client.connections[0].transfer_time.as_secs_f64();
    let mbit = 8.0 * 8.0 / seconds;
    assert!((20.0..40.0).contains(&mbit), "{mbit} Mbit/s through 40");
    let queue = topology.bottleneck_queue(0, Direction::Forward).unwrap().unwrap();
    assert!(queue.bytes > 8 * MEGABYTE, "{queue:?}");
}

#[test]
fn a_backup_path_stays_idle_until_it_is_made_regular() {
    if !may_run_as_root() {
        return;
    }
    let link = LinkSpec::rate(20.0, Duration::from_millis(50));
    let mut paths = vec![PathSpec { link, ..PathSpec::default() }; 2];
    paths[1].backup = true;
    let topology = Topology::build(&TopologySpec { paths, ..TopologySpec::default() }).unwrap();
    let mut spec = spec(&topology, 0);
    spec.workload = Workload::upload_for(Duration::from_secs(30));
    let control = Arc::new(Control::default());
    let transfer = Transfer::start(topology.client(), topology.server(), &spec, &control).unwrap();
    let backup = topology.path(1).unwrap();
    poll_until("a megabyte", TIMEOUT, || (control.received() > MEGABYTE).then_some(())).unwrap();
    assert!(backup.client_counters().unwrap().tx_bytes < MEGABYTE / 10);
    backup.set_backup(false).unwrap();
    poll_until("traffic on the second path", TIMEOUT, || {
        (backup.client_counters().unwrap().tx_bytes > MEGABYTE / 2).then_some(())
    })
    .unwrap();
    drop(transfer);
}
