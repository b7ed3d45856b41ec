// SPDX-License-Identifier: MIT OR Apache-2.0
//! If a process is killed while it writes a store, the file contains all connections that the process had reported as written.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::id::SocketCookie;
use mpwatch_store::{Archive, Limits, Period, Store, StoreError};

/// Name of the variable with the file to write; set in the process that will be killed.
const FILE: &str = "MPWATCH_TEST_STORE";
const PER_SNAPSHOT: u64 = 50;

/// Writes connections numbered from 1 without end, and prints how many are committed.
fn write_for_ever(file: &Path) {
    let store = Store::open(file, &Limits::none()).unwrap();
    let closed = fixture::closed(7);
    for turn in 0.. {
        let connections = (1..=PER_SNAPSHOT).map(|nth| {
            let mut connection = closed.clone();
            connection.id.birth = SocketCookie(turn * PER_SNAPSHOT + nth);
            connection
        });
        let mut snapshot = fixture::snapshot(connections.collect());
        snapshot.at += SignedDuration::from_secs(turn.cast_signed());
        store.deliver(&Arc::new(snapshot));
        println!("committed {}", store.figures().written);
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_kill_loses_no_committed_flow() {
    if let Some(file) = std::env::var_os(FILE) {
        return write_for_ever(Path::new(&file));
    }
    let folder = tempfile::TempDir::new().unwrap();
    for (round, enough) in [500, 1_500, 3_000].into_iter().enumerate() {
        let file = folder.path().join(format!("{round}.db"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["a_kill_loses_no_committed_flow", "--nocapture", "--exact"])
            .env(FILE, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let counts = lines.filter_map(|line| line.rsplit_once("committed ")?.1.parse::<u64>().ok());
        let committed = counts.take_while(|count| *count < enough).last().unwrap_or_default();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut connections = Vec::new();
        let read = Archive::open(&file).unwrap().parts(Period::default(), None, usize::MAX, |report, _| {
            connections.extend(report.connections);
            Ok::<_, StoreError>(())
        });
        read.unwrap();
        let mut births: Vec<u64> = connections.iter().map(|connection| connection.id.birth.0).collect();
        births.sort_unstable();
        assert!(births.len() as u64 >= committed, "{} of {committed} are there", births.len());
        assert_eq!(births.len() as u64 % PER_SNAPSHOT, 0, "a transaction is complete or absent");
        assert!(births.iter().copied().eq(1..=births.len() as u64), "no gap");
        assert!(
            connections
                .iter()
                .all(|connection| connection.subflows.len() == 2 && connection.timeline.len() == 8)
        );
        // The next writer can use the file.
        assert_eq!(Store::open(&file, &Limits::none()).unwrap().close().paused, None);
    }
}
