// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of a thread and of those that it starts, by the kernel's perf counter `task-clock`: from each switch to them to each
//! switch away. Truth for tests: other accounts of the kernel (`schedstat`, CPU clocks) also count the way from the wake-up to
//! the switch, which for threads that sleep often is a good part of the whole.

use crate::error::{Error, Result};
use crate::sys;
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

/// Counts from its making on. Two that count threads of one CPU must not come from one: the kernel then swaps counters between
/// them at a switch instead of stopping one, and counts some of the time twice (5 %, measured on Linux 6.18).
#[derive(Debug)]
pub struct TaskClock {
    counter: File,
}

impl TaskClock {
    /// Counts the calling thread and the threads and processes that it will start.
    ///
    /// # Errors
    /// Where the kernel has no perf counters, or refuses them.
    pub fn of_this_thread() -> Result<Self> {
        Self::open(0, true)
    }

    /// Counts another thread, of the kernel or of a program, and nothing that it starts.
    ///
    /// # Errors
    /// As [`TaskClock::of_this_thread`], and where there is no such thread.
    pub fn of(tid: i32) -> Result<Self> {
        Self::open(tid, false)
    }

    fn open(tid: i32, inherit: bool) -> Result<Self> {
        let counter =
            sys::open_task_clock(tid, inherit).map_err(Error::os("open", "the perf counter task-clock"))?;
        Ok(Self { counter: counter.into() })
    }

    /// Time used so far, that of threads which have ended included.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn read(&self) -> Result<Duration> {
        let mut nanoseconds = [0; 8];
        (&self.counter)
            .read_exact(&mut nanoseconds)
            .map_err(Error::os("read", "the perf counter task-clock"))?;
        Ok(Duration::from_nanos(u64::from_ne_bytes(nanoseconds)))
    }
}
