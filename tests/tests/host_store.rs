// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's database: committed connections survive SIGKILL; errors of the file or the disk are reported and stop no metrics.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Control, Spec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{may_run_as_root, mpwatch};
use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use service::{Daemon, PATIENCE, Place};

/// Enough bytes to be sampled from the beginning.
const HELD: u64 = 1_500_000;
const SHORT: u64 = 1_000;

fn lab() -> Topology {
    Topology::two_paths(Quality::default(), Quality::default()).unwrap()
}

/// A finished upload whose connection stays open until this is dropped.
fn hold(lab: &Topology, bytes: u64) -> Transfer {
    let control = Arc::new(Control::holding());
    let mut spec = lab.traffic(Workload::upload(bytes)).unwrap();
    // Longer than any test.
    spec.deadline = Duration::from_hours(1);
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    poll_until("the upload", PATIENCE, || (control.held() == 1).then_some(())).unwrap();
    transfer
}

fn short(lab: &Topology, connections: u32) -> Spec {
    let mut spec = Spec::new(lab.path(0).unwrap().server_address(), Workload::upload(SHORT));
    (spec.connections, spec.concurrency, spec.account) = (connections, 4, false);
    spec.deadline = Duration::from_mins(10);
    spec
}

fn read(file: &Path) -> Connection {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database.busy_timeout(PATIENCE).unwrap();
    database
}

