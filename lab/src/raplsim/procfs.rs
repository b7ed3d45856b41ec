// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads and their CPU time, from `/proc`.

use std::fs;

/// A thread id.
pub type Tid = i32;

/// Ids of all processes.
pub(super) fn processes() -> Vec<Tid> {
    ids_in("/proc")
}

/// Ids of the threads of a process. Empty: the process does not exist.
pub(super) fn threads(pid: Tid) -> Vec<Tid> {
    ids_in(&format!("/proc/{pid}/task"))
}

fn ids_in(folder: &str) -> Vec<Tid> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of a thread, nanoseconds. `None`: no such thread, or the kernel has no scheduler statistics.
pub(super) fn cpu_time(tid: Tid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The thread id that the kernel assigned last: the last field of `/proc/loadavg`.
pub(super) fn last_assigned_id() -> Option<String> {
    Some(fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.to_owned())
}
