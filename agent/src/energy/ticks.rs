// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time from `/proc/stat`, in ticks of 10 ms, which is precise enough for windows of several seconds.

use std::fs;

use mpwatch_model::host::energy::window::Cpus;
use mpwatch_model::unit::Nanos;
use nix::unistd::{SysconfVar, sysconf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) cpu: u32,
    /// Idle ticks, with and without pending I/O.
    pub(crate) idle: u64,
    all: u64,
}

/// The ticks of every CPU since boot. Empty: `/proc/stat` cannot be read.
pub(crate) fn now() -> Vec<CpuTicks> {
    parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Idle time of all CPUs since boot, as the kernel counts it, rounded down to a tick for each CPU.
pub(crate) fn idle_time() -> Nanos {
    Nanos(now().into_iter().map(|cpu| cpu.idle).sum::<u64>() * tick().0)
}

/// Length of a tick.
pub(crate) fn tick() -> Nanos {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    Nanos(1_000_000_000 / per_second.unwrap_or(100).max(1))
}

/// Parses lines `cpu0 user nice system idle iowait irq softirq`. The next field, time stolen by a hypervisor, is not included.
pub(super) fn parse(stat: &str) -> Vec<CpuTicks> {
    let line = |line: &str| {
        let (cpu, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ticks: Vec<u64> = ticks.split_whitespace().take(7).map_while(|tick| tick.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        Some(CpuTicks { cpu: cpu.parse().ok()?, idle, all: ticks.iter().sum() })
    };
    stat.lines().filter_map(line).collect()
}

/// Busy fraction of some CPUs between two readings. `None`: unknown.
pub(crate) fn busy(before: &[CpuTicks], after: &[CpuTicks], cpus: &Cpus) -> Option<f64> {
    let (mut idle, mut all) = (0, 0);
    for after in after.iter().filter(|after| cpus.contains(after.cpu)) {
        let before = before.iter().find(|before| before.cpu == after.cpu)?;
        idle += after.idle.saturating_sub(before.idle);
        all += after.all.saturating_sub(before.all);
    }
    (all > 0).then(|| (1.0 - idle as f64 / all as f64).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_fraction_excludes_idle_time_and_io_wait() {
        let before =
            parse("cpu  10 0 10 100 0 0 0 0\ncpu0 5 0 5 50 0 0 0 0\ncpu1 5 0 5 50 0 0 0 0\nintr 1\n");
        let after = parse("cpu  70 0 20 200 30 0 0 9\ncpu0 65 0 5 90 0 0 0 9\ncpu1 5 0 15 110 30 0 0 0\n");
        assert_eq!(before.len(), 2);
        let close = |cpus: Cpus, right: f64| (busy(&before, &after, &cpus).unwrap() - right).abs() < 1e-9;
        assert!(close(Cpus::These(vec![0]), 0.6) && close(Cpus::These(vec![1]), 0.1));
        assert!(close(Cpus::All, 0.35));
        assert_eq!(busy(&after, &after, &Cpus::All), None);
    }
}
