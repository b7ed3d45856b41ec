// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path changes payload and corrects TCP's checksum. MPTCP's own checksum reveals the change, and the subflow is reset (RFC 8684 section
//! 3.7). The kernel's MIB counters confirm both, and mpwatch reports these counters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "checksum/upload.rs"]
mod upload;

use std::collections::BTreeMap;
use std::env;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::Workload;
use mpwatch_lab::{Namespace, Topology, mib, poll_until};
use mpwatch_tests::{Observer, emulation, lines, list, may_run_as_root, mpwatch, number, wait};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use upload::{closed, counted, upload};

/// Variable that makes a child process a server or a client: the server's address.
const SERVER: &str = "MPWATCH_TEST_SERVER";
const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn a_wrong_checksum_on_one_of_two_subflows_resets_that_one_only() {
    if !may_run_as_root() {
        return;
    }
    let (lab, outcome, report) = upload(2, Workload::upload(2_000_000));
    assert_eq!(counted(&lab, "DataCsumErr"), [0, 1]);
    assert_eq!(counted(&lab, "MPFailTx")[1], 1);
    let resets = counted(&lab, "MPRstTx")[1];
    let (sender, receiver) = (&outcome.client.connections[0], &outcome.server.connections[0]);
    assert_eq!(sender.sent, receiver.received);
    assert_eq!(sender.sent_hash, receiver.received_hash, "the changed payload was not delivered");
    for (end, field, reset) in
        [(lab.client(), "bytes_sent", "reset_received"), (lab.server(), "bytes_received", "reset_sent")]
    {
        let connection = report.only_connection_in(end.name());
        assert!(connection["fallback"].is_null(), "{connection:#}");
        assert_eq!(number(connection, field), sender.sent, "{connection:#}");
        let ends: Vec<_> = list(connection, "subflows")
            .iter()
            .map(|s| (s["initial"].as_bool().unwrap(), closed(s)))
            .collect();
        assert_eq!(ends, [(true, "fin"), (false, reset)], "{connection:#}");
        let of_reset = ends.iter().filter(|(_, reason)| *reason == reset).count() as u64;
        assert_eq!(of_reset, resets, "resets against the kernel's counter");
    }
}

/// mpwatch reads the counters of a namespace through a process in it. These processes end before the next tick, and the last one has no error.
#[test]
fn wrong_checksums_at_short_processes_are_counted() {
    const PROCESSES: u64 = 5;
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::disjoint(&[LinkSpec::default()]).unwrap();
    for end in [lab.client(), lab.server()] {
        end.sysctl("net.mptcp.checksum_enabled", "1").unwrap();
    }
    // Changes two bytes behind the longest header. Without hardware, nobody checks TCP's checksum.
    let chain = "add table ip t; add chain ip t c { type filter hook prerouting priority 0; };";
    let rule = "add rule ip t c meta l4proto tcp meta length > 1000 @th,480,16 set 0xdead";
    lab.server().nft(&format!("{chain} {rule}")).unwrap();
    let observer = Observer::start_every("1s", &[]);
    for _ in 0..PROCESSES {
        let (mut server, mut client) = connect_to_process(&lab);
        client.write_all(&[7; 1_200]).unwrap();
        drop(client);
        assert!(wait(&mut server).success());
    }
    let wrong = counted(&lab, "DataCsumErr")[1];
    assert_eq!(wrong, PROCESSES);
    let (mut server, client) = connect_to_process(&lab);
    let recording = observer.recording();
    let found = || {
        let report: Value = serde_json::from_str(&replay(&recording)).ok()?;
        report["counters"]["mapping_problems"]["bad_checksum"].as_u64().filter(|found| *found >= wrong)
    };
    let found = poll_until("mpwatch to count the wrong checksums", emulation::timeout(TIMEOUT), found);
    drop(client);
    assert!(wait(&mut server).success());
    assert_eq!(found.unwrap(), wrong);
    let counters = &observer.finish_after_close(&lab).json["counters"];
    assert_eq!(number(&counters["mapping_problems"], "bad_checksum"), wrong, "{counters:#}");
}

