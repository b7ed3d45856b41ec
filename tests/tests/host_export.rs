// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon exports every connection exactly once, for any failure of the target and after any number of SIGKILLs of daemon and target.
//! `MPWATCH_TEST_FLEET`: number of connections, and `MPWATCH_TEST_KILLS`: number of SIGKILLs, of the test with the engine of ClickHouse.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpwatch_exporters::clickhouse::schema::VERSION;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::clickhouse::{engine, rows};
use mpwatch_tests::may_run_as_root;
use mpwatch_tests::scripted_server::{self, Answer, Request, answering};
use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};

use service::{Daemon, DaemonDir};

const TIMEOUT: Duration = Duration::from_mins(5);
const BYTES: u64 = 1_000;

fn connect(lab: &Topology, connections: u32) {
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(BYTES));
    (spec.connections, spec.concurrency, spec.read_socket_info) = (connections, 8, false);
    assert_eq!(traffic::run(lab.client(), lab.server(), &spec).unwrap().client.first_error(), None);
}

/// Bytes sent of each closed connection of a lab, by id.
fn stored(database: &Path, lab: &Topology) -> BTreeMap<String, u64> {
    let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT id, bytes_sent FROM v_connection WHERE netns IN (?, ?) AND closed_at_ns IS NOT NULL";
    let mut query = database.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
    query.query_map([lab.client().name(), lab.server().name()], row).unwrap().map(Result::unwrap).collect()
}

fn wait_for_stored(database: &Path, lab: &Topology, ends: u32) {
    let all = || (stored(database, lab).len() == ends as usize).then_some(());
    poll_until("all connections in the database", TIMEOUT, all)
        .unwrap_or_else(|error| panic!("{error}: {} of {ends}", stored(database, lab).len()));
}

/// Waits until the target has confirmed all connections of a lab. Other connections may open and close meanwhile.
fn wait_for_confirmed(database: &Path, lab: &Topology, daemon: &Daemon) {
    let waiting = || {
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql = "SELECT count(*) FROM connection AS c JOIN netns AS n ON n.id = c.netns, export_cursor AS e
            WHERE n.name IN (?, ?) AND (c.changed, c.id) > (e.changed, e.connection)";
        database
            .query_one(sql, [lab.client().name(), lab.server().name()], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    poll_until("the target to confirm", TIMEOUT, || (waiting() == 0).then_some(()))
        .unwrap_or_else(|error| panic!("{error}: {} wait: {}", waiting(), daemon.log_text()));
}

fn metric(daemon: &Daemon, name: &str) -> Option<f64> {
    daemon.metric(&format!("mpwatch_export_{name}{{target=\"clickhouse\"}}"))
}

fn wait_for(daemon: &Daemon, name: &str, is_expected: impl Fn(f64) -> bool) -> f64 {
    poll_until(name, TIMEOUT, || metric(daemon, name).filter(|value| is_expected(*value)))
        .unwrap_or_else(|error| panic!("{error}; value {:?}: {}", metric(daemon, name), daemon.log_text()))
}

/// Effective capabilities of each thread that exports.
fn export_threads(daemon: &Daemon) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let capabilities = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let value =
            |key: &str| status.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
        (value("Name:")? == "mpwatch-export").then(|| value("CapEff:"))?
    };
    tasks.filter_map(capabilities).collect()
}

fn configure(daemon_dir: &DaemonDir, port: u16, batch: u32, timeout: &str) {
    daemon_dir.configure(&format!(
        "[export.clickhouse]\nurl = \"http://127.0.0.1:{port}\"\nbatch = {batch}\nevery = \"200ms\"\ntimeout = \"{timeout}\"\n"
    ));
}

fn kill_and_restart(daemon: Daemon, daemon_dir: &DaemonDir) -> Daemon {
    let mut killed = daemon;
    killed.signal(Signal::SIGKILL);
    killed.wait_for_exit();
    daemon_dir.start(&[])
}

