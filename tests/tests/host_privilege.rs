// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities of the tracing daemon, access to its socket, and the error messages of its clients.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "only some targets use all of it")]
mod service;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use mpwatch_lab::Topology;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_tests::{may_run_as_root, output, program};
use nix::sys::signal::Signal;

use service::DaemonDir;

/// Capabilities that a tracing daemon keeps (docs/daemon.md): CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF.
const DOCUMENTED: u64 = 1 << 19 | 1 << 38 | 1 << 39;

/// A capability set in `/proc/PID/status`.
fn capability_set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn the_daemon_keeps_only_the_documented_capabilities_and_traces() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 2.0);
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let name = status.lines().next().unwrap();
        let without_capabilities =
            ["mpwatch-control", "mpwatch-frames", "mpwatch-http", "mpwatch-socket", "mpwatch-store"];
        let allowed =
            if without_capabilities.iter().any(|thread| name.contains(thread)) { 0 } else { DOCUMENTED };
        for set_of in ["CapEff", "CapPrm"] {
            assert_eq!(capability_set(&status, set_of) & !allowed, 0, "{name}: {status}");
        }
        for set_of in ["CapInh", "CapAmb"] {
            assert_eq!(capability_set(&status, set_of), 0, "{name}: {status}");
        }
        assert_eq!(capability_set(&status, "CapBnd") & !DOCUMENTED, 0, "{name}: {status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{name}: {status}");
        threads += 1;
    }
    assert!(threads >= 5, "{threads} threads");

    // The daemon also traces namespaces that are created after it dropped the other capabilities.
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let before = daemon.metric("mpwatch_agent_store_connections_written_total").unwrap();
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(200_000));
    spec.connections = 3;
    traffic::run(lab.client(), lab.server(), &spec).unwrap();
    daemon
        .wait_for_metric("mpwatch_agent_store_connections_written_total", |written| written >= before + 6.0);
    let database = rusqlite::Connection::open(daemon_dir.database()).unwrap();
    let sql = format!(
        "SELECT count(*), ifnull(sum(bytes_sent), 0) FROM v_connection WHERE closed_at_ns IS NOT NULL AND netns = '{}'",
        lab.client().name()
    );
    let found: (i64, i64) = database.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(found, (3, 600_000));
}

#[test]
fn members_of_the_group_may_connect_and_others_get_advice() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    fs::set_permissions(daemon_dir.socket().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    daemon_dir.configure("socket_group = \"54321\"\n");
    let daemon = daemon_dir.start(&[]);
    let copy = daemon_dir.socket().with_file_name("mpwatch");
    // Another user may have no access to the build folder.
    fs::copy(program(), &copy).unwrap();
    let run = |groups: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534"]);
        command.args(if groups.is_empty() { vec!["--clear-groups"] } else { vec!["--groups", groups] });
        command.arg(&copy).args(arguments).arg("--socket").arg(daemon_dir.socket());
        output(&mut command)
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
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{message}");
    assert!(message.contains("join its group"), "{message}");
    drop(daemon);
}

#[test]
fn clients_refuse_tracing_options_and_report_a_daemon_that_does_not_respond() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    for arguments in [&["ls", "--tcp"][..], &["top", "--batch", "-n", "1", "--interval", "2s"]] {
        let refused = daemon_dir.run_attached(arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("decides how it traces"), "{}", refused.stderr);
    }
    daemon.signal(Signal::SIGSTOP);
    let unanswered = daemon_dir.run_attached(&["ls"]);
    daemon.signal(Signal::SIGCONT);
    assert_eq!(unanswered.code, Some(1));
    assert!(unanswered.stderr.contains("does not answer"), "{}", unanswered.stderr);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0));
}

#[test]
fn the_error_for_another_user_says_that_the_database_is_private() {
    if !may_run_as_root() {
        return;
    }
    let daemon_dir = DaemonDir::new();
    let daemon = daemon_dir.start(&[]);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // As while a daemon runs: a private database and its private log.
    for ending in ["", "-wal"] {
        let file = folder.path().join(format!("flows.db{ending}"));
        fs::copy(format!("{}{ending}", daemon_dir.database().display()), &file).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let copy = folder.path().join("mpwatch");
    fs::copy(program(), &copy).unwrap();
    let mut command = Command::new(copy);
    let command =
        command.args(["report", "--db"]).arg(folder.path().join("flows.db")).uid(65_534).gid(65_534);
    let output = output(command);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("only its owner may read it"), "{message}");
    drop(daemon);
}
