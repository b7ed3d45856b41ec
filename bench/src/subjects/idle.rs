// SPDX-License-Identifier: MIT OR Apache-2.0
//! What mpwatch costs when there is nothing to see, and what it costs the whole agent to look at many subflows.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::effort::Effort;
use crate::harness::{Observer, program};
use crate::table::{figure, markdown};

/// `mpwatch top --batch --json`, of which nobody reads what it says: without a recording.
pub(crate) struct Top(Child);

impl Top {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(program());
        command
            .args(["top", "--batch", "--json", "--interval", "1s"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self(command.spawn().expect("the program can be started"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // It has nothing to finish.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until the first ticks, at which memory is taken, are over.
const SETTLING: Duration = Duration::from_millis(2_500);

/// What a running mpwatch uses.
pub(crate) struct Usage {
    /// Part of one CPU, in percent.
    pub(crate) percent: f64,
    /// The most memory so far, in MiB.
    pub(crate) memory: f64,
}

pub(crate) fn run(effort: Effort) -> String {
    let rows = [("full tracing", &[][..]), ("`--no-ledger`", &["--no-ledger"])].map(|(name, options)| {
        let observer = Observer::start_every("1s", options);
        let usage = watch(observer.pid(), effort);
        observer.finish();
        vec![name.to_owned(), format!("{} %", figure(usage.percent)), format!("{:.0} MiB", usage.memory)]
    });
    let note = format!(
        "`mpwatch record --interval 1s` for {:?} without MPTCP traffic; target: 0.5 %.\n\n",
        effort.idle
    );
    note + &markdown(&["mpwatch", "of one CPU", "memory"], &rows)
}

/// Watches a running mpwatch once it has settled.
pub(crate) fn watch(pid: u32, effort: Effort) -> Usage {
    thread::sleep(SETTLING.min(effort.idle * 3));
    let before = (Instant::now(), cpu_time(pid));
    thread::sleep(effort.idle);
    let used = cpu_time(pid).saturating_sub(before.1);
    let percent = used.as_secs_f64() / before.0.elapsed().as_secs_f64() * 100.0;
    Usage { percent, memory: most_memory(pid) }
}

pub(crate) fn cpu_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("mpwatch runs").flatten();
    let of_thread = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(of_thread).sum())
}

pub(crate) fn most_memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
