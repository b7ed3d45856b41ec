// SPDX-License-Identifier: MIT OR Apache-2.0
//! Busy time of each CPU since the start, from the idle time in `/proc/stat`. The kernel measures idle time in microseconds and prints it
//! in ticks of 10 ms; because the figures are totals, rounding errors do not accumulate.

use mpwatch_model::kernel::cpu::CpuLoad;
use mpwatch_model::unit::Nanos;

use super::ticks::{self, CpuTicks};
use crate::system::clock::ClockPair;

#[derive(Clone, Copy, Debug)]
struct Cpu {
    load: CpuLoad,
    idle: Nanos,
    /// Idle ticks at the latest reading. `None`: the CPU was offline.
    ticks: Option<u64>,
}

/// Adds up the load of each CPU since the start.
pub(crate) struct LoadReader {
    tick: Nanos,
    at: Nanos,
    cpus: Vec<Cpu>,
}

impl LoadReader {
    pub(crate) fn start() -> Self {
        let mut reader = Self { tick: ticks::tick(), at: Nanos(0), cpus: Vec::new() };
        reader.read();
        reader
    }

    /// Reads the load of each CPU since the start.
    pub(crate) fn read(&mut self) -> Vec<CpuLoad> {
        let before = ClockPair::now().monotonic;
        let ticks = ticks::now();
        let after = ClockPair::now().monotonic;
        self.add(&ticks, before + Nanos(after.since(before).0 / 2))
    }

    fn add(&mut self, ticks: &[CpuTicks], at: Nanos) -> Vec<CpuLoad> {
        let elapsed = at.since(self.at);
        self.at = at;
        for cpu in &mut self.cpus {
            let now = ticks.iter().find(|ticks| ticks.cpu == cpu.load.cpu).map(|ticks| ticks.idle);
            if let (Some(before), Some(now)) = (cpu.ticks, now) {
                cpu.load.wall += elapsed;
                cpu.idle += Nanos(now.saturating_sub(before) * self.tick.0);
                cpu.load.busy = cpu.load.busy.max(cpu.load.wall.since(cpu.idle));
            }
            cpu.ticks = now;
        }
        for new in ticks {
            if self.cpus.iter().all(|cpu| cpu.load.cpu != new.cpu) {
                let load = CpuLoad { cpu: new.cpu, ..CpuLoad::default() };
                self.cpus.push(Cpu { load, idle: Nanos(0), ticks: Some(new.idle) });
            }
        }
        self.cpus.iter().map(|cpu| cpu.load).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut LoadReader, idle: &[u64], at_ms: u64) -> Vec<(u64, u64)> {
        let lines: Vec<String> =
            idle.iter().enumerate().map(|(cpu, idle)| format!("cpu{cpu} 0 0 0 {idle} 0 0 0\n")).collect();
        let loads = reader.add(&ticks::parse(&lines.concat()), Nanos(at_ms * 1_000_000));
        loads.iter().map(|load| (load.wall.0 / 1_000_000, load.busy.0 / 1_000_000)).collect()
    }

    #[test]
    fn rounding_of_the_kernel_does_not_add_up() {
        let mut reader = LoadReader { tick: Nanos(10_000_000), at: Nanos(0), cpus: Vec::new() };
        read(&mut reader, &[500], 1_000);
        assert_eq!(read(&mut reader, &[520], 1_203), [(203, 3)]);
        assert_eq!(read(&mut reader, &[541], 1_406), [(406, 3)], "more idle time than time has passed");
        assert_eq!(read(&mut reader, &[560], 1_609), [(609, 9)]);
    }

    #[test]
    fn a_cpu_counts_only_while_it_is_online() {
        let mut reader = LoadReader { tick: Nanos(10_000_000), at: Nanos(0), cpus: Vec::new() };
        read(&mut reader, &[0, 0], 0);
        assert_eq!(read(&mut reader, &[50, 0], 1_000), [(1_000, 500), (1_000, 1_000)]);
        assert_eq!(read(&mut reader, &[100], 2_000), [(2_000, 1_000), (1_000, 1_000)]);
        assert_eq!(read(&mut reader, &[200, 0], 3_000), [(3_000, 1_000), (1_000, 1_000)]);
        assert_eq!(read(&mut reader, &[300, 100], 4_000), [(4_000, 1_000), (2_000, 1_000)]);
    }
}
