// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces, control groups and pods: each connection has the right name, or none.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Namespace, poll_until};
use mpwatch_tests::{Observer, emulation, list, may_run_as_root, skip, text};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use tempfile::TempDir;

/// Variable that makes a child process a short job: the folder of its control group.
const JOB_GROUP: &str = "MPWATCH_TEST_JOB_GROUP";
/// Variable with the port of the job, which identifies its connection.
const JOB_PORT: &str = "MPWATCH_TEST_JOB_PORT";
const FIRST_PORT: u16 = 20_000;
const TIMEOUT: Duration = Duration::from_secs(20);
/// Number of jobs that run at the same time.
const WORKERS: usize = 3;

/// The expected names of a job.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    netns: String,
    cgroup: String,
}

#[test]
fn connections_of_short_jobs_have_the_names_of_their_own_namespace_and_control_group() {
    if !may_run_as_root() {
        return;
    }
    let Some(root) = cgroup_root() else {
        return skip("this test needs a writable cgroup2 mount (mount -t cgroup2 none /sys/fs/cgroup)");
    };
    let folder = format!("mpwatch-test-{}", std::process::id());
    let parent = root.join(&folder);
    fs::create_dir(&parent).unwrap();
    let observer = Observer::start_every("1s", &[]);
    let began = Instant::now();
    let jobs = run_jobs(&parent, &folder, u16::try_from(emulation::amount(60).max(12)).unwrap());
    println!("{} jobs in {:?}", jobs.len(), began.elapsed());
    let report = observer.finish();
    fs::remove_dir(&parent).unwrap();

    let (mut ends, mut unnamed) = (0, 0);
    for connection in list(&report.json, "connections") {
        // Other connections of this machine may have no address.
        let job = |end: &str| jobs.get(&connection[end].as_str()?.parse::<SocketAddr>().ok()?.port());
        let Some(job) = job("local").or_else(|| job("remote")) else { continue };
        ends += 1;
        let netns = text(connection, "netns");
        let cgroup = connection["cgroup"].as_str();
        if netns.starts_with("net:[") || cgroup.is_none() {
            println!("unnamed: {netns} {cgroup:?}, {job:?}");
            unnamed += 1;
        }
        assert!(netns == job.netns || netns.starts_with("net:["), "{netns} instead of {job:?}");
        assert!(cgroup.is_none_or(|cgroup| cgroup.ends_with(&job.cgroup)), "{cgroup:?} instead of {job:?}");
    }
    assert_eq!(ends, 2 * jobs.len(), "both ends of each connection are reported");
    assert!(unnamed * 100 <= ends, "{unnamed} of {ends} have no name");
}

/// Runs jobs, each in a namespace and a control group that end with it. Returns them by their ports.
fn run_jobs(parent: &Path, folder: &str, count: u16) -> HashMap<u16, Job> {
    let next = AtomicU16::new(0);
    let work = || {
        let mut jobs = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return jobs;
            }
            let group = parent.join(format!("job-{number}.service"));
            fs::create_dir(&group).unwrap();
            let netns = run_job(&group, FIRST_PORT + number);
            fs::remove_dir(&group).unwrap();
            let cgroup = format!("/{folder}/job-{number}.service");
            jobs.push((FIRST_PORT + number, Job { netns, cgroup }));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Creates the same files as the kubelet: a control group for the container, a folder for the logs of each container and a link with the
/// container's id. mpwatch finds them at their usual places.
#[test]
fn connections_of_a_pod_have_the_names_of_the_pod_and_its_container() {
    const UID: &str = "0f4d2e6c-8f1b-4c1e-9f52-7a2b6f0d9c11";
    if !may_run_as_root() {
        return;
    }
    let Some(root) = cgroup_root() else {
        return skip("this test needs a writable cgroup2 mount (mount -t cgroup2 none /sys/fs/cgroup)");
    };
    let container = "e3b0c442".repeat(8);
    let pod_group = format!("mpwatch-pod-{}/kubepods/burstable/pod{UID}", std::process::id());
    let group = root.join(&pod_group).join(&container);
    fs::create_dir_all(&group).unwrap();
    let logs = TempDir::new().unwrap();
    for name in ["init", "nginx"] {
        fs::create_dir_all(logs.path().join(format!("pods/shop_web-0_{UID}/{name}"))).unwrap();
    }
    fs::create_dir(logs.path().join("containers")).unwrap();
    let link = logs.path().join(format!("containers/web-0_shop_nginx-{container}.log"));
    symlink(format!("/var/log/pods/shop_web-0_{UID}/nginx/0.log"), link).unwrap();

    let observer = observer_with_logs(logs.path());
    run_job(&group, FIRST_PORT);
    let report = observer.finish();
    for folder in group.ancestors().take_while(|folder| **folder != root) {
        fs::remove_dir(folder).unwrap();
    }
    let is_ours = |connection: &&serde_json::Value| {
        connection["cgroup"].as_str().is_some_and(|path| path.ends_with(&format!("/{pod_group}/{container}")))
    };
    let ours: Vec<_> = list(&report.json, "connections").iter().filter(is_ours).collect();
    assert_eq!(ours.len(), 2, "both ends: {:#}", report.json["connections"]);
    let pod = json!({"namespace": "shop", "name": "web-0", "uid": UID, "container": "nginx"});
    assert!(ours.iter().all(|connection| connection["pod"] == pod), "{ours:#?}");
}

/// Starts mpwatch with a folder at the place of `/var/log`.
fn observer_with_logs(logs: &Path) -> Observer {
    let start = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        mount(Some(logs), "/var/log", None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        Observer::start(&[])
    };
    fs::create_dir_all("/var/log").unwrap();
    thread::scope(|scope| scope.spawn(start).join().unwrap())
}

/// Runs one job in a process of its own and returns the name of its namespace.
fn run_job(group: &Path, port: u16) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "one_short_job", "--nocapture"])
        .env(JOB_GROUP, group)
        .env(JOB_PORT, port.to_string())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let name =
        output.lines().find_map(|line| line.split_once("namespace=")).unwrap_or_else(|| panic!("{output}"));
    name.1.to_owned()
}

