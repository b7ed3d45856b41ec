// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time that mpwatch uses: its process, and its BPF programs.

use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::Tracer;
use mpwatch_model::unit::Nanos;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

/// Measures the cost between two calls.
#[derive(Default)]
pub(crate) struct CostMeter {
    before: Option<Usage>,
}

/// Since the start of tracing.
struct Usage {
    at: Instant,
    own: Nanos,
    programs: Nanos,
}

impl CostMeter {
    /// Cost since the previous call as a share of the CPU time of all CPUs. `None`: this is the first call, so that attaching does not
    /// count, or it could not be read.
    pub(crate) fn read(&mut self, tracer: &Tracer) -> Option<f64> {
        let now =
            Usage { at: Instant::now(), own: own_cpu_time(), programs: tracer.time_of_programs().ok()? };
        let cost = self.before.as_ref().and_then(|before| share(before, &now));
        self.before = Some(now);
        cost
    }
}

fn share(before: &Usage, now: &Usage) -> Option<f64> {
    let all = now.at.duration_since(before.at).as_nanos() as f64 * cpus();
    let cost = now.own.since(before.own) + now.programs.since(before.programs);
    (all > 0.0).then(|| cost.0 as f64 / all)
}

/// CPU time of all threads of this process.
fn own_cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.map_or(Nanos(0), |time| Duration::from(time).into())
}

fn cpus() -> f64 {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online.filter(|cpus| *cpus > 0).unwrap_or(1) as f64
}
