// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control eliminate` on real traffic: extra subflows of a shared bottleneck are removed, all bytes arrive, disjoint paths remain,
//! a dry run changes nothing, and an impossible removal is an error.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "observed/path_manager.rs"]
mod path_manager;

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_control::kernel::{self, Change};
use mpwatch_fixtures as fixture;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, PORT, TrafficSpec, Transfer, TransferOutcome, Transport, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::{Candidate, EliminationAction, Removal};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::unit::{BitsPerSecond, Micros};
use mpwatch_tests::elimination::Elimination;
use mpwatch_tests::{emulation, list, may_run_as_root, mpwatch, number, skip, text};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(1);
/// Number of connections of an upload. Only several connections show that their address pairs share a bottleneck.
const CONNECTIONS: usize = 2;
/// Number of runs on disjoint paths, unless MPWATCH_TEST_RUNS has another number.
const REPETITIONS: usize = 2;

fn link(mbit: f64, rtt_ms: u64) -> LinkSpec {
    LinkSpec::rate(mbit, Duration::from_millis(50)).rtt(Duration::from_millis(rtt_ms))
}

/// The network of `mpwatch demo shared`.
fn shared() -> Topology {
    Topology::shared(&[LinkSpec::default(); 3], link(40.0, 20)).unwrap()
}

/// The network of `mpwatch demo two-paths`.
fn two_paths() -> Topology {
    Topology::two_paths(link(40.0, 10), link(20.0, 30)).unwrap()
}

/// An upload in progress.
struct Upload {
    transfer: Transfer,
    control: Arc<Control>,
}

impl Upload {
    /// Starts an upload that ends after this time.
    fn start(lab: &Topology, duration: Duration) -> Self {
        let workload = Workload::upload_for(emulation::timeout(duration));
        let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), workload);
        spec.connections = u32::try_from(CONNECTIONS).unwrap();
        spec.concurrency = spec.connections;
        Self::run(lab, spec)
    }

    /// Starts an upload that the test cancels before its end.
    fn endless(lab: &Topology) -> Self {
        Self::start(lab, TIMEOUT * 2)
    }

    /// Starts four TCP connections through the same bottleneck, which the test cancels before their end.
    fn competing(lab: &Topology) -> Self {
        let workload = Workload::upload_for(emulation::timeout(TIMEOUT * 2));
        let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), workload);
        (spec.transport, spec.connections, spec.concurrency) = (Transport::Tcp, 4, 4);
        spec.server.set_port(PORT + 1);
        Self::run(lab, spec)
    }

    fn run(lab: &Topology, mut spec: TrafficSpec) -> Self {
        spec.congestion = Some("cubic".to_owned());
        spec.timeout = emulation::timeout(TIMEOUT * 3);
        let control = Arc::new(Control::default());
        let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
        Self { transfer, control }
    }

    /// Bits per second that the server receives in the next `seconds`.
    fn rate_over(&self, seconds: u64) -> f64 {
        let (before, began) = (self.control.received(), Instant::now());
        let end = Duration::from_secs(seconds);
        poll_until("the seconds to pass", end * 2, || (began.elapsed() >= end).then_some(())).unwrap();
        (self.control.received() - before) as f64 * 8.0 / began.elapsed().as_secs_f64()
    }

    fn cancel(self) {
        self.control.cancel();
        // The upload was cancelled, so its result is an error.
        let _ = self.transfer.join();
    }

    /// Waits for the end. Asserts that every byte arrived.
    fn finish(self) -> TransferOutcome {
        let outcome = self.transfer.join().unwrap();
        for client in &outcome.client.connections {
            let server =
                outcome.server.connections.iter().find(|server| server.remote == client.local).unwrap();
            assert_eq!((&client.error, &server.error), (&None, &None));
            assert_eq!(
                (client.sent, client.sent_hash),
                (server.received, server.received_hash),
                "lost bytes"
            );
            assert!(client.sent > 1_000_000, "{} bytes", client.sent);
        }
        outcome
    }
}

