// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which CPUs estimated time was spent: as in the latest windows, as far as each CPU was busy, else where there is room. Pure.

use mpwatch_model::kernel::cpu::{CpuAccounts, CpuLoad, divide};

/// Number of estimated accounts: flows, applications, shared network work, interrupts, mpwatch.
pub(crate) const BUSY: usize = 5;

/// How much an older window counts compared with the next one.
const DECAY: f64 = 0.8;

/// Where the accounts ran in the latest windows.
#[derive(Default)]
pub(crate) struct Placement {
    seen: Vec<CpuAccounts>,
    /// By CPU: number, and recent time of each account, nanoseconds.
    recent: Vec<(u32, [f64; BUSY])>,
}

impl Placement {
    /// Adds the time since the last call. `windows`: the accounts in windows so far.
    pub(crate) fn observe(&mut self, windows: &[CpuAccounts]) {
        if windows == self.seen {
            return;
        }
        self.recent.iter_mut().flat_map(|(_, times)| times).for_each(|time| *time *= DECAY);
        for now in windows {
            let before = self.seen.iter().find(|before| before.cpu == now.cpu).copied().unwrap_or_default();
            let new = [
                now.flow.since(before.flow),
                now.app.since(before.app),
                now.net_shared.since(before.net_shared),
                now.irq.since(before.irq),
                now.mpwatch.since(before.mpwatch),
            ];
            let known = self.recent.iter().position(|(cpu, _)| *cpu == now.cpu);
            let index = known.unwrap_or_else(|| {
                self.recent.push((now.cpu, [0.0; BUSY]));
                self.recent.len() - 1
            });
            for (time, new) in self.recent[index].1.iter_mut().zip(new) {
                *time += new.0 as f64;
            }
        }
        self.seen = windows.to_vec();
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times, never negative")]
    fn weight(&self, cpu: u32, account: usize) -> u64 {
        self.recent.iter().find(|(known, _)| *known == cpu).map_or(0, |(_, times)| times[account] as u64)
    }
}

/// Divides the time of each account among the CPUs, as integers that add up. `parts` sum to at most the busy time of all CPUs.
pub(crate) fn place(busy: &[CpuLoad], parts: [u64; BUSY], placement: &Placement) -> Vec<[u64; BUSY]> {
    let mut placed = vec![[0; BUSY]; busy.len()];
    for (account, part) in parts.into_iter().enumerate() {
        let mut weights: Vec<u64> = busy.iter().map(|load| placement.weight(load.cpu, account)).collect();
        if weights.iter().all(|weight| *weight == 0) {
            weights = busy.iter().map(|load| load.busy.0).collect();
        }
        for (cpu, time) in placed.iter_mut().zip(divide(part, &weights)) {
            cpu[account] = time;
        }
    }
    let mut overflow = [0; BUSY];
    for (cpu, load) in placed.iter_mut().zip(busy) {
        if cpu.iter().sum::<u64>() > load.busy.0 {
            let fitting: Vec<u64> = divide(load.busy.0, &cpu[..]).collect();
            for account in 0..BUSY {
                overflow[account] += cpu[account] - fitting[account].min(cpu[account]);
                cpu[account] = fitting[account].min(cpu[account]);
            }
        }
    }
    for (account, left) in overflow.into_iter().enumerate().filter(|(_, left)| *left > 0) {
        let room = |(cpu, load): (&[u64; BUSY], &CpuLoad)| load.busy.0 - cpu.iter().sum::<u64>();
        let rooms: Vec<u64> = placed.iter().zip(busy).map(room).collect();
        for (cpu, time) in placed.iter_mut().zip(divide(left, &rooms)) {
            cpu[account] += time;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use mpwatch_model::unit::Nanos;

    use super::*;

    #[test]
    fn time_is_placed_as_in_the_windows_and_never_beyond_the_busy_time_of_a_cpu() {
        let mut placement = Placement::default();
        let ran_on = |cpu, flow| CpuAccounts { cpu, flow: Nanos(flow), ..CpuAccounts::default() };
        placement.observe(&[ran_on(0, 900), ran_on(1, 100)]);
        let load = |cpu, busy| CpuLoad { cpu, wall: Nanos(1_000), busy: Nanos(busy) };
        let flows_of = |busy: &[CpuLoad]| {
            place(busy, [500, 0, 0, 0, 0], &placement).iter().map(|cpu| cpu[0]).collect::<Vec<_>>()
        };
        assert_eq!(flows_of(&[load(0, 1_000), load(1, 1_000)]), [450, 50]);
        assert_eq!(flows_of(&[load(0, 100), load(1, 1_000)]), [100, 400], "it has moved to the other CPU");
        assert_eq!(flows_of(&[load(2, 300), load(3, 300)]), [250, 250], "CPUs without a window");
    }
}
