// SPDX-License-Identifier: MIT OR Apache-2.0
//! strace makes system calls of a running daemon fail for a while: the daemon continues, reports losses, and writes its backlog
//! afterwards. Another test makes a window of the ledger fail when it is opened.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
mod service;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_ebpf::tracer::{Opening, Tracer, TracerSettings};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_tests::{may_run_as_root, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};
use rusqlite::{Connection, OpenFlags};

use service::{Daemon, DaemonDir, TIMEOUT};

const CONNECTIONS: u32 = 60;
const BYTES: u32 = 1_000;

/// System calls that fail until this value is dropped.
struct Injection(Child);

impl Injection {
    /// Injects errors into all threads. Each rule is a value of strace's option `-e inject=`.
    fn start(daemon: &Daemon, rules: &[&str]) -> Self {
        Self::attach(daemon.pid(), &all_threads(daemon), rules, |_| true)
    }

    /// Injects errors into all threads except the web server's. The sockets of that server do not block, so the kernel never interrupts
    /// their calls.
    fn start_outside_web_server(daemon: &Daemon, rules: &[&str]) -> Self {
        Self::attach(daemon.pid(), &threads_outside_web_server(daemon), rules, Thread::is_outside_web_server)
    }

    fn attach(process: u32, which: &[String], rules: &[&str], is_traced: impl Fn(&Thread) -> bool) -> Self {
        let rules = rules.iter().flat_map(|rule| ["-e".to_owned(), format!("inject={rule}")]);
        let options = ["-o", "/dev/null"].map(str::to_owned).into_iter().chain(rules);
        Self::trace(process, options.chain(which.iter().cloned()), is_traced)
    }

    /// Runs strace with these options, and returns when it traces all threads for which `is_traced` is true.
    fn trace(
        process: u32,
        options: impl Iterator<Item = String>,
        is_traced: impl Fn(&Thread) -> bool,
    ) -> Self {
        let mut command = Command::new("strace");
        command.arg("-qq").args(options);
        let strace = Self(command.stdin(Stdio::null()).spawn().unwrap());
        let tracer = strace.0.id().to_string();
        poll_until("strace to attach", TIMEOUT, || {
            let mut wanted = threads(process).into_iter().filter(&is_traced);
            wanted.all(|thread| thread.tracer == tracer).then_some(())
        })
        .unwrap();
        strace
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        // strace detaches from the daemon before it ends.
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// A thread of the daemon.
struct Thread {
    id: String,
    name: String,
    /// Id of the process that traces the thread. 0: none.
    tracer: String,
}

impl Thread {
    fn is_outside_web_server(&self) -> bool {
        !self.name.starts_with("mpwatch-http")
    }

    fn is_outside_store(&self) -> bool {
        self.name != "mpwatch-store"
    }
}

/// Options of strace for all threads, also for new ones.
fn all_threads(daemon: &Daemon) -> Vec<String> {
    vec!["-f".to_owned(), "-p".to_owned(), daemon.pid().to_string()]
}

fn threads_outside_web_server(daemon: &Daemon) -> Vec<String> {
    some_threads(daemon, Thread::is_outside_web_server)
}

/// Options of strace for selected threads.
fn some_threads(daemon: &Daemon, is_chosen: fn(&Thread) -> bool) -> Vec<String> {
    let chosen = threads(daemon.pid()).into_iter().filter(is_chosen);
    chosen.flat_map(|thread| ["-p".to_owned(), thread.id]).collect()
}

fn threads(pid: u32) -> Vec<Thread> {
    let folders = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let thread = |folder: std::io::Result<fs::DirEntry>| {
        // A thread may end meanwhile.
        let status = fs::read_to_string(folder.ok()?.path().join("status")).ok()?;
        let field =
            |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        Some(Thread { id: field("Pid:")?, name: field("Name:")?, tracer: field("TracerPid:")? })
    };
    folders.filter_map(thread).collect()
}

fn may_run() -> bool {
    if may_run_as_root() && Command::new("strace").arg("--version").output().is_ok() {
        return true;
    }
    skip("this test needs root and strace (apt-get install strace)");
    false
}

fn open_and_close(lab: &Topology) {
    let mut spec = TrafficSpec::new(lab.path(0).unwrap().server_address(), Workload::upload(BYTES.into()));
    (spec.connections, spec.concurrency, spec.read_socket_info) = (CONNECTIONS, 4, false);
    assert_eq!(traffic::run(lab.client(), lab.server(), &spec).unwrap().client.first_error(), None);
}

/// Closed connections of the client's namespace with all their bytes.
fn in_database(lab: &Topology, file: &Path) -> u32 {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    database.busy_timeout(TIMEOUT).unwrap();
    let sql = "SELECT count(DISTINCT id) FROM v_connection WHERE netns = ? AND bytes_sent = ? AND closed_at_ns IS NOT NULL";
    database.query_row(sql, rusqlite::params![lab.client().name(), BYTES], |row| row.get(0)).unwrap()
}

/// Waits until the daemon works as usual, ends it, and asserts that the database has every connection.
fn assert_complete(mut daemon: Daemon, daemon_dir: &DaemonDir, lab: &Topology, rounds: u32) {
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks + 2.0);
    daemon.wait_for_metric("mpwatch_agent_store_paused", |paused| paused < 0.5);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0));
    for loss in ["records", "vanished", "decode_errors", "store_flows", "energy_windows_broken"] {
        let value = daemon.metric(&format!("mpwatch_loss_{loss}_total"));
        assert_eq!(value, Some(0.0), "{loss}: {}", daemon.log_text());
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_for_exit().code(), Some(0), "{}", daemon.log_text());
    assert_eq!(in_database(lab, &daemon_dir.database()), rounds * CONNECTIONS, "{}", daemon.log_text());
}

