// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root tests of tidiness: a lab leaves nothing, whichever way it ends, and touches nothing but itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mpwatch_lab::topology::Quality;
use mpwatch_lab::{Error, Namespace, Topology, may_run, poll_until, sweep_stale};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
/// Makes the child process of a test build a lab and wait, instead of testing.
const CHILD: &str = "MPWATCH_LAB_TEST_CHILD";

#[test]
fn a_namespace_is_private_visible_and_gone_after_drop() {
    if !may_run("a_namespace_is_private_visible_and_gone_after_drop") {
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
fn a_sysctl_changes_only_inside_and_only_of_the_network() {
    if !may_run("a_sysctl_changes_only_inside_and_only_of_the_network") {
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
    if !may_run("a_panic_leaves_no_namespace") {
        return;
    }
    let (tell, told) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let path = Quality::default().rtt(Duration::from_millis(2));
        let topology = Topology::two_paths(path, path).unwrap();
        tell.send([topology.client().path().to_owned(), topology.server().path().to_owned()]).unwrap();
        panic!("on purpose");
    })
    .join();
    assert!(panicked.is_err());
    for path in told.recv().unwrap() {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn an_error_names_operation_object_and_way_out() {
    if !may_run("an_error_names_operation_object_and_way_out") {
        return;
    }
    let namespace = Namespace::new("error").unwrap();
    let error = namespace.sysctl("net.no.such.key", "1").unwrap_err().to_string();
    assert!(error.contains("cannot write /proc/sys/net/no/such/key"), "{error}");
    assert!(error.contains("doctor"), "{error}");
    let error = mpwatch_lab::link::down(&namespace, "absent").unwrap_err().to_string();
    assert!(error.contains("link set dev absent down"), "{error}");
}

/// Not a test of its own: the lab that the two tests below kill from outside.
#[test]
fn child_process_with_a_lab() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    mpwatch_lab::install_signal_cleanup().unwrap();
    let topology = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    println!("\nLAB {}", topology.client().path().display());
    // Bounded, in case the parent dies.
    std::thread::sleep(Duration::from_secs(30));
}

fn child_with_lab() -> (Child, PathBuf) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process_with_a_lab", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(PathBuf::from(line.strip_prefix("LAB ")?)))
        .expect("the child tells its lab");
    assert!(path.exists());
    (child, path)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

#[test]
fn a_terminated_process_removes_its_lab() {
    if !may_run("a_terminated_process_removes_its_lab") {
        return;
    }
    let (mut child, path) = child_with_lab();
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(!status.success());
    assert!(!path.exists());
}

#[test]
fn what_a_killed_process_left_is_swept_and_living_labs_stay() {
    if !may_run("what_a_killed_process_left_is_swept_and_living_labs_stay") {
        return;
    }
    let ours = Namespace::new("living").unwrap();
    let (mut child, path) = child_with_lab();
    sweep_stale().unwrap();
    assert!(path.exists(), "its owner lives");
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
    // Another test process may sweep first; what counts is that it is gone.
    sweep_stale().unwrap();
    poll_until("the leftover to go", PATIENCE, || (!path.exists()).then_some(())).unwrap();
    assert!(Path::new(ours.path()).exists());
}
