// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one end of the traffic on one CPU and measures its CPU time.

use super::report::TrafficReport;
use crate::error::{Error, Result};
use crate::task_clock::TaskClock;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Does `work` on one CPU, including threads that `work` starts, and reports its CPU time. `None`: only does `work`.
pub(super) fn on_cpu(
    cpu: Option<usize>,
    work: impl FnOnce() -> Result<TrafficReport>,
) -> Result<TrafficReport> {
    let Some(cpu) = cpu else { return work() };
    let mut cpus = CpuSet::new();
    let pinned = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
    pinned.map_err(Error::os("run on", format!("CPU {cpu}")))?;
    timed(true, work)
}

/// Does `work` and adds the CPU time of this thread to the report. Threads that `work` starts must call this function themselves.
pub(super) fn timed(is_timed: bool, work: impl FnOnce() -> Result<TrafficReport>) -> Result<TrafficReport> {
    if !is_timed {
        return work();
    }
    let clock = TaskClock::from_this_thread()?;
    let mut report = work()?;
    report.merge(TrafficReport { cpu_time: Some(clock.read()?), ..TrafficReport::default() });
    Ok(report)
}