/// Bytes sent in the newest row of each connection, by id.
fn bytes_sent(requests: &[Request]) -> BTreeMap<String, u64> {
    let mut newest: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in requests.iter().flat_map(|request| rows(&request.body)) {
        let number = |name: &str| row.get(name).map_or(0, |cell| cell.parse().unwrap());
        let found = (number("version"), number("bytes_sent"));
        let known = newest.entry(row["id"].clone()).or_insert(found);
        *known = (*known).max(found);
    }
    newest.into_iter().map(|(id, (_, bytes))| (id, bytes)).collect()
}

/// A server whose first answers fail in every way; later, every third insertion fails. Returns the confirmed requests, and all requests.
fn unreliable(listener: TcpListener) -> (Arc<Mutex<Vec<Request>>>, Receiver<Request>) {
    let confirmed = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&confirmed);
    let refused = Answer::Status(404, "Code: 60. DB::Exception: UNKNOWN_TABLE");
    let mut questions = vec![Answer::Status(200, "99"), Answer::Status(200, "<html>"), refused];
    let ok = Answer::Status(200, "");
    let version = Answer::Status(200, VERSION.to_string().leak());
    let mut answers = vec![
        ok,
        Answer::Status(200, "Code: 241. DB::Exception: late"),
        Answer::Close,
        ok,
        Answer::Stall,
        Answer::Status(400, "Code: 47. DB::Exception: Unknown column"),
        ok,
        Answer::Half,
        ok,
        Answer::Status(500, "Code: 241. DB::Exception: memory"),
    ];
    let mut insertions = 0;
    let requests = answering(listener, move |request| {
        if request.body.is_empty() {
            return Some(questions.pop().unwrap_or(version));
        }
        insertions += 1;
        let usual = if insertions % 3 == 0 { Answer::Half } else { ok };
        let answer = answers.pop().unwrap_or(usual);
        if matches!(answer, Answer::Status(200, "")) {
            let copy = Request { head: request.head.clone(), body: request.body.clone() };
            kept.lock().unwrap().push(copy);
        }
        Some(answer)
    });
    (confirmed, requests)
}

#[test]
fn a_target_that_fails_in_every_way_gets_every_connection_also_after_sigkill() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    assert!(export_threads(&daemon_dir.start(&[])).is_empty(), "an export that is off has no thread");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    configure(&daemon_dir, port, 50, "500ms");
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut daemon = daemon_dir.start(&[]);
    assert_eq!(export_threads(&daemon), ["0000000000000000"], "one thread, without capabilities");
    connect(&lab, 200);
    wait_for_stored(&daemon_dir.database(), &lab, 400);
    wait_for(&daemon, "failures_total", |count| count >= 2.0);
    wait_for(&daemon, "waiting_connections", |count| count >= 400.0);
    wait_for(&daemon, "lag_seconds", |lag| lag > 0.0);
    daemon = kill_and_restart(daemon, &daemon_dir);
    let (confirmed, requests) = unreliable(TcpListener::bind(("127.0.0.1", port)).unwrap());
    for batches in [1, 3, 5] {
        let delivered = || (confirmed.lock().unwrap().len() >= batches).then_some(());
        poll_until("confirmed batches", TIMEOUT, delivered).unwrap();
        daemon = kill_and_restart(daemon, &daemon_dir);
    }
    // The last daemon observes these connections open and closed.
    connect(&lab, 100);
    wait_for_stored(&daemon_dir.database(), &lab, 600);
    wait_for_confirmed(&daemon_dir.database(), &lab, &daemon);
    assert_eq!(metric(&daemon, "lost_connections_total"), Some(0.0));
    assert!(
        metric(&daemon, "connections_total").unwrap() >= 200.0
            && metric(&daemon, "sent_bytes_total").unwrap() > 0.0
    );
    let stored = stored(&daemon_dir.database(), &lab);
    // Requests that the server has read without confirmation may also be in its tables.
    let (confirmed, read) =
        (bytes_sent(&confirmed.lock().unwrap()), bytes_sent(&requests.try_iter().collect::<Vec<_>>()));
    for (id, bytes) in &stored {
        assert_eq!((confirmed.get(id), read.get(id)), (Some(bytes), Some(bytes)), "{id}");
    }
}