#[test]
fn interrupted_system_calls_lose_nothing() {
    if !may_run() {
        return;
    }
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let daemon = daemon_dir.start(&[]);
    let calls = "read,write,pread64,pwrite64,epoll_wait,poll,ppoll,accept4,openat,fdatasync";
    let injection = Injection::start_outside_web_server(&daemon, &[&format!("{calls}:error=EINTR:when=2+5")]);
    open_and_close(&lab);
    daemon.wait_for_metric("mpwatch_agent_store_connections_written_total", |n| {
        n >= f64::from(2 * CONNECTIONS)
    });
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0), "a client is served: {}", daemon.log_text());
    drop(injection);
    assert_complete(daemon, &daemon_dir, &lab, 1);
}

#[test]
fn a_shortage_of_kernel_memory_is_counted_and_loses_nothing_that_was_held() {
    if !may_run() {
        return;
    }
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let daemon = daemon_dir.start(&[]);
    open_and_close(&lab);
    let injection = Injection::start(&daemon, &["bpf:error=ENOMEM", "pwrite64:error=ENOMEM"]);
    let skipped = daemon.wait_for_log("a snapshot was skipped; the next one is read as usual");
    assert!(skipped["error"].as_str().unwrap().contains("Cannot allocate memory"), "{skipped}");
    open_and_close(&lab);
    drop(injection);
    daemon.wait_for_log("snapshots are read again");
    daemon.wait_for_metric("mpwatch_loss_ticks_failed_total", |count| count >= 1.0);
    assert!(!daemon.log_text().contains("the kernel refused"), "the ledger continues: {}", daemon.log_text());
    assert_complete(daemon, &daemon_dir, &lab, 2);
}

#[test]
fn clients_that_cannot_be_accepted_are_served_later() {
    if !may_run() {
        return;
    }
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let daemon = daemon_dir.start(&[]);
    // The first rule affects the threads of the socket and of the web server. The second one prevents a thread for a reader.
    let injection =
        Injection::start(&daemon, &["accept4:error=ENFILE:when=1..10", "clone3:error=EAGAIN:when=1..2"]);
    let refused = (0..2).map(|_| UnixStream::connect(daemon_dir.socket()).unwrap()).collect::<Vec<_>>();
    open_and_close(&lab);
    daemon.wait_for_metric("mpwatch_agent_clients_refused_total", |count| count >= 2.0);
    drop(refused);
    assert_eq!(daemon_dir.run_attached(&["ls"]).code, Some(0), "{}", daemon.log_text());
    drop(injection);
    assert_complete(daemon, &daemon_dir, &lab, 1);
}

