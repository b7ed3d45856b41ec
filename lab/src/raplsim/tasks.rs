// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of everything that runs on this machine, the kernel's threads too: a perf counter `task-clock` for each thread, so that
//! what sleeps often is not counted too much. Softirqs that hit an idle CPU belong to no thread and are not in it, nor is the way out
//! of idleness, which nobody owns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use super::live::{Tid, scheduled, threads};
use crate::Result;
use crate::task_clock::TaskClock;

/// Looking for new threads may take this part of the time.
const PART: u32 = 10;

/// All threads of the machine.
pub(super) struct Tasks {
    clocks: BTreeMap<Tid, Clock>,
    /// The youngest thread when they were last looked for.
    youngest: Option<String>,
    /// Not before this.
    next_look: Instant,
}

struct Clock {
    counter: TaskClock,
    last: Duration,
}

impl Tasks {
    /// From now on.
    pub(super) fn watch() -> Result<Self> {
        // Where this works for one it works for all: others that fail have just ended.
        TaskClock::of_this_thread()?;
        let mut tasks = Self { clocks: BTreeMap::new(), youngest: None, next_look: Instant::now() };
        tasks.meet();
        Ok(tasks)
    }

    /// Time that all have used since the last call, nanoseconds.
    pub(super) fn used(&mut self) -> u64 {
        let mut used = Duration::from_nanos(self.meet());
        for clock in self.clocks.values_mut() {
            // A counter outlives its thread.
            let now = clock.counter.read().unwrap_or(clock.last);
            used += now.saturating_sub(clock.last);
            clock.last = now;
        }
        u64::try_from(used.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes in those that have come; time that they have used before.
    fn meet(&mut self) -> u64 {
        let youngest = youngest();
        if self.youngest == youngest || Instant::now() < self.next_look {
            return 0;
        }
        let (begun, is_first) = (Instant::now(), self.youngest.is_none());
        self.youngest = youngest;
        let mut used = 0;
        let all: BTreeSet<Tid> = processes().into_iter().flat_map(threads).collect();
        self.clocks
            .retain(|tid, clock| all.contains(tid) || clock.counter.read().is_ok_and(|now| now > clock.last));
        for tid in all {
            if self.clocks.contains_key(&tid) {
                continue;
            }
            let Ok(counter) = TaskClock::of(tid) else { continue };
            if !is_first {
                used += scheduled(tid).unwrap_or(0);
            }
            self.clocks.insert(tid, Clock { counter, last: Duration::ZERO });
        }
        self.next_look = Instant::now() + begun.elapsed() * PART;
        used
    }
}

/// The id that the kernel has given last, at the end of `/proc/loadavg`.
fn youngest() -> Option<String> {
    Some(fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.to_owned())
}

fn processes() -> Vec<Tid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