/// Number of established TCP sockets of the client, which are its subflows.
fn open_subflows(lab: &Topology) -> usize {
    const ESTABLISHED: &str = "01";
    let table = lab.client().enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap()).unwrap();
    table.lines().skip(1).filter(|line| line.split_whitespace().nth(3) == Some(ESTABLISHED)).count()
}

/// Whether this kernel can abort sockets. Prints SKIP if not.
fn can_close(events: &[Value]) -> bool {
    let failed = events.iter().find(|event| event["step"] == "failed");
    let Some(failed) = failed else { return true };
    assert!(text(failed, "error").contains("tcp_diag"), "{failed:#}");
    skip("the kernel has no sock_diag for TCP; load the module tcp_diag");
    false
}

#[test]
fn extra_subflows_of_a_shared_bottleneck_are_closed_and_all_bytes_arrive() {
    if !may_run_as_root() {
        return;
    }
    let lab = shared();
    let database = tempfile::NamedTempFile::new().unwrap();
    let db = database.path().to_str().unwrap().to_owned();
    let mut elimination = Elimination::start(&lab, &["--yes", "--stable", "2s", "--db", &db]);
    let upload = Upload::start(&lab, Duration::from_secs(24));
    let before = upload.rate_over(3);
    let removed = poll_until("all removals", emulation::timeout(TIMEOUT), || {
        let found = [elimination.steps("removed"), elimination.steps("failed")].concat();
        (found.len() >= 2 * CONNECTIONS || elimination.steps("failed").len() == 1).then_some(found)
    });
    let removed = removed.unwrap();
    if !can_close(&removed) {
        return;
    }
    let is_left = || (open_subflows(&lab) == CONNECTIONS).then_some(());
    poll_until("one subflow per connection", emulation::timeout(TIMEOUT), is_left).unwrap();
    for event in &removed {
        assert!(event["probability"].as_f64().unwrap() >= 0.95, "{event:#}");
        assert!(number(event, "stable_us") >= 2_000_000 && event["evidence"]["busy_a"].is_f64(), "{event:#}");
        assert_eq!(event["evidence"]["connections"], 2);
        // Two paths are left if the verdicts on the third came first.
        assert!((2..=3).contains(&number(&event["evidence"], "pooled_paths")), "{event:#}");
        let [kept, gone] = ["kept", "removed"].map(|side| number(&event[side], "goodput_bps"));
        assert!(kept >= gone, "{event:#}");
        assert!(list(event, "group").contains(&event["removed"]["subflow"]), "{event:#}");
    }
    // On an emulated machine, the throughput also varies without a removal.
    let may_be_left_alone = emulation::is_emulated();
    let judged = poll_until("the end of the watch", emulation::timeout(TIMEOUT), || {
        let left_alone = elimination.steps("left_alone");
        [elimination.steps("confirmed"), left_alone].concat().pop()
    });
    let throughput = judged.unwrap();
    assert!(may_be_left_alone || text(&throughput, "step") == "confirmed", "{throughput:#}");
    let after = upload.rate_over(5);
    let outcome = upload.finish();
    assert_eq!(open_subflows(&lab), 0, "the transfer has ended");
    elimination.stop();
    eprintln!(
        "before {:.2} Mbit/s (first 3 s), after {:.2} Mbit/s; mpwatch reports {} and {} bit/s; {} bytes in {:?}",
        before / 1e6,
        after / 1e6,
        throughput["before_bps"],
        throughput["after_bps"],
        outcome.client.sent(),
        outcome.client.elapsed,
    );
    assert!(after > 0.8 * before, "{before}, then {after}");
    // Headers take 4 % of the 40 Mbit/s, and a single cubic flow leaves a part unused.
    assert!(emulation::is_emulated() || after > 32e6, "{after} of 40 Mbit/s");
    assert_database(&db);
}