/// The kernel attaches the first programs of a window and refuses the others.
#[test]
fn a_window_that_is_refused_halfway_leaves_nothing_attached_and_is_reported() {
    if !may_run() {
        return;
    }
    let mut tracer =
        Tracer::start(TracerSettings { ledger: LedgerMode::Sampled, ..TracerSettings::default() }).unwrap();
    tracer.close_window();
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, missing) = (open_files(), tracer.missing().len());
    let thread = gettid().to_string();
    let which = ["-p".to_owned(), thread.clone()];
    let injection = Injection::attach(std::process::id(), &which, &["bpf:error=EPERM:when=6+"], |traced| {
        traced.id == thread
    });
    let opening = tracer.open_window();
    drop(injection);
    assert_eq!(opening, Opening::Refused);
    let ledger_map = 1;
    assert_eq!(open_files() + ledger_map, before, "links of the window");
    let [reported] = &tracer.missing()[missing..] else { panic!("{:#?}", tracer.missing()) };
    assert!(reported.why.contains("Operation not permitted"), "{reported:?}");
    assert_ne!(reported.what, "sched_switch", "the first program was attached");
    assert_eq!((tracer.ledger_mode(), tracer.cpus().unwrap()), (LedgerMode::Off, Vec::new()));
    assert_eq!(tracer.open_window(), Opening::Open, "without a ledger there are no windows");
    assert_eq!(open_files() + ledger_map, before);
}

/// Calls without injected errors.
const NOT_INJECTED: &[&str] = &[
    // strace does not execute a call that it makes fail, so a descriptor would stay open and a file would remain.
    "close",
    "munmap",
    "unlink",
    "epoll_ctl",
    // A process cannot continue without memory, and the other calls cannot fail in the kernel.
    "mmap",
    "mremap",
    "mprotect",
    "madvise",
    "brk",
    "clock_gettime",
    "sched_yield",
    "getpid",
    "gettid",
    "exit",
    "rt_sigprocmask",
    "sigaltstack",
    "rt_sigreturn",
    "restart_syscall",
    "set_robust_list",
    "rseq",
    // These calls fail only with EINTR, which std's locks and sleeps handle.
    "futex",
    "clock_nanosleep",
    "nanosleep",
    // A test above covers threads that cannot be created.
    "clone3",
];
/// Number of failures of a call before the next call is tested.
const TIMES: usize = 3;
/// How long a client waits for an answer that may not come, and how long a test waits for a rare call.
const WAIT: Duration = Duration::from_millis(200);

/// Work for each thread of the daemon: connections, a scrape, a client of the socket. The daemon may refuse the scrape and the
/// client.
fn exercise(lab: &Topology, daemon: &Daemon, daemon_dir: &DaemonDir) {
    fn read_some<S: Read + Write>(stream: std::io::Result<S>, set_timeout: fn(&S) -> std::io::Result<()>) {
        let Ok(mut stream) = stream else { return };
        set_timeout(&stream).unwrap();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let _ = stream.read(&mut [0; 4096]);
    }
    open_and_close(lab);
    read_some(TcpStream::connect(daemon.address()), |stream| stream.set_read_timeout(Some(WAIT)));
    read_some(UnixStream::connect(daemon_dir.socket()), |stream| stream.set_read_timeout(Some(WAIT)));
}

/// Traces threads of a daemon with these options while `work` runs, which gets the output of strace so far. Returns the whole output.
fn traced(
    daemon: &Daemon,
    options: impl IntoIterator<Item = String>,
    is_traced: fn(&Thread) -> bool,
    work: impl FnOnce(&dyn Fn() -> String),
) -> String {
    let output = tempfile::NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap().to_owned();
    let options = options.into_iter().chain(["-o".to_owned(), path.clone()]);
    let strace = Injection::trace(daemon.pid(), options, is_traced);
    let printed = || String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
    work(&printed);
    drop(strace);
    printed()
}

