// SPDX-License-Identifier: MIT OR Apache-2.0
//! New connections: the rate at which this machine opens and closes them, with a daemon (and database) and without, and whether each
//! connection is recorded.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use nix::unistd::{SysconfVar, sysconf};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::effort::Effort;
use crate::soak::churn::Counts;
use crate::soak::sample::{self, list_losses};
use crate::soak::watched::Watched;
use crate::subjects::traffic::lab;
use crate::table::{figure, markdown};

/// Number of parallel connections, and payload of each in bytes.
const WORKERS: u32 = 4;
const SHORT_BYTES: u64 = 1_000;
const OPEN_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum time from the close of the last connection until all rows are in the database.
const WRITTEN_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) fn run(effort: Effort) -> String {
    let lab = lab();
    let count = effort.new_connections;
    eprintln!("bench: {count} new connections");
    let before = open_short(&lab, count / 4);
    let folder = TempDir::new().expect("a folder for the daemon");
    let daemon = Watched::daemon(folder.path(), None).expect("the daemon starts");
    let (began, cpu) = (Instant::now(), cpu_time(daemon.pid()));
    let with_daemon = open_short(&lab, count);
    let cpu = cpu_time(daemon.pid()).saturating_sub(cpu).as_secs_f64();
    let seconds = began.elapsed().as_secs_f64();
    let database = folder.path().join("flows.db");
    let namespaces = [lab.client().name(), lab.server().name()];
    let expected = 2 * i64::from(count);
    // A timeout is ignored: the number of missing connections is a result.
    let _ = poll_until("every connection is in the database", WRITTEN_TIMEOUT, || {
        (recorded(&database, namespaces) >= expected).then_some(())
    });
    let losses = list_losses(&daemon.metrics().expect("the daemon serves its metrics"));
    let memory = sample::read(daemon.pid(), Duration::ZERO, Counts::default()).expect("the daemon runs");
    eprintln!("bench: {}", daemon.finish().expect("the daemon ends"));
    let written = recorded(&database, namespaces);
    let after = open_short(&lab, count / 4);
    let text = |name: &str, value: String, target: &str| vec![name.to_owned(), value, target.to_owned()];
    let rows = [
        text("opened and closed without mpwatch", format!("{before:.0} and {after:.0} per second"), "-"),
        text(
            "opened and closed with the daemon",
            format!("{with_daemon:.0} per second for {seconds:.0} s"),
            "5000 per second for 60 s",
        ),
        text("of both ends, in the database", format!("{written} of {expected}"), "all"),
        text("lost", losses, "nothing"),
        text(
            "daemon, CPU time per connection, both ends",
            format!("{} us", figure(cpu * 1e6 / f64::from(count))),
            "-",
        ),
        text("daemon, its share of one CPU", format!("{} %", figure(cpu * 100.0 / seconds)), "-"),
        text("daemon, anonymous memory at the end", format!("{} MiB", memory.anonymous_kb / 1_024), "-"),
    ];
    let note = "Four workers open connections, send 1 000 bytes on each, and close them. Both ends are on this machine and traced by a daemon \
                with its default settings and a database.\n\n";
    note.to_owned() + &markdown(&["what", "figure", "target"], &rows)
}

/// Number of closed connections of these namespaces in the database. A connection with both ends on this machine counts twice.
fn recorded(database: &Path, namespaces: [&str; 2]) -> i64 {
    let query =
        "SELECT count(DISTINCT id) FROM v_connection WHERE netns IN (?1, ?2) AND closed_at_ns IS NOT NULL";
    let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("the daemon has made its database");
    database.query_row(query, namespaces, |row| row.get(0)).expect("the database can be read")
}

/// CPU time of a process, in user space and in the kernel.
fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon runs");
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    Duration::from_secs_f64(ticks.sum::<f64>() / per_second)
}

/// Opens and closes `count` connections. Returns the number of connections per second.
pub(super) fn open_short(lab: &Topology, count: u32) -> f64 {
    let mut spec =
        TrafficSpec::new(lab.path(1).expect("a second path").server_address(), Workload::upload(SHORT_BYTES));
    // This port is not used by idle connections.
    spec.server.set_port(traffic::PORT + 1_000);
    (spec.connections, spec.concurrency, spec.read_socket_info) = (count, WORKERS, false);
    spec.timeout = OPEN_TIMEOUT;
    let report = traffic::run(lab.client(), lab.server(), &spec).expect("connections can be opened").client;
    report.connections.len() as f64 / report.elapsed.as_secs_f64()
}
