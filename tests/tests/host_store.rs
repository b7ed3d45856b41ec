// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's database: committed connections survive SIGKILL, and problems with the file or the disk are reported and do not stop
//! the metrics.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/disk.rs"]
mod disk;
#[path = "daemon/service.rs"]
mod service;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_fixtures as fixture;
use mpwatch_lab::topology::{LinkSpec, PathFailure};
use mpwatch_lab::traffic::{self, Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_store::{Limits, Store};
use mpwatch_tests::{may_run_as_root, mpwatch, program};
use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use disk::Disk;
use service::{Daemon, DaemonDir, TIMEOUT};

/// Bytes of a long connection, enough to be sampled from the beginning.
const LONG_BYTES: u64 = 1_500_000;
/// Bytes of a short connection.
const SHORT_BYTES: u64 = 1_000;

fn lab() -> Topology {
    Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap()
}

/// A finished upload whose connection stays open until the returned transfer is dropped.
fn open_connection(lab: &Topology, bytes: u64) -> Transfer {
    let control = Arc::new(Control::holding());
    let mut spec = lab.traffic(Workload::upload(bytes)).unwrap();
    // The timeout is longer than every test.
    spec.timeout = Duration::from_hours(1);
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    poll_until("the upload", TIMEOUT, || (control.held() == 1).then_some(())).unwrap();
    transfer
}

fn short_connections(lab: &Topology, connections: u32) -> TrafficSpec {
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(SHORT_BYTES));
    (spec.connections, spec.concurrency, spec.read_socket_info) = (connections, 4, false);
    spec.timeout = Duration::from_mins(10);
    spec
}

fn read(file: &Path) -> Connection {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database.busy_timeout(TIMEOUT).unwrap();
    database
}