/// Asserts that the database has the steps in the connection's timeline.
fn assert_database(db: &str) {
    let database = rusqlite::Connection::open(db).unwrap();
    let sql = "SELECT count(*), min(json_extract(detail, '$.kept.goodput_bps')) FROM v_event
               WHERE event = 'elimination' AND source = 'control' AND json_extract(detail, '$.step') = 'removed'";
    let (removed, goodput): (i64, i64) =
        database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(usize::try_from(removed).unwrap(), 2 * CONNECTIONS);
    assert!(goodput > 0);
}

#[test]
fn disjoint_paths_are_not_touched() {
    if !may_run_as_root() {
        return;
    }
    // Queues of links with the same rate fill in step, which resembles one queue most.
    let equal = Topology::two_paths(link(30.0, 10), link(30.0, 10)).unwrap();
    let runs = std::env::var("MPWATCH_TEST_RUNS").map_or(REPETITIONS, |text| text.parse().expect("a number"));
    for (lab, stable, repetitions) in [(two_paths(), "1s", runs), (equal, "3s", 1)] {
        for repetition in 1..=repetitions {
            let elimination = Elimination::start(&lab, &["--yes", "--stable", stable]);
            let upload = Upload::start(&lab, Duration::from_secs(8));
            let rate = upload.rate_over(7);
            let open = open_subflows(&lab);
            upload.finish();
            eprintln!("repetition {repetition}: {:.2} Mbit/s over {open} subflows", rate / 1e6);
            assert_eq!((open, elimination.stop()), (2 * CONNECTIONS, Vec::new()));
        }
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    if !may_run_as_root() {
        return;
    }
    for options in [&["--dry-run"][..], &["--action", "backup"]] {
        let lab = shared();
        let mut elimination = Elimination::start(&lab, &[options, &["--stable", "1s"]].concat());
        let upload = Upload::endless(&lab);
        elimination.wait_for("planned", 2 * CONNECTIONS);
        // If a subflow had been removed, it would be closed after this time.
        upload.rate_over(2);
        assert_eq!(open_subflows(&lab), 3 * CONNECTIONS);
        upload.cancel();
        let events = elimination.stop();
        assert!(events.iter().all(|event| text(event, "step") == "planned"), "{events:#?}");
    }
}

#[test]
fn a_backup_of_the_kernels_path_manager_is_refused_and_nothing_else_happens() {
    if !may_run_as_root() {
        return;
    }
    let lab = shared();
    let mut elimination = Elimination::start(&lab, &["--yes", "--action", "backup", "--stable", "1s"]);
    let upload = Upload::endless(&lab);
    for failed in elimination.wait_for("failed", CONNECTIONS) {
        assert!(text(&failed, "error").contains("userspace path manager"), "{failed:#}");
    }
    assert_eq!(open_subflows(&lab), 3 * CONNECTIONS);
    upload.cancel();
    assert_eq!(elimination.stop().len(), CONNECTIONS, "nothing else is removed from the connections");
}

/// The network of `mpwatch demo shared` with the userspace path manager, so that only the test opens subflows.
fn shared_with_userspace_path_manager() -> Topology {
    let lab = shared();
    lab.client().enter(|| std::fs::write("/proc/sys/net/mptcp/pm_type", "1").unwrap()).unwrap();
    lab
}

/// Opens a subflow of each connection from the second path's address, as a path manager daemon does.
fn open_second_subflows(lab: &Topology) {
    let listed = mpwatch(&["ls", "--json", "--ledger", "off", "--netns", lab.client().name()]);
    let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
    for connection in list(&snapshot, "connections") {
        let token = u32::from_str_radix(text(connection, "token"), 16).unwrap();
        let first: SocketAddr = text(connection, "local").parse().unwrap();
        let remote: SocketAddr = text(connection, "remote").parse().unwrap();
        let mut others =
            lab.paths().map(|path| path.client_address()).filter(|address| *address != first.ip());
        let local = others.next().unwrap();
        lab.client().enter(|| path_manager::create_subflow(token, local, remote).unwrap()).unwrap();
    }
}

#[test]
fn a_backup_is_undone_when_the_throughput_drops_and_the_connection_is_left_alone() {
    if !may_run_as_root() {
        return;
    }
    let lab = shared_with_userspace_path_manager();
    let mut elimination = Elimination::start(&lab, &["--yes", "--action", "backup", "--stable", "1s"]);
    let upload = Upload::endless(&lab);
    upload.rate_over(1);
    open_second_subflows(&lab);
    let are_open = || (open_subflows(&lab) == 2 * CONNECTIONS).then_some(());
    poll_until("two subflows per connection", emulation::timeout(TIMEOUT), are_open).unwrap();
    let removed = elimination.wait_for("removed", CONNECTIONS);
    assert_eq!((text(&removed[0], "action"), open_subflows(&lab)), ("backup", 2 * CONNECTIONS));
    let competing = Upload::competing(&lab);
    let throughput = elimination.wait_for("left_alone", 1).remove(0);
    let [before, after] = ["before_bps", "after_bps"].map(|field| number(&throughput, field) as f64);
    assert!(after < 0.9 * before, "{throughput}");
    for undone in elimination.wait_for("undone", CONNECTIONS) {
        assert!(removed.iter().any(|removed| removed["removed"]["subflow"] == undone["subflow"]), "{undone}");
    }
    competing.cancel();
    // The kernel has no backup any more.
    let shown = mpwatch(&["ls", "--json", "--ledger", "off", "--netns", lab.client().name()]);
    let snapshot: Value = serde_json::from_str(&shown.stdout).unwrap();
    for connection in list(&snapshot, "connections") {
        let mut subflows = list(connection, "subflows").iter();
        assert!(subflows.all(|subflow| subflow["backup"] == false), "{connection:#}");
    }
    upload.rate_over(5);
    assert_eq!(elimination.steps("removed").len(), CONNECTIONS, "nothing else is removed");
    upload.cancel();
    elimination.stop();
}

/// Opens a TCP connection over the loopback of a namespace. Returns it as a candidate for a removal, and its two sockets.
fn subflow(space: &Namespace) -> (Candidate, [TcpStream; 2]) {
    let connected = space.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    });
    let (client, server) = connected.unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&client).unwrap();
    let subflow = SubflowId { cookie: SocketCookie(cookie), generation: 0 };
    let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    (Candidate { subflow, local, remote, goodput: BitsPerSecond(1), srtt: None }, [client, server])
}