fn one<T: rusqlite::types::FromSql>(database: &Connection, sql: &str) -> T {
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Rows of the client's ends in this lab, by a condition.
fn of_clients(lab: &Topology, what: &str, condition: &str) -> String {
    let netns = lab.client().name();
    format!("SELECT {what} FROM v_connection WHERE netns = '{netns}' AND {condition}")
}

/// Closed connections in the file: number, birth, bytes.
fn closed(file: &Path) -> HashSet<(i64, i64, Option<i64>)> {
    let database = read(file);
    let mut query = database.prepare("SELECT id, birth, bytes_sent FROM connection WHERE closed").unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Kills a daemon at work several times, and checks that the file keeps everything that was committed.
fn survives_kills(rounds: u32) {
    let place = Place::new();
    let lab = lab();
    let held = hold(&lab, HELD);
    let load = Transfer::start(
        lab.client(),
        lab.server(),
        &Spec { server: (lab.path(0).unwrap().server_address(), 5_202).into(), ..short(&lab, u32::MAX) },
        &Arc::new(Control::default()),
    )
    .unwrap();
    let (mut acknowledged, mut slowest) = (HashSet::new(), Duration::ZERO);
    for round in 1..=rounds {
        let began = Instant::now();
        let mut daemon = place.start(&[]);
        slowest = slowest.max(began.elapsed());
        let enough = acknowledged.len() + 20;
        let now = poll_until("flows to be committed", PATIENCE, || {
            Some(closed(&place.database())).filter(|now| now.len() >= enough)
        });
        let now = now.unwrap_or_else(|error| panic!("round {round}: {error}, {}", daemon.said()));
        assert!(now.is_superset(&acknowledged), "round {round}: a connection is missing");
        let sql = format!("SELECT max(runs) FROM v_connection WHERE bytes_sent = {HELD}");
        let row = poll_until("the held one's row", PATIENCE, || {
            one::<Option<u32>>(&read(&place.database()), &sql).filter(|runs| *runs == round)
        });
        row.unwrap_or_else(|error| panic!("round {round}: {error}"));
        acknowledged = closed(&place.database());
        daemon.signal(Signal::SIGKILL);
        daemon.ended();
        let database = read(&place.database());
        assert_eq!(one::<String>(&database, "PRAGMA integrity_check"), "ok", "round {round}");
    }
    assert!(closed(&place.database()).is_superset(&acknowledged));
    println!("{rounds} kills, {} connections kept, slowest start {slowest:?}", acknowledged.len());
    let database = read(&place.database());
    let rows = format!("SELECT count(*) FROM connection WHERE bytes_sent = {HELD}");
    assert_eq!(one::<u32>(&database, &rows), 1, "one connection, one row");
    // Connections that the kernel had not given a cookie (birth) before the kill have no identity of their own.
    let twice = "SELECT group_concat(id || ' ' || number) \
                 FROM (SELECT id, count(*) AS number FROM v_connection WHERE id NOT LIKE '%-0' GROUP BY id) WHERE number > 1";
    assert_eq!(one::<Option<String>>(&database, twice), None, "no connection has two rows");
    drop((load, held));
}

#[test]
fn committed_connections_survive_sigkill_and_open_ones_keep_their_row() {
    if may_run_as_root() {
        survives_kills(10);
    }
}

#[test]
#[ignore = "takes minutes; the one above does the same ten times"]
fn fifty_kills() {
    if may_run_as_root() {
        survives_kills(50);
    }
}

/// Opens many short connections and checks that the file has all of them. Returns by how many kB the daemon's memory grew after the first
/// tenth.
fn churn(connections: u32) -> u64 {
    let (place, lab) = (Place::new(), lab());
    let mut daemon = place.start(&[]);
    let few = connections / 10;
    let mut memory = Vec::new();
    for (round, connections) in [few, connections - few].into_iter().enumerate() {
        let began = Instant::now();
        let outcome = traffic::run(lab.client(), lab.server(), &short(&lab, connections)).unwrap();
        assert_eq!(
            (outcome.client.first_error(), outcome.client.sent()),
            (None, u64::from(connections) * SHORT)
        );
        memory.push(daemon.memory());
        println!(
            "round {round}: {connections} connections in {:?}; memory {} kB, {} series",
            began.elapsed(),
            memory[round],
            daemon.get("/metrics").1.lines().filter(|line| !line.starts_with('#')).count()
        );
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    let database = read(&place.database());
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
    let (all, bytes) = (u64::from(connections), u64::from(connections) * SHORT);
    assert_eq!(totals(lab.client()), [all, all, bytes, 0]);
    assert_eq!(totals(lab.server()), [all, all, 0, bytes]);
    let size = fs::metadata(place.database()).unwrap().len();
    println!(
        "{} bytes a connection",
        size / u64::from(one::<u32>(&database, "SELECT count(*) FROM connection"))
    );
    memory[1].saturating_sub(memory[0])
}

#[test]
fn totals_of_the_file_are_those_of_the_application() {
    if may_run_as_root() {
        churn(2_000);
    }
}

#[test]
#[ignore = "takes minutes; the one above does the same with fewer; docs/performance.md has how to run it, and its figures"]
fn a_hundred_thousand_short_connections() {
    if may_run_as_root() {
        // The memory of a burst stays with the process; a record for each connection would take several times as much.
        let grown = churn(100_000);
        assert!(grown < 64 << 10, "{grown} kB");
    }
}

#[test]
fn sigterm_writes_open_connections_after_another_program_held_the_file() {
    if !may_run_as_root() {
        return;
    }
    let (place, lab) = (Place::new(), lab());
    let mut daemon = place.start(&[]);
    let _held = hold(&lab, SHORT);
    let sent = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.until("mpwatch_agent_ticks_total", |ticks| ticks > sent + 2.0);
    let other = Connection::open(place.database()).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    daemon.signal(Signal::SIGTERM);
    place.until_told("STOPPING=1", 0);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(daemon.ended().code(), Some(0));
    let open = of_clients(&lab, "count(*)", &format!("closed_at_ns IS NULL AND bytes_sent = {SHORT}"));
    assert_eq!(one::<u32>(&read(&place.database()), &open), 1);
    assert!(!place.database().with_extension("db.lock").exists());
}

#[test]
fn a_file_that_another_program_holds_stops_neither_metrics_nor_the_daemon() {
    if !may_run_as_root() {
        return;
    }
    let (place, lab) = (Place::new(), lab());
    let mut daemon = place.start(&[]);
    let other = Connection::open(place.database()).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    traffic::run(lab.client(), lab.server(), &short(&lab, 5)).unwrap();
    daemon.until("mpwatch_agent_store_paused", |paused| paused > 0.5);
    daemon.until("mpwatch_agent_store_waiting_connections", |waiting| waiting >= 10.0);
    let why = daemon.logged("the database cannot be written; metrics continue");
    assert!(why["why"].as_str().unwrap().contains("another program holds the file"), "{why}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    daemon.logged("the database is not complete");
}

/// A small file system in memory.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(TempDir::new().unwrap());
        disk.mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
        disk
    }

    fn mount(&self, arguments: &[&str]) {
        let done = Command::new("mount").args(arguments).arg(self.0.path()).status().unwrap();
        assert!(done.success(), "mount {arguments:?}");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("flows.db")
    }

    /// Fills it.
    fn fill(&self) -> PathBuf {
        let filler = self.0.path().join("filler");
        while fs::File::options()
            .create(true)
            .append(true)
            .open(&filler)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 4096]))
            .is_ok()
        {}
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn is_recovered(daemon: &Daemon) {
    daemon.until("mpwatch_agent_store_paused", |paused| paused < 0.5);
    daemon.logged("the database is being written again");
}

#[test]
fn a_full_disk_loses_no_metrics_and_no_connection() {
    if !may_run_as_root() {
        return;
    }
    let (place, lab, disk) = (Place::new(), lab(), Disk::new());
    let mut daemon = place.start(&["--db", disk.file().to_str().unwrap()]);
    let filler = disk.fill();
    traffic::run(lab.client(), lab.server(), &short(&lab, 300)).unwrap();
    daemon.until("mpwatch_agent_store_paused", |paused| paused > 0.5);
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.until("mpwatch_agent_ticks_total", |now| now > ticks + 2.0);
    let why = daemon.logged("the database cannot be written; metrics continue");
    assert!(why["why"].as_str().unwrap().contains("the disk is full"), "{why}");
    assert_eq!(place.attached(&["ls"]).code, Some(0));
    fs::remove_file(filler).unwrap();
    is_recovered(&daemon);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    let count = of_clients(&lab, "count(*)", &format!("bytes_sent = {SHORT}"));
    assert_eq!(one::<u32>(&read(&disk.file()), &count), 300, "all of them");
}

#[test]
fn the_daemon_waits_for_a_disk_that_is_full_at_the_start() {
    if !may_run_as_root() {
        return;
    }
    let (place, lab, disk) = (Place::new(), lab(), Disk::new());
    let filler = disk.fill();
    let daemon = place.start(&["--db", disk.file().to_str().unwrap()]);
    daemon.until("mpwatch_agent_store_paused", |paused| paused > 0.5);
    daemon.until("mpwatch_loss_store_snapshots_total", |dropped| dropped > 0.0);
    fs::remove_file(filler).unwrap();
    is_recovered(&daemon);
    traffic::run(lab.client(), lab.server(), &short(&lab, 3)).unwrap();
    daemon.until("mpwatch_agent_store_connections_written_total", |written| written >= 6.0);
}

/// Starts a daemon that must refuse; returns its error.
fn refused(place: &Place, file: &Path) -> String {
    let outcome = mpwatch(&[
        "daemon",
        "--listen",
        "127.0.0.1:0",
        "--socket",
        place.socket().with_extension("other").to_str().unwrap(),
        "--db",
        file.to_str().unwrap(),
    ]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn a_file_that_cannot_be_used_is_refused_before_anything_is_traced() {
    if !may_run_as_root() {
        return;
    }
    let (place, folder, disk) = (Place::new(), TempDir::new().unwrap(), Disk::new());
    let daemon = place.start(&[]);
    let in_use = refused(&place, &place.database());
    assert!(in_use.contains("is being written by another mpwatch"), "{in_use}");
    drop(daemon);
    // The lock of a killed daemon keeps no other out. A daemon that ends in order leaves one file.
    let mut daemon = place.start(&[]);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));

    let good = fs::read(place.database()).unwrap();
    let file = folder.path().join("flows.db");
    fs::write(&file, "no database at all, and longer than a header is ".repeat(50)).unwrap();
    let text = refused(&place, &file);
    assert!(text.contains("is not a database of mpwatch"), "{text}");
    fs::write(&file, &good).unwrap();
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let newer = refused(&place, &file);
    assert!(newer.contains("has schema 99") && newer.contains("use a newer mpwatch"), "{newer}");
    let mut damaged = good.clone();
    damaged[4_096..].fill(0xff);
    fs::write(&file, &damaged).unwrap();
    let corrupt = refused(&place, &file);
    assert!(corrupt.contains("the file is damaged") && corrupt.contains(".recover"), "{corrupt}");
    assert_eq!(fs::read(&file).unwrap(), damaged, "and unchanged");

    fs::write(&file, &good).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let for_readers = refused(&place, &file);
    assert!(for_readers.contains("it may only be read; this user must be allowed to write"), "{for_readers}");

    fs::write(disk.file(), &good).unwrap();
    disk.mount(&["-o", "remount,ro"]);
    let read_only = refused(&place, &disk.file());
    assert!(read_only.contains("allowed to write"), "{read_only}");
    let report = mpwatch(&["report", "--db", disk.file().to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "it can be read: {}", report.stderr);
    let later = mpwatch(&["report", "--db", disk.file().to_str().unwrap(), "--since", "2099-01-01"]);
    assert!(later.stdout.contains("the file has nothing of this period"), "{}", later.stdout);
}

#[test]
fn limits_change_with_a_signal() {
    if !may_run_as_root() {
        return;
    }
    let (place, lab) = (Place::new(), lab());
    let daemon = place.start(&[]);
    traffic::run(lab.client(), lab.server(), &short(&lab, 4)).unwrap();
    daemon.until("mpwatch_agent_store_connections_written_total", |written| written >= 8.0);
    assert_eq!(daemon.metric("mpwatch_agent_store_connections_retired_total"), Some(0.0));
    place.configure("[store]\nkeep = \"1s\"\n");
    daemon.signal(Signal::SIGHUP);
    daemon.until("mpwatch_agent_store_connections_retired_total", |retired| retired >= 8.0);
}