fn one<T: rusqlite::types::FromSql>(database: &Connection, sql: &str) -> T {
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A query for connections of the client's namespace that satisfy a condition.
fn client_query(lab: &Topology, what: &str, condition: &str) -> String {
    let netns = lab.client().name();
    format!("SELECT {what} FROM v_connection WHERE netns = '{netns}' AND {condition}")
}

/// The closed connections in a database: id, birth, bytes.
fn closed_connections(file: &Path) -> HashSet<(i64, i64, Option<i64>)> {
    let database = read(file);
    let mut query = database.prepare("SELECT id, birth, bytes_sent FROM connection WHERE closed").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Kills the daemon repeatedly. Asserts that the database keeps every committed connection.
fn assert_survives_kills(rounds: u32) {
    let daemon_dir = DaemonDir::new();
    let lab = lab();
    let open = open_connection(&lab, LONG_BYTES);
    let load = Transfer::start(
        lab.client(),
        lab.server(),
        &TrafficSpec {
            server: (lab.path(0).unwrap().server_address(), 5_202).into(),
            ..short_connections(&lab, u32::MAX)
        },
        &Arc::new(Control::default()),
    )
    .unwrap();
    let (mut committed, mut slowest) = (HashSet::new(), Duration::ZERO);
    for round in 1..=rounds {
        let started = Instant::now();
        let mut daemon = daemon_dir.start(&[]);
        slowest = slowest.max(started.elapsed());
        let expected = committed.len() + 20;
        let now = poll_until("flows to be committed", TIMEOUT, || {
            Some(closed_connections(&daemon_dir.database())).filter(|now| now.len() >= expected)
        });
        let now = now.unwrap_or_else(|error| panic!("round {round}: {error}, {}", daemon.log_text()));
        assert!(now.is_superset(&committed), "round {round}: connections are missing");
        let sql = format!("SELECT max(runs) FROM v_connection WHERE bytes_sent = {LONG_BYTES}");
        let row = poll_until("the row of the open connection", TIMEOUT, || {
            one::<Option<u32>>(&read(&daemon_dir.database()), &sql).filter(|runs| *runs == round)
        });
        row.unwrap_or_else(|error| panic!("round {round}: {error}"));
        committed = closed_connections(&daemon_dir.database());
        daemon.signal(Signal::SIGKILL);
        daemon.wait_for_exit();
        let database = read(&daemon_dir.database());
        assert_eq!(one::<String>(&database, "PRAGMA integrity_check"), "ok", "round {round}");
    }
    assert!(closed_connections(&daemon_dir.database()).is_superset(&committed));
    println!("{rounds} kills, {} connections kept, slowest start {slowest:?}", committed.len());
    let database = read(&daemon_dir.database());
    let rows = format!("SELECT count(*) FROM connection WHERE bytes_sent = {LONG_BYTES}");
    assert_eq!(one::<u32>(&database, &rows), 1, "one connection, one row");
    // A connection without a birth number may have several rows, because the daemon cannot identify it after a restart.
    let twice = "SELECT group_concat(id || ' ' || number) \
                 FROM (SELECT id, count(*) AS number FROM v_connection WHERE id NOT LIKE '%-0' GROUP BY id) WHERE number > 1";
    assert_eq!(one::<Option<String>>(&database, twice), None, "no connection has two rows");
    drop((load, open));
}

#[test]
fn committed_connections_survive_sigkill_and_open_connections_keep_their_row() {
    if may_run_as_root() {
        assert_survives_kills(3);
    }
}

#[test]
#[ignore = "takes minutes; the test above does the same with three kills"]
fn fifty_kills() {
    if may_run_as_root() {
        assert_survives_kills(50);
    }
}

/// Opens many short connections and asserts that the database has all of them. Returns the growth of the daemon's memory after the
/// first tenth of the connections, kB.
fn churn(connections: u32) -> u64 {
    let (daemon_dir, lab) = (DaemonDir::new(), lab());
    let mut daemon = daemon_dir.start(&[]);
    let few = connections / 10;
    let mut memory = Vec::new();
    for (round, connections) in [few, connections - few].into_iter().enumerate() {
        let started = Instant::now();
        let outcome =
            traffic::run(lab.client(), lab.server(), &short_connections(&lab, connections)).unwrap();
        assert_eq!(
            (outcome.client.first_error(), outcome.client.sent()),
            (None, u64::from(connections) * SHORT_BYTES)
        );
        memory.push(daemon.memory());
        println!(
            "round {round}: {connections} connections in {:?}; memory {} kB, {} series",
            started.elapsed(),
            memory[round],
            daemon.get("/metrics").1.lines().filter(|line| !line.starts_with('#')).count()
        );
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    let database = read(&daemon_dir.database());
    let netns = |namespace: &mpwatch_lab::Namespace| {
        format!("closed_at_ns IS NOT NULL AND opened_at_ns IS NOT NULL AND netns = '{}'", namespace.name())
    };
    let sums = "SELECT count(*), count(DISTINCT id), ifnull(sum(bytes_sent), 0), ifnull(sum(bytes_received), 0) FROM v_connection WHERE ";
    let totals = |namespace| -> [u64; 4] {
        let query =
            |row: &rusqlite::Row<'_>| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
        let found = database.query_row(&format!("{sums}{}", netns(namespace)), [], query).unwrap();
        found.map(i64::cast_unsigned)
    };
    let losses =
        "SELECT printf('%d flows, %d records, %d vanished', flows_lost, records_lost, vanished) FROM v_run";
    assert_eq!(one::<String>(&database, losses), "0 flows, 0 records, 0 vanished", "lost");
    let (all, bytes) = (u64::from(connections), u64::from(connections) * SHORT_BYTES);
    assert_eq!(totals(lab.client()), [all, all, bytes, 0]);
    assert_eq!(totals(lab.server()), [all, all, 0, bytes]);
    let size = fs::metadata(daemon_dir.database()).unwrap().len();
    println!(
        "{} bytes per connection",
        size / u64::from(one::<u32>(&database, "SELECT count(*) FROM connection"))
    );
    memory[1].saturating_sub(memory[0])
}

#[test]
fn the_database_has_the_totals_of_the_application() {
    if may_run_as_root() {
        churn(2_000);
    }
}

#[test]
#[ignore = "takes minutes; the test above does the same with fewer connections; docs/measurements/scale.md has the command and the figures"]
fn a_hundred_thousand_short_connections() {
    if may_run_as_root() {
        // The allocator keeps the memory of a burst. If the daemon kept every record, memory would grow several times as much.
        let growth = churn(100_000);
        assert!(growth < 64 << 10, "{growth} kB");
    }
}

#[test]
fn sigterm_writes_open_connections_after_another_program_unlocks_the_file() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, lab) = (DaemonDir::new(), lab());
    let mut daemon = daemon_dir.start(&[]);
    let _open = open_connection(&lab, SHORT_BYTES);
    let ticks_before = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > ticks_before + 2.0);
    let other = Connection::open(daemon_dir.database()).unwrap();
    other.busy_timeout(TIMEOUT).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    daemon.signal(Signal::SIGTERM);
    daemon_dir.wait_for_notification("STOPPING=1", 0);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    let open =
        client_query(&lab, "count(*)", &format!("closed_at_ns IS NULL AND bytes_sent = {SHORT_BYTES}"));
    assert_eq!(one::<u32>(&read(&daemon_dir.database()), &open), 1);
    assert!(!daemon_dir.database().with_extension("db.lock").exists());
}