#[test]
fn a_subflow_is_not_closed_when_the_path_of_the_kept_one_has_just_failed() {
    if !may_run_as_root() {
        return;
    }
    let space = Namespace::new("kept").unwrap();
    space.ip(&["link set lo up".to_owned()]).unwrap();
    let ((kept, [mut sender, _receiver]), (removed, [other, _peer])) = (subflow(&space), subflow(&space));
    let connection =
        Connection { netns_inode: u32::try_from(space.inode()).unwrap(), ..fixture::connection(1, 2) };
    let removal = Removal {
        action: EliminationAction::Close,
        method: DetectionMethod::default(),
        group: vec![kept.subflow, removed.subflow],
        removed,
        kept,
        probability: None,
        stable: Micros(0),
        evidence: None,
    };
    let close = || kernel::change(&connection, &removal, Change::Apply);
    space.ip(&["link set lo down".to_owned()]).unwrap();
    sender.write_all(b"not acknowledged").unwrap();
    assert_eq!(close(), Ok(false));
    assert!(other.take_error().unwrap().is_none(), "the socket was closed");
    space.ip(&["link set lo up".to_owned()]).unwrap();
    poll_until("an acknowledgement", TIMEOUT, || (close() == Ok(true)).then_some(())).unwrap();
    assert_eq!(other.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionAborted);
}
