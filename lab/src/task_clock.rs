// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of a thread, from the kernel's perf counter `task-clock`. This counter counts the time from a
//! switch to the thread until the switch away from it. This is the ground truth of tests. `schedstat` and the CPU clocks also
//! count the time from the wake-up to the switch, which is a large part of the total for threads that sleep often.

use crate::error::{Error, Result};
use crate::sys;
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

/// A counter that starts at its creation. Threads do not inherit it: at a switch between two threads with the same inherited counter, the
/// kernel swaps their counters instead of stopping one, and counts some time twice (5 %, measured on Linux 6.18).
#[derive(Debug)]
pub struct TaskClock {
    counter: File,
}

impl TaskClock {
    /// Counts the CPU time of the calling thread.
    ///
    /// # Errors
    /// If the kernel has no perf counters or refuses access.
    pub fn from_this_thread() -> Result<Self> {
        Self::from_tid(0)
    }

    /// Counts the CPU time of another thread, which may be a kernel thread.
    ///
    /// # Errors
    /// As [`TaskClock::from_this_thread`], and if the thread does not exist.
    pub fn from_tid(tid: i32) -> Result<Self> {
        let counter = sys::open_task_clock(tid).map_err(Error::os("open", "the perf counter task-clock"))?;
        Ok(Self { counter: counter.into() })
    }

    /// CPU time since the creation of the counter.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub fn read(&self) -> Result<Duration> {
        let mut nanoseconds = [0; 8];
        (&self.counter)
            .read_exact(&mut nanoseconds)
            .map_err(Error::os("read", "the perf counter task-clock"))?;
        Ok(Duration::from_nanos(u64::from_ne_bytes(nanoseconds)))
    }
}