/// Both ends of a connection with two subflows are processes in their namespaces.
#[test]
fn the_mib_counters_of_both_ends_are_the_sums_of_the_kernels_counters() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::disjoint(&[LinkSpec::default(); 2]).unwrap();
    let observer = Observer::start(&[]);
    let address = lab.traffic(Workload::upload(1)).unwrap().server;
    let mut server = start(lab.server(), "one_server", address);
    let mut client = start(lab.client(), "one_client", address);
    let joined = || (counted(&lab, "MPJoinAckRx")[1] == 1).then_some(());
    poll_until("the second subflow", emulation::timeout(TIMEOUT), joined).unwrap();
    assert_eq!((counted(&lab, "MPCapableSYNTX"), counted(&lab, "MPJoinSynRx")), ([1, 0], [0, 1]));
    let recording = observer.recording();
    let mut seen = (BTreeMap::new(), BTreeMap::new());
    let is_equal = || {
        seen = (replayed(&recording).unwrap_or_default(), kernels(&lab));
        (seen.0 == seen.1).then_some(())
    };
    let equal = poll_until("mpwatch to read all counters", emulation::timeout(TIMEOUT), is_equal);
    // The end of its input ends the client.
    drop(client.stdin.take());
    assert!(wait(&mut client).success() && wait(&mut server).success());
    assert!(equal.is_ok(), "mpwatch and the kernel: {seen:#?}");
}

/// MPTCP's counters that are not 0, summed over both ends. The number of open connections is not a counter.
fn kernels(lab: &Topology) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in [lab.client(), lab.server()].into_iter().flat_map(|end| mib::read(end).unwrap()) {
        if let Some(name) = name.strip_prefix("MPTcpExt").filter(|name| *name != "MPCurrEstab" && count > 0) {
            *sums.entry(name.to_owned()).or_default() += count;
        }
    }
    sums
}

/// MPTCP's counters that are not 0 in a recording that is being written.
fn replayed(recording: &Path) -> Option<BTreeMap<String, u64>> {
    let report: Value = serde_json::from_str(&replay(recording)).ok()?;
    let mut counters: BTreeMap<String, u64> =
        serde_json::from_value(report["counters"]["mptcp_mib"].clone()).ok()?;
    counters.retain(|_, count| *count > 0);
    Some(counters)
}

fn replay(recording: &Path) -> String {
    mpwatch(&["replay", recording.to_str().unwrap(), "--format", "json"]).stdout
}

/// Starts a process that accepts one connection, and connects to it.
fn connect_to_process(lab: &Topology) -> (Child, Socket) {
    let address = lab.traffic(Workload::upload(1)).unwrap().server;
    let server = start(lab.server(), "one_server", address);
    (server, lab.client().enter(|| connect(address)).unwrap())
}

/// Starts a process in a namespace and waits until it is ready. `role`: the name of its test.
fn start(namespace: &Namespace, role: &str, address: SocketAddr) -> Child {
    let spawn = || {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", role, "--nocapture"])
            .env(SERVER, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = namespace.enter(spawn).unwrap();
    let output = lines(child.stdout.take().unwrap());
    while !output.recv_timeout(emulation::timeout(TIMEOUT)).unwrap().contains("ready") {}
    // If nobody read the rest, the process would fail with a broken pipe.
    std::thread::spawn(move || output.iter().for_each(drop));
    child
}

fn connect(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    socket.connect(&address.into()).unwrap();
    socket
}

/// The process of a client that stays until its input ends. Without the variable, which only [`start`] sets, it does nothing.
#[test]
fn one_client() {
    let Ok(address) = env::var(SERVER) else { return };
    let mut socket = connect(address.parse().unwrap());
    socket.write_all(&vec![7; 100_000]).unwrap();
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// The process of a server. Without the variable, which only [`start`] sets, it does nothing.
#[test]
fn one_server() {
    let Ok(address) = env::var(SERVER) else { return };
    let address: SocketAddr = address.parse().unwrap();
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    listener.set_reuse_address(true).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(1).unwrap();
    println!("ready");
    let mut socket = listener.accept().unwrap().0;
    // After a wrong checksum the connection may be reset.
    let _ = socket.read_to_end(&mut Vec::new());
    // Nobody reads the output of the test harness.
    std::process::exit(0);
}
