// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon in a control group without memory left. The state in traced sockets is charged to this group, because the daemon created the
//! maps.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{IdleConnections, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{may_run_as_root, skip};
use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};

use service::{DaemonDir, TIMEOUT};

/// Number of connections. Both ends fit under the usual limit of open files.
const CONNECTIONS: u32 = 400;
/// Each end of a held connection has sent one byte.
const BYTES: u32 = 1;

/// A control group with the memory controller. Dropping this value removes the group once it is empty.
struct MemoryGroup {
    folder: PathBuf,
    /// Names of the files with the group's limit and its current memory.
    limit: &'static str,
    current: &'static str,
}

impl MemoryGroup {
    /// `None`: this machine has no memory controller that the test can use.
    fn new() -> Option<Self> {
        let name = format!("mpwatch-test-{}", std::process::id());
        // In version 2, only the root group has the controller until it is enabled for children, which another program may have done.
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        // cgroup v1, then v2.
        [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ]
        .into_iter()
        .find_map(|(root, limit, current)| {
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit, current };
            group.folder.join(limit).exists().then_some(group)
        })
    }

    /// A shell script that enters the group and then executes its arguments.
    fn wrapper(&self) -> [String; 4] {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        ["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()]
    }

    fn current(&self) -> u64 {
        fs::read_to_string(self.folder.join(self.current)).unwrap().trim().parse().unwrap()
    }

    fn limit(&self, bytes: u64) {
        fs::write(self.folder.join(self.limit), bytes.to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A killed process leaves the group a little later.
        let _ = poll_until("the control group to be empty", TIMEOUT, || fs::remove_dir(&self.folder).ok());
    }
}

#[test]
fn connections_that_open_while_the_daemon_has_no_memory_left_are_whole() {
    if !may_run_as_root() {
        return;
    }
    let Some(group) = MemoryGroup::new() else {
        return skip("this test needs the memory controller of cgroup v1 or v2");
    };
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let wrapper = group.wrapper();
    let mut daemon = daemon_dir.start_as(&wrapper.each_ref().map(String::as_str), &[]);
    // The daemon must not allocate memory meanwhile, because the kernel would kill it.
    daemon.signal(Signal::SIGSTOP);
    let limit = group.current();
    group.limit(limit);
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(BYTES.into()));
    spec.connections = CONNECTIONS;
    let held = IdleConnections::open(lab.client(), lab.server(), &spec).unwrap();
    let beyond = group.current().saturating_sub(limit);
    println!("state of {} sockets: {beyond} bytes beyond the limit", held.sockets());
    // Up to Linux 6.18, allocations in softirqs may exceed a limit. 7.2 refuses them, and the next event of a socket tries again.
    group.limit(u64::from(u32::MAX));
    drop(held);
    daemon.signal(Signal::SIGCONT);
    daemon.wait_for_metric("mpwatch_agent_store_connections_written_total", |n| {
        n >= f64::from(2 * CONNECTIONS)
    });
    let loss = |name: &str| daemon.metric(&format!("mpwatch_loss_{name}_total")).unwrap();
    for name in ["records", "vanished", "sent_bytes", "received_bytes"] {
        assert!(loss(name) < 1.0, "{name}: {} {}", loss(name), daemon.log_text());
    }
    let refused = loss("storage_failed");
    assert_eq!(
        beyond > 0,
        refused < 1.0,
        "granted beyond the limit: {beyond} bytes; refused: {refused} times"
    );
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0), "{}", daemon.log_text());
    let database =
        Connection::open_with_flags(daemon_dir.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT count(DISTINCT id) FROM v_connection WHERE bytes_sent = ? AND bytes_received = ? AND closed_at_ns IS NOT NULL
        AND netns IN (?, ?)";
    let names = [lab.client().name(), lab.server().name()];
    let stored: u32 = database
        .query_row(sql, rusqlite::params![BYTES, BYTES, names[0], names[1]], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, 2 * CONNECTIONS, "both ends: {}", daemon.log_text());
}
