// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elimination of extra subflows by the daemon: only one thread holds CAP_NET_ADMIN, and metrics, log, timeline and database contain the
//! events.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "only some targets use all of it")]
mod service;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{list, may_run_as_root, program, text};
use serde_json::Value;

use service::{Daemon, DaemonDir, TIMEOUT};

/// The bit of CAP_NET_ADMIN.
const NET_ADMIN: u64 = 1 << 12;
/// CAP_NET_ADMIN, CAP_SYS_PTRACE and CAP_SYS_ADMIN, the capabilities of the thread that removes subflows (docs/daemon.md).
const OF_THE_ACTING_THREAD: u64 = NET_ADMIN | 1 << 19 | 1 << 21;

/// Names of the threads that hold CAP_NET_ADMIN in any set.
fn threads_with_net_admin(daemon: &Daemon) -> Vec<String> {
    let mut names = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let name = status.lines().next().unwrap().trim_start_matches("Name:").trim().to_owned();
        let sets = status.lines().filter(|line| line.starts_with("Cap"));
        let sets: Vec<u64> = sets
            .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(sets.len(), 5, "{status}");
        if sets.iter().any(|set| set & NET_ADMIN != 0) {
            assert!(sets.iter().all(|set| set & !OF_THE_ACTING_THREAD == 0), "{status}");
            names.push(name);
        }
    }
    names
}

#[test]
fn only_the_thread_that_acts_holds_cap_net_admin_and_only_if_elimination_is_on() {
    if !may_run_as_root() {
        return;
    }
    for (configuration, expected) in [
        ("", &[][..]),
        ("control.eliminate = \"off\"\n", &[]),
        ("control.eliminate = \"dry-run\"\n", &[]),
        (
            "control = { eliminate = \"on\", eliminate_filter = \"netns:no-such-namespace\" }\n",
            &["mpwatch-act"],
        ),
    ] {
        let daemon_dir = DaemonDir::new();
        daemon_dir.configure(configuration);
        let daemon = daemon_dir.start(&[]);
        daemon.wait_for_metric("mpwatch_agent_ticks_total", |ticks| ticks > 2.0);
        assert_eq!(threads_with_net_admin(&daemon), expected, "{configuration}");
        let has_series = daemon.metric("mpwatch_agent_eliminated_subflows_total").is_some();
        assert_eq!(
            has_series,
            configuration.contains("\"on\"") || configuration.contains("dry"),
            "{configuration}"
        );
    }
}

/// Starts an upload over all paths. It ends when the transfer is dropped or cancelled.
fn upload(lab: &Topology) -> (Transfer, Arc<Control>) {
    let workload = Workload::upload_for(TIMEOUT * 2);
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), workload);
    spec.congestion = Some("cubic".to_owned());
    spec.timeout = TIMEOUT * 3;
    // Only several connections show that their address pairs share a bottleneck.
    (spec.connections, spec.concurrency) = (2, 2);
    let control = Arc::new(Control::default());
    (Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap(), control)
}

/// The steps of elimination on the timelines of the client's connections.
fn steps(daemon_dir: &DaemonDir, lab: &Topology) -> Vec<Value> {
    let listed = daemon_dir.run_attached(&["ls", "--json", "--netns", lab.client().name()]);
    let snapshot: Value = serde_json::from_str(&listed.stdout).unwrap();
    let connections = list(&snapshot, "connections").iter();
    let entries = connections.flat_map(|connection| list(connection, "timeline"));
    entries.filter(|entry| text(entry, "event") == "elimination").cloned().collect()
}

#[test]
fn the_daemon_removes_extra_subflows_and_reports_them_everywhere() {
    if !may_run_as_root() {
        return;
    }
    let lab = Topology::shared(
        &[LinkSpec::default(); 3],
        LinkSpec::rate(40.0, Duration::from_millis(50)).rtt(Duration::from_millis(20)),
    )
    .unwrap();
    for (mode, step, metric) in [
        ("dry-run", "planned", "mpwatch_agent_elimination_planned_total"),
        ("on", "removed", "mpwatch_agent_eliminated_subflows_total"),
    ] {
        let daemon_dir = DaemonDir::new();
        // Other traffic of this machine must not be affected.
        let only = lab.client().name();
        daemon_dir.configure(&format!(
            "[control]\neliminate = \"{mode}\"\neliminate_stable = \"1s\"\neliminate_filter = \"netns:{only}\"\n"
        ));
        let daemon = daemon_dir.start(&[]);
        let (transfer, control) = upload(&lab);
        daemon.wait_for_metric(metric, |count| count >= 4.0);
        let found = poll_until("the timeline", TIMEOUT, || {
            let found = steps(&daemon_dir, &lab);
            let count = found.iter().filter(|entry| text(entry, "step") == step).count();
            (count >= 4).then_some(found)
        });
        // A connection whose pairs get their verdicts at different times has a second removal after the watch of the first.
        let expected = |entry: &Value| text(entry, "step") == step || text(entry, "step") == "confirmed";
        let found = found.unwrap();
        assert!(
            found.iter().all(|entry| expected(entry) && text(entry, "source") == "control"),
            "{found:#?}"
        );
        let log = daemon.log_text();
        assert!(log.contains("extra subflow") && log.contains("stable_us"), "{log}");
        control.cancel();
        // The upload was cancelled, so its result is an error.
        let _ = transfer.join();
        let sql = format!(
            "SELECT count(*) FROM v_event WHERE event = 'elimination' AND detail ->> '$.step' = '{step}'"
        );
        let database = rusqlite::Connection::open(daemon_dir.database()).unwrap();
        let stored = poll_until("the database", TIMEOUT, || {
            let count: i64 = database.query_row(&sql, [], |row| row.get(0)).unwrap();
            (count == 4).then_some(())
        });
        stored.unwrap();
        let removed = daemon.metric("mpwatch_agent_eliminated_subflows_total").unwrap();
        assert!((removed > 0.0) == (mode == "on"), "{mode}: {removed}");
    }
}

#[test]
fn elimination_needs_cap_net_admin_to_act_but_not_to_watch() {
    if !may_run_as_root() {
        return;
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]).arg(program());
        command.args(["control", "eliminate", "--duration", "300ms"]).args(arguments).output().unwrap()
    };
    let refused = run(&["--yes"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{message}");
    assert!(message.contains("cap_net_admin"), "{message}");
    assert_eq!(run(&[]).status.code(), Some(0));
    let wrong = run(&["--no-bottlenecks"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}