/// A subflow on a path that has failed retransmits its FIN for a while after its connection has closed. A daemon that starts meanwhile finds
/// this subflow, and must not store it as a connection without a peer.
#[test]
fn a_subflow_that_outlives_its_connection_is_not_another_connection_for_a_later_daemon() {
    if !may_run_as_root() {
        return;
    }
    let link = LinkSpec::default().rtt(Duration::from_millis(4));
    let (daemon_dir, lab) = (DaemonDir::new(), Topology::two_paths(link, link).unwrap());
    let mut daemon = daemon_dir.start(&[]);
    let open = open_connection(&lab, LONG_BYTES);
    lab.path(1).unwrap().fail(PathFailure::Blackhole).unwrap();
    open.control().release();
    open.join().unwrap();
    let rows = |condition: &str| {
        one::<u32>(&read(&daemon_dir.database()), &client_query(&lab, "count(*)", condition))
    };
    poll_until("the closed connection", TIMEOUT, || (rows("closed_at_ns IS NOT NULL") == 1).then_some(()))
        .unwrap();
    daemon.signal(Signal::SIGKILL);
    daemon.wait_for_exit();
    let mut daemon = daemon_dir.start(&[]);
    assert!(lab.client().enter(has_orphan).unwrap(), "a subflow is left");
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 5.0);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    let database = read(&daemon_dir.database());
    let list = client_query(
        &lab,
        "group_concat(id || ' ' || state || ' ' || ifnull(closed_at_ns, 'open') || ' ' || subflows, ', ')",
        "1",
    );
    let found = [rows("1"), rows("closed_at_ns IS NOT NULL AND subflows = 2")];
    assert_eq!(found, [1, 1], "{:?}", one::<Option<String>>(&database, &list));
}

fn has_orphan() -> bool {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    table
        .lines()
        .skip(1)
        .any(|line| ["04", "05", "09", "0B"].contains(&line.split_whitespace().nth(3).unwrap_or_default()))
}

#[test]
fn a_locked_file_stops_neither_metrics_nor_the_daemon() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, lab) = (DaemonDir::new(), lab());
    let mut daemon = daemon_dir.start(&[]);
    let other = Connection::open(daemon_dir.database()).unwrap();
    other.busy_timeout(TIMEOUT).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    traffic::run(lab.client(), lab.server(), &short_connections(&lab, 5)).unwrap();
    daemon.wait_for_metric("mpwatch_agent_store_paused", |paused| paused > 0.5);
    daemon.wait_for_metric("mpwatch_agent_store_waiting_connections", |waiting| waiting >= 10.0);
    let why = daemon.wait_for_log("writing to the store is suspended; metrics continue");
    assert!(why["why"].as_str().unwrap().contains("another program holds the file"), "{why}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    daemon.wait_for_log("the store is not complete");
}

fn wait_for_recovery(daemon: &Daemon) {
    daemon.wait_for_metric("mpwatch_agent_store_paused", |paused| paused < 0.5);
    daemon.wait_for_log("writing to the store continues");
}

#[test]
fn a_full_disk_loses_no_metrics_and_no_connections() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, lab, disk) = (DaemonDir::new(), lab(), Disk::new());
    let mut daemon = daemon_dir.start(&["--db", disk.database().to_str().unwrap()]);
    let filler = disk.fill();
    traffic::run(lab.client(), lab.server(), &short_connections(&lab, 300)).unwrap();
    daemon.wait_for_metric("mpwatch_agent_store_paused", |paused| paused > 0.5);
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks + 2.0);
    let why = daemon.wait_for_log("writing to the store is suspended; metrics continue");
    assert!(why["why"].as_str().unwrap().contains("the disk is full"), "{why}");
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0));
    fs::remove_file(filler).unwrap();
    wait_for_recovery(&daemon);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));
    let count = client_query(&lab, "count(*)", &format!("bytes_sent = {SHORT_BYTES}"));
    assert_eq!(one::<u32>(&read(&disk.database()), &count), 300, "all connections");
}

#[test]
fn a_daemon_recovers_from_a_disk_that_is_full_at_its_start() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, lab, disk) = (DaemonDir::new(), lab(), Disk::new());
    let filler = disk.fill();
    let daemon = daemon_dir.start(&["--db", disk.database().to_str().unwrap()]);
    daemon.wait_for_metric("mpwatch_agent_store_paused", |paused| paused > 0.5);
    daemon.wait_for_metric("mpwatch_loss_store_snapshots_total", |dropped| dropped > 0.0);
    fs::remove_file(filler).unwrap();
    wait_for_recovery(&daemon);
    traffic::run(lab.client(), lab.server(), &short_connections(&lab, 3)).unwrap();
    daemon.wait_for_metric("mpwatch_agent_store_connections_written_total", |written| written >= 6.0);
}

