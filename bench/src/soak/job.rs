// SPDX-License-Identifier: MIT OR Apache-2.0
//! A short job: a process with its own control group that creates a network namespace, opens a connection inside, and ends.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mpwatch_lab::Namespace;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};

use super::outcome::Outcome;

const BYTES: u64 = 1_000;
/// Maximum duration of a job.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The parent folder of the control groups. It is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Groups(PathBuf);

impl Groups {
    pub(super) fn new() -> Outcome<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut of_cgroup2 = fields.filter(|fields| fields.get(2) == Some(&"cgroup2"));
        let root = of_cgroup2.find_map(|fields| Some(PathBuf::from(fields.get(1)?)));
        let root = root.ok_or("a soak needs a cgroup2 mount (mount -t cgroup2 none /sys/fs/cgroup)")?;
        let folder = root.join(format!("mpwatch-soak-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Runs a job until it ends.
    pub(super) fn run_job(&self, number: u64) -> Outcome<()> {
        let group = Group::new(self.0.join(format!("job-{number}.service")))?;
        let status = Command::new(std::env::current_exe()?)
            .args(["soak", "--job"])
            .arg(&group.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if status.success() { Ok(()) } else { Err(format!("job {number}: {status}").into()) }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("bench: {}: {error}", self.0.display());
        }
    }
}

struct Group(PathBuf);

impl Group {
    fn new(folder: PathBuf) -> std::io::Result<Self> {
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("bench: {}: {error}", self.0.display());
        }
    }
}

/// The work of a job's process.
pub(super) fn run(group: &Path) -> Outcome<()> {
    fs::write(group.join("cgroup.procs"), "0")?;
    // If a signal ends the process, the namespace is removed.
    mpwatch_lab::install_signal_cleanup()?;
    let namespace = Namespace::new("soak")?;
    let mut spec = TrafficSpec::new(Ipv4Addr::LOCALHOST.into(), Workload::upload(BYTES));
    (spec.read_socket_info, spec.timeout) = (false, TIMEOUT);
    let outcome = traffic::run(&namespace, &namespace, &spec)?;
    outcome.client.first_error().map_or(Ok(()), |error| Err(error.into()))
}
