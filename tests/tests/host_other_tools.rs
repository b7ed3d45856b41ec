// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several tracers on one machine: a daemon, two recorders, and other tools on the same tracepoints. They do not make each other miss
//! connections.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::collections::BTreeSet;

use mpwatch_bench::peer_tools::{PEERS, Peer, RunningPeer, reason};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, Report, may_run_as_root, number, skip, text};
use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use service::{DaemonDir, TIMEOUT};

/// Tools that use the tracepoints on which mpwatch relies.
const TOOLS: [&str; 3] = ["bpftrace", "tcplife", "tcpstates"];
const SERVER_PORT: u16 = 5300;
const BYTES: u64 = 1_000;
const CONNECTIONS: u32 = 300;
/// Number of connections per round before the measurement. Rounds repeat until each tool has reported a connection and so is attached.
const AT_ONCE: u32 = 30;

/// A tool with the files of its output.
struct Running {
    tool: &'static Peer,
    process: RunningPeer,
    folder: TempDir,
}

impl Running {
    fn start(tool: &'static Peer, lab: &Topology) -> Self {
        let folder = TempDir::new().unwrap();
        Self { tool, process: tool.start(lab, Some(&folder)), folder }
    }

    fn has_reported_one_of(&mut self, lab: &Topology, ports: &BTreeSet<u16>) -> bool {
        assert!(!self.process.has_ended(), "{} {}", self.tool.name, reason(&self.folder));
        !self.tool.seen(lab, &self.folder, SERVER_PORT, ports).is_empty()
    }

    /// Ends the tool. Returns the ports of the list that it reported.
    fn finish(mut self, lab: &Topology, ports: &BTreeSet<u16>) -> BTreeSet<u16> {
        assert!(!self.process.has_ended(), "{} {}", self.tool.name, reason(&self.folder));
        drop(self.process);
        self.tool.seen(lab, &self.folder, SERVER_PORT, ports)
    }
}

/// Opens and closes connections. Returns the client's ports.
fn open_and_close(lab: &Topology, connections: u32) -> BTreeSet<u16> {
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(BYTES));
    spec.server.set_port(SERVER_PORT);
    (spec.connections, spec.concurrency, spec.read_socket_info) = (connections, 4, false);
    let outcome = traffic::run(lab.client(), lab.server(), &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
    outcome.client.connections.iter().map(|connection| connection.local.port()).collect()
}

fn assert_whole(report: &Report, lab: &Topology, ports: &BTreeSet<u16>, opened: usize) {
    for (end, field, address) in
        [(lab.client(), "bytes_sent", "local"), (lab.server(), "bytes_received", "remote")]
    {
        let connections = report.connections_in(end.name());
        assert_eq!(connections.len(), opened, "{}", end.name());
        let recorded: BTreeSet<u16> = connections
            .iter()
            .map(|connection| {
                assert_eq!(number(connection, field), BYTES, "{connection:#}");
                assert!(connection["closed_at"].is_string(), "{connection:#}");
                text(connection, address).rsplit(':').next().unwrap().parse().unwrap()
            })
            .collect();
        assert!(recorded.is_superset(ports), "{}", end.name());
    }
    let losses = &report.json["losses"];
    assert_eq!((number(losses, "records_lost"), number(losses, "vanished")), (0, 0), "{losses}");
}

#[test]
#[ignore = "needs bpftrace and libbpf-tools, which no other test needs; run by hand after apt-get install"]
fn tools_on_the_same_tracepoints_and_several_recorders_miss_nothing() {
    if !may_run_as_root() {
        return;
    }
    let tools: Vec<&Peer> = PEERS.iter().filter(|tool| TOOLS.contains(&tool.program)).collect();
    assert_eq!(tools.len(), TOOLS.len());
    if let Some(missing) = tools.iter().find_map(|tool| tool.find().err()) {
        return skip(&format!("this test needs {TOOLS:?}: {missing}"));
    }
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let daemon_dir = DaemonDir::new();
    let mut daemon = daemon_dir.start(&[]);
    let recorders = [Observer::start(&[]), Observer::start(&["--ledger", "exact"])];
    let mut running: Vec<Running> = tools.into_iter().map(|tool| Running::start(tool, &lab)).collect();
    let (mut first, mut opened) = (BTreeSet::new(), 0);
    poll_until("each tool to report a connection", TIMEOUT, || {
        first.append(&mut open_and_close(&lab, AT_ONCE));
        opened += AT_ONCE;
        running.iter_mut().all(|tool| tool.has_reported_one_of(&lab, &first)).then_some(())
    })
    .unwrap();
    let ports = open_and_close(&lab, CONNECTIONS);
    opened += CONNECTIONS;
    for tool in running {
        let name = tool.tool.name;
        assert_eq!(tool.finish(&lab, &ports), ports, "{name}");
    }
    for recorder in recorders {
        assert_whole(&recorder.finish_after_close(&lab), &lab, &ports, opened as usize);
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0), "{}", daemon.log_text());
    let database =
        Connection::open_with_flags(daemon_dir.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT count(DISTINCT id) FROM v_connection WHERE netns = ? AND bytes_sent = ? AND closed_at_ns IS NOT NULL";
    let stored: u32 = database
        .query_row(sql, rusqlite::params![lab.client().name(), u32::try_from(BYTES).unwrap()], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(stored, opened, "{}", daemon.log_text());
}
