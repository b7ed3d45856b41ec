// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon may still do once it traces, who may read from it, and what readers are told when it does not answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "every test needs a part of it")]
mod service;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use mpwatch_lab::Topology;
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Spec, Workload};
use mpwatch_tests::{may_run_as_root, program};
use nix::sys::signal::Signal;

use service::Place;

/// CAP_SYS_PTRACE, CAP_PERFMON, CAP_BPF: docs/daemon.md.
const DOCUMENTED: u64 = 1 << 19 | 1 << 38 | 1 << 39;

/// A line of a thread's status as a number: a set of capabilities.
fn set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn only_the_documented_capabilities_are_left_and_tracing_goes_on() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&[]);
    daemon.until("mpwatch_agent_ticks_total", |ticks| ticks > 2.0);
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let name = status.lines().next().unwrap();
        let serves = ["mpwatch-control", "mpwatch-frames", "mpwatch-socket", "mpwatch-store"];
        let allowed = if serves.iter().any(|one| name.ends_with(one)) { 0 } else { DOCUMENTED };
        for set_of in ["CapEff", "CapPrm"] {
            assert_eq!(set(&status, set_of) & !allowed, 0, "{name}: {status}");
        }
        for set_of in ["CapInh", "CapAmb"] {
            assert_eq!(set(&status, set_of), 0, "{name}: {status}");
        }
        assert_eq!(set(&status, "CapBnd") & !DOCUMENTED, 0, "{name}: {status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{name}: {status}");
        threads += 1;
    }
    assert!(threads >= 5, "{threads} threads");

    // In namespaces that did not exist when it gave up the rest.
    let lab = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    let before = daemon.metric("mpwatch_agent_store_connections_written_total").unwrap();
    let mut spec = Spec::new(lab.path(0).unwrap().server_address(), Workload::upload(200_000));
    spec.connections = 3;
    traffic::run(lab.client(), lab.server(), &spec).unwrap();
    daemon.until("mpwatch_agent_store_connections_written_total", |written| written >= before + 6.0);
    let database = rusqlite::Connection::open(place.database()).unwrap();
    let sql = format!(
        "SELECT count(*), ifnull(sum(bytes_sent), 0) FROM v_connection WHERE closed_at_ns IS NOT NULL AND netns = '{}'",
        lab.client().name()
    );
    let found: (i64, i64) = database.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(found, (3, 600_000));
}

#[test]
fn a_member_of_the_group_reads_and_others_are_told_how() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.socket().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    place.configure("socket_group = \"54321\"\n");
    let daemon = place.start(&[]);
    let copy = place.socket().with_file_name("mpwatch");
    // The folder of the build may be closed to others.
    fs::copy(program(), &copy).unwrap();
    let run = |groups: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534"]);
        command.args(if groups.is_empty() { vec!["--clear-groups"] } else { vec!["--groups", groups] });
        command.arg(&copy).args(arguments).arg("--socket").arg(place.socket());
        command.output().unwrap()
    };
    for arguments in [&["ls"][..], &["ls", "--json"], &["top", "--batch", "-n", "2"]] {
        let outcome = run("54321", arguments);
        assert_eq!(
            outcome.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }
    let refused = run("", &["ls"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("join its group"), "{said}");
    drop(daemon);
}

#[test]
fn how_to_trace_is_the_daemons_affair_and_silence_is_told() {
    if !may_run_as_root() {
        return;
    }
    let place = Place::new();
    let daemon = place.start(&[]);
    for arguments in [&["ls", "--tcp"][..], &["top", "--batch", "-n", "1", "--interval", "2s"]] {
        let refused = place.attached(arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("decides how it traces"), "{}", refused.stderr);
    }
    daemon.signal(Signal::SIGSTOP);
    let silent = place.attached(&["ls"]);
    daemon.signal(Signal::SIGCONT);
    assert_eq!(silent.code, Some(1));
    assert!(silent.stderr.contains("does not answer"), "{}", silent.stderr);
    assert_eq!(place.attached(&["ls"]).code, Some(0));
}