/// The process of a job. Without the variable, which only [`run_job`] sets, it does nothing.
#[test]
fn one_short_job() {
    let Some(group) = env::var_os(JOB_GROUP) else { return };
    fs::write(Path::new(&group).join("cgroup.procs"), "0").unwrap();
    let port: u16 = env::var(JOB_PORT).unwrap().parse().unwrap();
    let namespace = Namespace::new("job").unwrap();
    println!("namespace={}", namespace.name());
    let mut spec = TrafficSpec::new(Ipv4Addr::LOCALHOST.into(), Workload::upload(1_000));
    spec.server.set_port(port);
    let outcome = traffic::run(&namespace, &namespace, &spec).unwrap();
    assert_eq!(outcome.client.first_error(), None);
}

/// `ip netns add` creates a file that only a process with CAP_DAC_OVERRIDE, which mpwatch has given up, can open, and then mounts the
/// namespace on it. mpwatch may read the file between the two steps.
#[test]
fn a_namespace_has_its_name_if_it_is_mounted_some_time_after_its_file_was_created() {
    if !may_run_as_root() {
        return;
    }
    fs::create_dir_all("/run/netns").unwrap();
    let observer = Observer::start(&["--tcp"]);
    let file = Path::new("/run/netns").join(format!("mpwatch-late-{}", std::process::id()));
    let learner = poll_until("the thread that finds names", TIMEOUT, || learner(&observer)).unwrap();
    let job = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let looked = times_looked(&learner);
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(&file).unwrap();
        poll_until("mpwatch to check the file", TIMEOUT, || (times_looked(&learner) > looked).then_some(()))
            .unwrap();
        let namespace = Path::new("/proc/thread-self/ns/net");
        mount(Some(namespace), &file, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, FIRST_PORT)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        umount2(&file, MntFlags::MNT_DETACH).unwrap();
        client.unwrap();
    };
    let outcome = thread::scope(|scope| scope.spawn(job).join());
    let removed = fs::remove_file(&file);
    outcome.unwrap();
    removed.unwrap();
    let report = observer.finish();

    let name = file.file_name().unwrap().to_str().unwrap();
    let named =
        list(&report.json, "connections").iter().filter(|connection| text(connection, "netns") == name);
    assert_eq!(named.count(), 2, "both ends: {:#}", report.json["connections"]);
}

/// The thread of mpwatch that finds names. `None`: it has not started, or has not set its own name yet.
fn learner(observer: &Observer) -> Option<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{}/task", observer.pid())).unwrap().flatten();
    let is_learner = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == "mpwatch-names")
    };
    tasks.map(|task| task.path()).find(is_learner)
}

/// Number of times that the thread has waited.
fn times_looked(thread: &Path) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    switches.trim().parse().unwrap()
}

/// Mount point of cgroup2. `None`: it is not mounted, or does not allow new groups.
fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let root = fields
        .filter(|fields| fields.get(2) == Some(&"cgroup2"))
        .find_map(|fields| Some(PathBuf::from(fields.get(1)?)))?;
    let probe = root.join(format!("mpwatch-probe-{}", std::process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok().then_some(root)
}
