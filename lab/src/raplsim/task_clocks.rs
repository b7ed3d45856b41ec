// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of all threads of this machine, including kernel threads. Uses a perf counter `task-clock` per thread, which
//! is exact even for threads that sleep often. The time of softirqs on an idle CPU, and the time in which a CPU leaves idle, belong to no
//! thread and are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::procfs::{Tid, cpu_time, last_assigned_id, processes, threads};
use crate::error::Result;
use crate::task_clock::TaskClock;

/// After a search for new threads that took time T, the next search starts at the earliest after this multiple of T.
const PAUSE_PER_SEARCH: u32 = 10;

/// The clocks of all threads of the machine.
pub(super) struct TaskClocks {
    clocks: BTreeMap<Tid, Clock>,
    /// The newest thread id of the system at the previous search. `None`: no search yet, or unknown.
    last_id: Option<String>,
    /// Earliest time of the next search.
    next_search: Instant,
}

struct Clock {
    counter: TaskClock,
    last: Duration,
}

impl TaskClocks {
    /// Starts to count the CPU time of all threads.
    pub(super) fn start() -> Result<Self> {
        // If the kernel allows a counter of this thread, it allows counters of all threads. Later errors then mean that a thread has ended.
        TaskClock::from_this_thread()?;
        let mut clocks = Self { clocks: BTreeMap::new(), last_id: None, next_search: Instant::now() };
        clocks.add_new_threads();
        Ok(clocks)
    }

    /// CPU time of all threads since the last call, nanoseconds.
    pub(super) fn used(&mut self) -> u64 {
        let mut used = Duration::from_nanos(self.add_new_threads());
        for clock in self.clocks.values_mut() {
            // A counter can be read after its thread has ended.
            let now = clock.counter.read().unwrap_or(clock.last);
            used += now.saturating_sub(clock.last);
            clock.last = now;
        }
        u64::try_from(used.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Opens counters for new threads. Returns the CPU time in nanoseconds that these threads used before.
    fn add_new_threads(&mut self) -> u64 {
        let last_id = last_assigned_id();
        if self.last_id == last_id || Instant::now() < self.next_search {
            return 0;
        }
        let (started, is_first) = (Instant::now(), self.last_id.is_none());
        self.last_id = last_id;
        let mut used = 0;
        let all: BTreeSet<Tid> = processes().into_iter().flat_map(threads).collect();
        self.clocks
            .retain(|tid, clock| all.contains(tid) || clock.counter.read().is_ok_and(|now| now > clock.last));
        for tid in all {
            if self.clocks.contains_key(&tid) {
                continue;
            }
            let Ok(counter) = TaskClock::from_tid(tid) else { continue };
            if !is_first {
                used += cpu_time(tid).unwrap_or(0);
            }
            self.clocks.insert(tid, Clock { counter, last: Duration::ZERO });
        }
        self.next_search = Instant::now() + started.elapsed() * PAUSE_PER_SEARCH;
        used
    }
}
