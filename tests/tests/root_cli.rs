// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line with real traffic: exit codes, permissions, valid output, closed pipes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_report::schema::snapshot_schema;
use mpwatch_tests::{
    CommandOutput, OpenConnection, finish, lines, list, may_run_as_root, mpwatch, number, program, text,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(20);

/// The unprivileged user `nobody`.
const NOBODY: u32 = 65_534;
const BYTES: u64 = 500_000;

#[track_caller]
fn assert_valid(schema: &Value, text: &str) -> Value {
    let instance = serde_json::from_str(text).expect("valid JSON");
    let validator = jsonschema::validator_for(schema).expect("the schema is valid");
    let errors: Vec<String> =
        validator.iter_errors(&instance).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new());
    instance
}

/// Parses snapshots and checks them with the schema. `docs_generated.rs` asserts that this schema is the published one.
fn snapshots(outcome: &CommandOutput) -> Vec<Value> {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stdout.lines().map(|line| assert_valid(&snapshot_schema(), line)).collect()
}

fn connection_in<'a>(snapshot: &'a Value, netns: &str) -> &'a Value {
    let is_in_netns = |connection: &&Value| connection["netns"] == netns;
    list(snapshot, "connections")
        .iter()
        .find(is_in_netns)
        .unwrap_or_else(|| panic!("no connection in {netns}"))
}

#[test]
fn json_of_real_traffic_is_valid_by_its_schema() {
    if !may_run_as_root() {
        return;
    }
    let open = OpenConnection::after_upload(BYTES);
    let listed = snapshots(&mpwatch(&["ls", "--json"]));
    let [listed] = &listed[..] else { panic!("ls prints one object") };
    let connection = connection_in(listed, open.client());
    assert_eq!(number(connection, "bytes_sent"), BYTES);
    assert_eq!(list(connection, "subflows").len(), 2);

    let batch = ["top", "--batch", "-n", "2", "--json", "--interval", "200ms"];
    let batch = snapshots(&mpwatch(&batch));
    assert_eq!(batch.len(), 2);
    for snapshot in &batch {
        assert_eq!(number(connection_in(snapshot, open.client()), "bytes_sent"), BYTES);
    }
    assert!(batch[1]["interval_s"].as_f64().unwrap() > 0.1);
    let filtered = snapshots(&mpwatch(&["ls", "--json", "--netns", open.client()]));
    assert_eq!(list(&filtered[0], "connections").len(), 1);
}

#[test]
fn csv_of_real_traffic_has_one_row_per_subflow() {
    if !may_run_as_root() {
        return;
    }
    let open = OpenConnection::after_upload(BYTES);
    let listed = mpwatch(&["ls", "--csv", "--netns", open.client()]);
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
    let mut reader = csv::Reader::from_reader(listed.stdout.as_bytes());
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2, "a row per subflow: {}", listed.stdout);
    for row in &rows {
        assert_eq!((row["bytes_sent"].as_str(), row["subflows"].as_str()), (&*BYTES.to_string(), "2"));
        assert_eq!((row["netns"].as_str(), row["closed_at_ns"].as_str()), (open.client(), ""));
    }
    assert_ne!(rows[0]["subflow_local_ip"], rows[1]["subflow_local_ip"]);
}