/// A server may serve only one connection at a time, or only a few connections of a host.
#[test]
fn a_daemon_with_nothing_to_send_keeps_no_connection_to_its_target() {
    if !may_run_as_root() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let daemon_dir = DaemonDir::new();
    configure(&daemon_dir, listener.local_addr().unwrap().port(), 100, "60s");
    let _daemon = daemon_dir.start(&[]);
    listener.set_nonblocking(true).unwrap();
    let (mut stream, _) = poll_until("a connection", TIMEOUT, || listener.accept().ok()).unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let question = scripted_server::read(&mut stream).unwrap();
    assert!(question.head.contains("schema_version"), "{}", question.head);
    scripted_server::reply(&mut stream, Answer::Status(200, VERSION.to_string().leak()));
    assert_eq!(stream.read(&mut [0]).map_err(|error| error.kind()), Ok(0), "the end of the connection");
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn two_daemons_and_a_server_that_are_killed_again_and_again_give_one_row_for_each_connection() {
    if !may_run_as_root() {
        return;
    }
    let Some(mut engine) = engine() else { return };
    let (connections, kills) = (setting("MPWATCH_TEST_FLEET", 200), setting("MPWATCH_TEST_KILLS", 1));
    // Both daemons observe both ends, so each end is sent twice.
    let folders = [DaemonDir::new(), DaemonDir::new()];
    for folder in &folders {
        configure(folder, engine.port(), 100, "60s");
    }
    let mut daemons = folders.each_ref().map(|folder| folder.start(&[]));
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    engine.kill();
    connect(&lab, connections);
    for folder in &folders {
        wait_for_stored(&folder.database(), &lab, 2 * connections);
    }
    for _ in 0..kills {
        let [a, b] = daemons;
        let a = kill_and_restart(a, &folders[0]);
        engine.restart();
        daemons = [a, kill_and_restart(b, &folders[1])];
        let has_sent = || {
            let [sent, waiting] =
                ["connections_total", "waiting_connections"].map(|name| metric(&daemons[0], name));
            (sent > Some(0.0) || waiting == Some(0.0)).then_some(())
        };
        poll_until("a confirmed batch", TIMEOUT, has_sent).unwrap();
        engine.kill();
    }
    engine.restart();
    for (daemon, folder) in daemons.iter().zip(&folders) {
        wait_for_confirmed(&folder.database(), &lab, daemon);
        assert_eq!(metric(daemon, "lost_connections_total"), Some(0.0));
    }
    let of_lab = |column: &str| format!("{column} IN ('{}', '{}')", lab.client().name(), lab.server().name());
    let ends = engine.query(&format!("SELECT count() FROM mpwatch.ends FINAL WHERE {}", of_lab("netns")));
    // Errors, if any: ends without a pair, and pairs without two ends.
    let odd = engine.query(&format!(
        "SELECT * EXCEPT (version) FROM mpwatch.ends FINAL WHERE {0} AND (pair IS NULL OR pair IN (
         SELECT pair FROM mpwatch.ends FINAL WHERE {0} GROUP BY pair HAVING count() != 2)) FORMAT JSONEachRow",
        of_lab("netns")
    ));
    assert_eq!((ends, odd), (format!("{}\n", 2 * connections), String::new()));
    let pairs = engine.query(&format!(
        "SELECT ends, count(), countIf(client_bytes_sent = server_bytes_received), sum(client_bytes_sent),
         ifNull(sum(client_active_uj), 0) + ifNull(sum(server_active_uj), 0) FROM mpwatch.pairs WHERE {} GROUP BY ends",
        of_lab("client_netns")
    ));
    let energy = engine.query(&format!(
        "SELECT ifNull(sum(active_uj), 0) FROM mpwatch.ends FINAL WHERE {}",
        of_lab("netns")
    ));
    let bytes = BYTES * u64::from(connections);
    assert_eq!(pairs, format!("3\t{connections}\t{connections}\t{bytes}\t{energy}"));
}