/// Starts a daemon that fails with this exit code, and returns its error message.
fn start_error(daemon_dir: &DaemonDir, file: &Path, code: i32) -> String {
    let outcome = mpwatch(&[
        "daemon",
        "--listen",
        "127.0.0.1:0",
        "--socket",
        daemon_dir.socket().with_extension("other").to_str().unwrap(),
        "--db",
        file.to_str().unwrap(),
    ]);
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn an_unusable_file_is_refused_before_tracing_starts() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, folder, disk) = (DaemonDir::new(), TempDir::new().unwrap(), Disk::new());
    let daemon = daemon_dir.start(&[]);
    let in_use = start_error(&daemon_dir, &daemon_dir.database(), 1);
    assert!(in_use.contains("is being written by another mpwatch"), "{in_use}");
    drop(daemon);
    // The lock of a killed daemon is ignored. A daemon that exits normally leaves a single file.
    let mut daemon = daemon_dir.start(&[]);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0));

    let good = fs::read(daemon_dir.database()).unwrap();
    let file = folder.path().join("flows.db");
    fs::write(&file, "no database at all, and longer than a header is ".repeat(50)).unwrap();
    let text = start_error(&daemon_dir, &file, 1);
    assert!(text.contains("is not a database of mpwatch"), "{text}");
    fs::write(&file, &good).unwrap();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let newer = start_error(&daemon_dir, &file, 1);
    assert!(newer.contains("has schema 99") && newer.contains("use a newer mpwatch"), "{newer}");
    let mut damaged = good.clone();
    damaged[4_096..].fill(0xff);
    fs::write(&file, &damaged).unwrap();
    let corrupt = start_error(&daemon_dir, &file, 1);
    assert!(corrupt.contains("the file is damaged") && corrupt.contains(".dump"), "{corrupt}");
    assert_eq!(fs::read(&file).unwrap(), damaged, "the file is unchanged");

    fs::write(&file, &good).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let for_readers = start_error(&daemon_dir, &file, 4);
    assert!(for_readers.contains("it may only be read; this user must be allowed to write"), "{for_readers}");

    fs::write(disk.database(), &good).unwrap();
    disk.mount(&["-o", "remount,ro"]);
    let read_only = start_error(&daemon_dir, &disk.database(), 1);
    assert!(read_only.contains("allowed to write"), "{read_only}");
    let report = mpwatch(&["report", "--db", disk.database().to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "a report can read the file: {}", report.stderr);
    let later = mpwatch(&["report", "--db", disk.database().to_str().unwrap(), "--since", "2099-01-01"]);
    assert!(later.stdout.contains("the file has no data of this period"), "{}", later.stdout);
}

#[test]
fn sighup_applies_new_limits() {
    if !may_run_as_root() {
        return;
    }
    let (daemon_dir, lab) = (DaemonDir::new(), lab());
    let daemon = daemon_dir.start(&[]);
    traffic::run(lab.client(), lab.server(), &short_connections(&lab, 4)).unwrap();
    daemon.wait_for_metric("mpwatch_agent_store_connections_written_total", |written| written >= 8.0);
    assert_eq!(daemon.metric("mpwatch_agent_store_connections_retired_total"), Some(0.0));
    daemon_dir.configure("[store]\nkeep = \"1s\"\n");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for_metric("mpwatch_agent_store_connections_retired_total", |retired| retired >= 8.0);
}

#[test]
fn a_comparison_of_ten_times_the_memory_omits_the_oldest_connections() {
    const CONNECTIONS: u32 = 6_000;
    if !may_run_as_root() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let [file, copy, meminfo] = ["a.db", "b.db", "meminfo"].map(|name| folder.path().join(name));
    let store = Store::open(&file, &Limits::none()).unwrap();
    for first in (1..=CONNECTIONS).step_by(1_000) {
        store.deliver(&Arc::new(fixture::snapshot((first..first + 1_000).map(fixture::closed).collect())));
    }
    assert_eq!(store.close().flows_lost, 0);
    fs::copy(&file, &copy).unwrap();
    // Half of this memory holds a tenth of the connections, 5 000 bytes each.
    fs::write(&meminfo, format!("MemAvailable: {} kB\n", CONNECTIONS / 10 * 10_000 / 1_024)).unwrap();
    let script = r#"mount --bind "$1" /proc/meminfo && exec "$2" compare "$3" "$4""#;
    let arguments = [meminfo, program().clone(), file, copy];
    let run =
        Command::new("unshare").args(["-m", "sh", "-c", script, "sh"]).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    // Of the last part of 1 000 and what was kept of the 5 000 before, half of the limit remains.
    let kept = CONNECTIONS / 20 - 1;
    for words in [format!(": {kept} connections in A, {kept} in B"), format!("{} older", CONNECTIONS - kept)]
    {
        assert!(run.status.success() && text.contains(&words), "`{words}` is not in {run:?}");
    }
}
