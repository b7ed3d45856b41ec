// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time that mpwatch uses for tracing: of its BPF programs and of its threads, except threads that serve clients.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mpwatch_ebpf::cpus;
use mpwatch_ebpf::tracer::Tracer;
use mpwatch_model::unit::Nanos;
use nix::time::{ClockId, clock_gettime};

use crate::system::procfs::read_file;

const TASKS: &str = "/proc/self/task";
/// Prefixes of the names of threads that serve clients of the web server and of the Unix socket.
const SERVING: [&str; 4] = ["mpwatch-http", "mpwatch-socket", "mpwatch-reader", "mpwatch-frames"];

/// Measures the cost between two calls.
#[derive(Default)]
pub(crate) struct CostMeter {
    before: Option<Usage>,
}

/// CPU time used until `at`.
struct Usage {
    at: Instant,
    own: Nanos,
    programs: Nanos,
}

impl CostMeter {
    /// Cost since the previous call as a share of the CPU time of all CPUs. `None`: this is the first call (attaching does not count),
    /// or the cost could not be read.
    pub(crate) fn read(&mut self, tracer: &Tracer) -> Option<f64> {
        let now = Usage {
            at: Instant::now(),
            own: own_cpu_time(Path::new(TASKS)),
            programs: tracer.time_of_programs().ok()?,
        };
        let cost = self.before.as_ref().and_then(|before| share(before, &now));
        self.before = Some(now);
        cost
    }
}

fn share(before: &Usage, now: &Usage) -> Option<f64> {
    let all = now.at.duration_since(before.at).as_nanos() as f64 * cpus::online().len().max(1) as f64;
    let cost = now.own.since(before.own) + now.programs.since(before.programs);
    (all > 0.0).then(|| cost.0 as f64 / all)
}

/// CPU time of the threads of this process, without threads that serve clients, so that clients do not influence what is traced. If the kernel
/// does not count CPU time by thread, all threads are included.
fn own_cpu_time(tasks: &Path) -> Nanos {
    let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
    let time = |task: fs::DirEntry| {
        let name = read_file(task.path().join("comm"))?;
        let serves = SERVING.iter().any(|prefix| name.starts_with(prefix));
        let time = read_file(task.path().join("schedstat")).filter(|_| !serves)?;
        time.split(' ').next()?.parse::<u64>().ok()
    };
    match tasks.filter_map(time).sum() {
        0 => clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
            .map_or(Nanos(0), |time| Duration::from(time).into()),
        time => Nanos(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::procfs::folder_with;

    #[test]
    fn threads_that_serve_clients_do_not_count() {
        let tasks = folder_with(&[
            ("1/comm", "mpwatch\n"),
            ("1/schedstat", "1000 5 7\n"),
            ("2/comm", "mpwatch-http-as\n"),
            ("2/schedstat", "70000 5 7\n"),
            ("3/comm", "mpwatch-names\n"),
            ("3/schedstat", "200 5 7\n"),
        ]);
        assert_eq!(own_cpu_time(tasks.path()), Nanos(1_200));
        assert!(own_cpu_time(Path::new(TASKS)) > Nanos(0) && own_cpu_time(Path::new("/nowhere")) > Nanos(0));
    }
}
