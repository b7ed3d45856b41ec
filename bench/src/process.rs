// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time and memory of processes.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// CPU time of the running threads of a process. Threads that have ended are not included.
pub(crate) fn cpu_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let of_thread = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(of_thread).sum())
}

/// Measures the CPU time of a process for the duration `length`, in percent of one CPU.
pub(crate) fn cpu_percent(pid: u32, length: Duration) -> f64 {
    let (start, before) = (Instant::now(), cpu_time(pid));
    thread::sleep(length);
    cpu_time(pid).saturating_sub(before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0
}

/// Peak resident memory of a process, MiB.
pub(crate) fn peak_memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// CPU time of this process so far, including ended threads.
pub(crate) fn own_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has this clock").into()
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}
