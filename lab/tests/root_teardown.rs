// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of the cleanup: a lab removes all its namespaces, however it ends, and changes nothing outside them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::{Error, Namespace, Topology, poll_until, sweep_stale};
use mpwatch_testkit::may_run_as_root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
/// If this variable is set, the test process is the child process of a test: it builds a lab and waits.
const CHILD: &str = "MPWATCH_LAB_TEST_CHILD";

#[test]
fn a_namespace_is_private_and_listed_and_drop_removes_it() {
    if !may_run_as_root() {
        return;
    }
    let namespace = Namespace::new("private").unwrap();
    let path = namespace.path().to_owned();
    assert!(path.starts_with("/run/netns") && path.exists());
    let read = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let outside = read();
    let inside = namespace.enter(read).unwrap();
    assert_ne!(inside, outside);
    assert_eq!(inside, PathBuf::from(format!("net:[{}]", namespace.inode())));
    assert_eq!(read(), outside);
    drop(namespace);
    assert!(!path.exists());
}

#[test]
fn a_sysctl_changes_only_the_namespace_and_only_net_is_allowed() {
    if !may_run_as_root() {
        return;
    }
    let read = || std::fs::read_to_string("/proc/sys/net/mptcp/stale_loss_cnt").unwrap();
    let outside = read();
    let namespace = Namespace::new("sysctl").unwrap();
    namespace.sysctl("net.mptcp.stale_loss_cnt", "9").unwrap();
    assert_eq!(namespace.enter(read).unwrap().trim(), "9");
    assert_eq!(read(), outside);
    let refused = namespace.sysctl("kernel.panic", "1");
    assert!(matches!(refused, Err(Error::Invalid { .. })));
}

#[test]
fn a_panic_leaves_no_namespace() {
    if !may_run_as_root() {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let link = LinkSpec::default().rtt(Duration::from_millis(2));
        let topology = Topology::two_paths(link, link).unwrap();
        sender.send([topology.client().path().to_owned(), topology.server().path().to_owned()]).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(panicked.is_err());
    for path in receiver.recv().unwrap() {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn an_error_names_operation_object_and_advice() {
    if !may_run_as_root() {
        return;
    }
    let namespace = Namespace::new("error").unwrap();
    let error = namespace.sysctl("net.no.such.key", "1").unwrap_err().to_string();
    assert!(error.contains("cannot write /proc/sys/net/no/such/key"), "{error}");
    assert!(error.contains("doctor"), "{error}");
    let error = mpwatch_lab::link::down(&namespace, "absent").unwrap_err().to_string();
    assert!(error.contains("link set dev absent down"), "{error}");
}

/// The child process that the two tests below kill. Not a test itself.
#[test]
fn child_process_with_a_lab() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    mpwatch_lab::install_signal_cleanup().unwrap();
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    println!("\nLAB {}", topology.client().path().display());
    // The parent keeps standard input open until it has killed this process. The end of the input means that the parent has ended.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts the child process. Returns it with its standard input and the path of a namespace of its lab.
fn child_with_lab() -> (Child, ChildStdin, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process_with_a_lab", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let path = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(PathBuf::from(line.strip_prefix("LAB ")?)))
        .expect("the child prints the path of its lab");
    assert!(path.exists());
    (child, input, path)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

#[test]
fn a_terminated_process_removes_its_lab() {
    if !may_run_as_root() {
        return;
    }
    let (mut child, _input, path) = child_with_lab();
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(!status.success());
    assert!(!path.exists());
}

#[test]
fn only_namespaces_of_killed_processes_are_removed() {
    if !may_run_as_root() {
        return;
    }
    let ours = Namespace::new("running").unwrap();
    let (mut child, _input, path) = child_with_lab();
    sweep_stale().unwrap();
    assert!(path.exists(), "its owner is running");
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    // Another test process may remove the namespace before this call.
    sweep_stale().unwrap();
    poll_until("the namespace to be removed", TIMEOUT, || (!path.exists()).then_some(())).unwrap();
    assert!(Path::new(ours.path()).exists());
}
