// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path fails and the connection ends. Afterwards the stream of snapshots, the database, its reports and a live view that was open all
//! the time report the same failure: time, cause, outage and bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[allow(dead_code, reason = "this target uses a part of it")]
#[path = "daemon/service.rs"]
mod service;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_lab::topology::PathFailure;
use mpwatch_tests::tmux::Tmux;
use mpwatch_tests::{failover, list, may_run_as_root, mpwatch, number, program, text};
use serde_json::Value;

use service::{DaemonDir, TIMEOUT};

/// Timeout of the end of all subflows, because the kernel retries on the failed path for a while.
const END: Duration = Duration::from_mins(2);
/// Number of snapshots without the closed connection. The live view shows a closed connection in two snapshots.
const LATER: usize = 20;

/// `mpwatch top --batch --json`, attached to the daemon.
struct Stream {
    child: Child,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    snapshots: usize,
    /// The last object of each connection, and the number of its snapshot.
    last: HashMap<String, (usize, Value)>,
}

impl Stream {
    fn start(daemon_dir: &DaemonDir) -> Self {
        let mut child = Command::new(program())
            .args(["top", "--batch", "--json", "--socket"])
            .arg(daemon_dir.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (lines, sink) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&seen));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let snapshot: Value = serde_json::from_str(&line).expect("a line is a snapshot");
                let mut seen = sink.lock().unwrap();
                seen.snapshots += 1;
                let number = seen.snapshots;
                for connection in list(&snapshot, "connections") {
                    seen.last.insert(text(connection, "id").to_owned(), (number, connection.clone()));
                }
            }
        });
        let stream = Self { child, seen };
        poll_until("a snapshot", TIMEOUT, || (stream.seen.lock().unwrap().snapshots > 0).then_some(()))
            .unwrap();
        stream
    }

    /// The last object of the closed connection in this namespace, after it was absent from [`LATER`] snapshots.
    fn long_closed(&self, netns: &str) -> Value {
        let find = || {
            let seen = self.seen.lock().unwrap();
            let (number, connection) =
                seen.last.values().find(|(_, connection)| connection["netns"] == netns)?;
            let has_closed = connection["closed_at"].is_string() && seen.snapshots >= number + LATER;
            has_closed.then(|| connection.clone())
        };
        poll_until("the end of the connection, and time to pass", END, find).unwrap()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The live view, attached to the daemon.
fn live_view(daemon_dir: &DaemonDir, netns: &str) -> Tmux {
    let command = format!(
        "exec env -u NO_COLOR LC_ALL=C.UTF-8 MPWATCH_SCREEN_CONFIG= {} top --netns {netns} --socket {}",
        program().display(),
        daemon_dir.socket().display()
    );
    let view = Tmux::start((160, 50), &["sh", "-c", &command]);
    poll_until("the view", TIMEOUT, || view.screen().contains("1 Connections").then_some(())).unwrap();
    view
}

/// Values that must be equal in two outputs.
fn story(connection: &Value) -> Value {
    let of = |subflow: &Value| {
        serde_json::json!([
            subflow["local"],
            subflow["bytes_sent"],
            subflow["bytes_retransmitted"],
            subflow["path_failures"],
            subflow["closed"]
        ])
    };
    serde_json::json!({
        "bytes": [connection["bytes_sent"], connection["bytes_received"], connection["bytes_reinjected"]],
        "duration": connection["age_s"],
        "closed_at": connection["closed_at"],
        "subflows": list(connection, "subflows").iter().map(of).collect::<Vec<_>>(),
        "timeline": connection["timeline"],
    })
}

/// The text on one line, without line breaks.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn long_after_a_failover_all_outputs_report_the_same_failure() {
    if !may_run_as_root() {
        return;
    }
    let lab = failover::two_paths();
    let netns = lab.client().name();
    let daemon_dir = DaemonDir::new();
    let _daemon = daemon_dir.start(&[]);
    let (stream, view) = (Stream::start(&daemon_dir), live_view(&daemon_dir, netns));
    failover::upload(&lab, PathFailure::Blackhole);
    let streamed = stream.long_closed(netns);
    assert_eq!(number(&streamed, "bytes_sent"), failover::BYTES);

    let database = daemon_dir.database();
    let report = |format: &str| {
        let database = database.to_str().unwrap();
        let outcome = mpwatch(&["report", "--db", database, "--netns", netns, "--format", format]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        outcome.stdout
    };
    let stored: Value = serde_json::from_str(&report("json")).unwrap();
    let [stored] = list(&stored, "connections") else { panic!("expected one connection: {stored:#}") };
    assert_eq!(story(stored), story(&streamed), "database and snapshots");

    let page = report("text");
    let problem = |kind: &str| {
        let found = page.lines().find(|text| text.starts_with("  ! ") && text.contains(kind));
        let problem = found.unwrap_or_else(|| panic!("no problem `{kind}` in {page}"));
        problem.trim_start_matches("  ! ").split_once(": ").unwrap().1.to_owned()
    };
    let (failure, outage) = (problem("failed at"), problem("outage from"));
    assert!(failure.starts_with("path 1 (") && failure.contains("until the connection closed"), "{failure}");
    assert!(!page.contains("aborted"), "{page}");

    // The key `o` switches from recently closed connections to all closed connections.
    assert!(!view.screen().contains("FAILED"), "the connection has left the view: {}", view.screen());
    view.press(&["o"]);
    let shown = poll_until("the failure on the screen", TIMEOUT, || {
        let screen = view.screen();
        (screen.contains("FAILED") && screen.contains("outage from")).then_some(screen)
    });
    let screen = shown.unwrap_or_else(|error| panic!("{error}; the screen:\n{}", view.screen()));
    for sentence in [failure, outage] {
        assert!(unwrapped(&screen).contains(&unwrapped(&sentence)), "`{sentence}` on the screen:\n{screen}");
    }
    // A later live view attaches to a daemon that no longer sends the connection; the report has it.
    let listed = daemon_dir.run_attached(&["ls", "--json", "--netns", netns]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(list(&listed, "connections").len(), 0);
}
