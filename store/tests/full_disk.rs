// SPDX-License-Identifier: MIT OR Apache-2.0
//! On a full disk, the writer uses its reserve for the last connections, and the file has the number of the lost connections.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::id::SocketCookie;
use mpwatch_store::{Archive, Limits, Period, Store, StoreError};
use mpwatch_testkit::{poll_until, skip};

/// Name of the variable with the small file system; set in the process that fills it.
const DISK: &str = "MPWATCH_TEST_DISK";
const PER_SNAPSHOT: u64 = 1_500;
const TIMEOUT: Duration = Duration::from_mins(1);

fn deliver(store: &Store, turn: u64) {
    let connections = (1..=PER_SNAPSHOT).map(|nth| {
        let mut connection = fixture::closed(7);
        connection.id.birth = SocketCookie(turn * PER_SNAPSHOT + nth);
        connection
    });
    let mut snapshot = fixture::snapshot(connections.collect());
    snapshot.at += SignedDuration::from_secs(turn.cast_signed());
    store.deliver(&Arc::new(snapshot));
}

fn write_to_full_disk(disk: &Path) {
    let file = disk.join("flows.db");
    let store = Store::open(&file, &Limits::none()).unwrap();
    deliver(&store, 0);
    let are_written = || (store.figures().written == PER_SNAPSHOT).then_some(());
    poll_until("the first connections", TIMEOUT, are_written).unwrap();
    let mut other = std::fs::File::create(disk.join("other")).unwrap();
    while other.write(&[1; 4_096]).is_ok() {}
    // More than the free space, the log and the reserve can take.
    (1..=6).for_each(|turn| deliver(&store, turn));
    poll_until("a full disk", TIMEOUT, || (store.figures().waiting > 0).then_some(())).unwrap();
    let losses = store.close_within(Duration::from_secs(2));
    let (mut stored, mut lost, mut cut_short) = (0, 0, None);
    let parts = Archive::open(&file).unwrap().parts(Period::default(), None, usize::MAX, |report, _| {
        stored += report.connections.len() as u64;
        (lost, cut_short) = (report.losses.store_flows_lost, report.run.cut_short);
        Ok::<_, StoreError>(())
    });
    parts.unwrap();
    println!("{stored} are stored, {losses:?}");
    assert!(losses.paused.unwrap().contains("the disk is full"));
    assert_eq!((lost, cut_short), (losses.flows_lost, None), "the file has the number of lost connections");
    assert_eq!(stored + lost, 7 * PER_SNAPSHOT, "each connection is stored or counted");
    assert!(lost > 0 && stored > 3 * PER_SNAPSHOT, "{stored} connections are stored");
}

#[test]
fn the_reserve_takes_connections_that_wait_at_the_end() {
    if let Some(disk) = std::env::var_os(DISK) {
        return write_to_full_disk(Path::new(&disk));
    }
    let folder = tempfile::TempDir::new().unwrap();
    let isolated = |command: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-ec"]);
        unshare.arg(format!("mount -t tmpfs -o size=12m none \"${DISK}\"; {command}"));
        unshare.env(DISK, folder.path()).arg("sh").arg(std::env::current_exe().unwrap());
        unshare
    };
    if !isolated("true").status().is_ok_and(|status| status.success()) {
        return skip("this user may not mount a file system in a namespace");
    }
    let test = "exec \"$1\" the_reserve_takes_connections_that_wait_at_the_end --exact --nocapture";
    assert!(isolated(test).status().unwrap().success());
}