#[test]
fn a_connection_is_shown_by_its_id_or_token_and_an_unknown_one_is_exit_code_5() {
    if !may_run_as_root() {
        return;
    }
    let open = OpenConnection::after_upload(BYTES);
    let listed = snapshots(&mpwatch(&["ls", "--json"]));
    let connection = connection_in(&listed[0], open.client());
    for id in [text(connection, "id"), text(connection, "token")] {
        let shown = mpwatch(&["show", id]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        assert!(shown.stdout.contains(text(connection, "id")), "{}", shown.stdout);
    }
    let shown = mpwatch(&["show", text(connection, "id"), "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["id"], connection["id"]);

    let unknown = mpwatch(&["show", "ffffffffffff"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(5), ""));
    assert!(unknown.stderr.contains("ffffffffffff") && unknown.stderr.contains("mpwatch ls"), "{unknown:?}");
}

#[test]
fn without_permission_the_error_names_the_capabilities() {
    if !may_run_as_root() {
        return;
    }
    // The unprivileged user may have no access to the build folder.
    let folder = TempDir::with_prefix_in("mpwatch-", std::env::temp_dir()).unwrap();
    let public = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), public).unwrap();
    let copy = folder.path().join("mpwatch");
    std::fs::copy(program(), &copy).unwrap();
    let file = folder.path().join("run.mpw");
    let record = ["record", file.to_str().unwrap()];
    let daemon = ["daemon", "--listen", "127.0.0.1:0"];
    for arguments in
        [&["ls"][..], &["top", "--batch"], &["show", "1"], &record, &["demo"], &["selftest"], &daemon]
    {
        let output = Command::new(&copy)
            .args(arguments)
            .env("RUST_BACKTRACE", "1")
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::null())
            .output()
            .expect("the copy can be started");
        let message = String::from_utf8_lossy(&output.stderr);
        println!("{arguments:?}: {message}");
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {message}");
        assert!(
            message.to_lowercase().contains("cap_") && message.contains("root"),
            "{arguments:?}: {message}"
        );
        if ["ls", "top", "show"].contains(&arguments[0]) {
            assert!(
                message.contains("usermod -aG mpwatch") && message.contains("docs/daemon.md"),
                "{message}"
            );
        }
        assert!(!message.contains("panicked") && !message.to_lowercase().contains("backtrace"), "{message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
    assert!(!file.exists(), "an empty recording was left behind");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    if !may_run_as_root() {
        return;
    }
    let _open = OpenConnection::after_upload(BYTES);
    let batch = &["top", "--batch", "--json", "--interval", "100ms"][..];
    for arguments in [&["--help"][..], &["completions", "zsh"], &["man"], &["ls", "--json"], batch] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_exits_without_error(spawn(arguments, writer.into()), arguments);
    }
    // The same after a reader such as `head -1` has read the first line.
    let mut child = spawn(batch, Stdio::piped());
    let first = lines(child.stdout.take().unwrap()).recv_timeout(TIMEOUT).unwrap();
    assert_valid(&snapshot_schema(), &first);
    assert_exits_without_error(child, batch);
}

fn spawn(arguments: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("the program can be started")
}

#[track_caller]
fn assert_exits_without_error(mut child: Child, arguments: &[&str]) {
    let status = poll_until("mpwatch to exit", TIMEOUT, || child.try_wait().unwrap());
    if status.is_err() {
        let _ = child.kill();
    }
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((status.unwrap().code(), errors.as_str()), (Some(0), ""), "{arguments:?}");
}

#[test]
fn selftest_agrees_with_all_other_sources() {
    if !may_run_as_root() {
        return;
    }
    let outcome = mpwatch(&["selftest", "--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", outcome.stdout);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((number(&result, "schema"), result["ok"].as_bool()), (1, Some(true)));
    let checks = list(&result, "checks");
    assert!(checks.len() > 30, "only {} checks", checks.len());
    let sources: BTreeSet<&str> = checks.iter().map(|check| text(check, "source")).collect();
    for source in ["application", "MPTCP_FULL_INFO", "tcp_info", "interfaces", "path", "MPTcpExt"] {
        assert!(sources.contains(source), "{sources:?}");
    }
    assert!(checks.iter().all(|check| check["ok"] == true && !text(check, "name").is_empty()));
}

#[test]
fn an_interrupted_selftest_reports_it_and_leaves_nothing() {
    if !may_run_as_root() {
        return;
    }
    let child = Command::new(program())
        .arg("selftest")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let prefix = format!("mpw-{}-", child.id());
    let namespaces = || {
        let names =
            std::fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(&prefix)).count()
    };
    poll_until("the demo's network", TIMEOUT, || (namespaces() > 0).then_some(())).unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = finish(child);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{message}");
    assert!(message.contains("interrupted"), "{message}");
    assert_eq!(namespaces(), 0);
}