/// The system calls of all threads in some ticks.
fn system_calls(daemon: &Daemon, work: impl FnOnce()) -> BTreeSet<String> {
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    let printed = traced(
        daemon,
        all_threads(daemon),
        |_| true,
        |_| {
            work();
            daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks + 20.0);
        },
    );
    // Each line is `PID name(arguments) = result`, also for an unfinished call.
    let name = |line: &str| {
        let (name, _) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_').then(|| name.to_owned())
    };
    printed.lines().filter_map(name).collect()
}

/// Makes a call fail while the daemon works, then waits until it works as usual. Returns the number of failures.
fn fail(call: &str, error: &str, daemon: &Daemon, exercise: impl FnOnce()) -> usize {
    let (threads, is_traced): (_, fn(&Thread) -> bool) = match call {
        // In the web server these calls never fail for lack of memory (`write` wakes a thread), so its runtime does not handle such errors.
        "epoll_wait" | "write" => (threads_outside_web_server(daemon), Thread::is_outside_web_server),
        // The kernel always releases a file lock. If releasing failed, SQLite would treat its own lock as another program's, permanently.
        "fcntl" => (some_threads(daemon, Thread::is_outside_store), Thread::is_outside_store),
        _ => (all_threads(daemon), |_| true),
    };
    let rules =
        ["-e", &format!("trace={call}"), "-e", &format!("inject={call}:error={error}")].map(str::to_owned);
    let injected = |printed: &str| printed.matches("(INJECTED)").count();
    let printed = traced(daemon, threads.into_iter().chain(rules), is_traced, |printed| {
        exercise();
        // Some calls are rare.
        let _ = poll_until("the call to fail", WAIT, || (injected(&printed()) >= TIMES).then_some(()));
    });
    let ticks = daemon.metric("mpwatch_agent_ticks_total").unwrap();
    daemon.wait_for_metric("mpwatch_agent_ticks_total", |now| now > ticks);
    injected(&printed)
}

#[test]
fn each_system_call_of_a_tick_may_fail() {
    if !may_run() {
        return;
    }
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let daemon = daemon_dir.start(&[]);
    let mut calls = system_calls(&daemon, || exercise(&lab, &daemon, &daemon_dir));
    for needed in ["accept4", "bpf", "epoll_wait", "openat", "pwrite64", "read", "sendto"] {
        assert!(calls.contains(needed), "{needed}: {calls:?}");
    }
    calls.retain(|call| !NOT_INJECTED.contains(&call.as_str()));
    let (mut rounds, mut never) = (1, calls.clone());
    for call in &calls {
        for error in ["ENFILE", "ENOMEM", "EINTR"] {
            let times = fail(call, error, &daemon, || exercise(&lab, &daemon, &daemon_dir));
            rounds += 1;
            println!("{call} {error}: {times} times");
            if times > 0 {
                never.remove(call);
            }
        }
    }
    println!("{} calls, of which these did not occur again: {never:?}", calls.len());
    assert!(never.len() * 4 < calls.len(), "most calls failed: {never:?}");
    assert!(daemon.metric("mpwatch_loss_ticks_failed_total").unwrap() > 0.0);
    assert_complete(daemon, &daemon_dir, &lab, rounds);
}

/// Writing the log fails with the error of a full disk.
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    if !may_run() {
        return;
    }
    let (daemon_dir, lab) =
        (DaemonDir::new(), Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap());
    let daemon = daemon_dir.start(&[]);
    open_and_close(&lab);
    let rules = ["inject=bpf:error=ENOMEM", "inject=write:error=ENOSPC"].map(str::to_owned);
    let options = rules.into_iter().flat_map(|rule| ["-e".to_owned(), rule]);
    let options = threads_outside_web_server(&daemon).into_iter().chain(options);
    traced(&daemon, options, Thread::is_outside_web_server, |printed| {
        let is_refused = || printed().contains(" write(2, ").then_some(());
        poll_until("a line of the log to be refused", TIMEOUT, is_refused).unwrap();
    });
    daemon.wait_for_log("snapshots are read again");
    assert_complete(daemon, &daemon_dir, &lab, 1);
}
