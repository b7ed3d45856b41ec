// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides estimated CPU time among the CPUs in the proportions of the latest windows. Time above the busy time of a CPU goes to other CPUs.

use mpwatch_model::kernel::cpu::{CpuAccounts, CpuLoad, divide};

/// Number of accounts in [`EstimatedTimes`].
const ACCOUNTS: usize = 5;

/// CPU time of the accounts that are estimated, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EstimatedTimes {
    pub(crate) flows: u64,
    pub(crate) app: u64,
    pub(crate) net_shared: u64,
    pub(crate) irq: u64,
    pub(crate) own: u64,
}

impl EstimatedTimes {
    fn array(self) -> [u64; ACCOUNTS] {
        let Self { flows, app, net_shared, irq, own } = self;
        [flows, app, net_shared, irq, own]
    }

    fn from_array([flows, app, net_shared, irq, own]: [u64; ACCOUNTS]) -> Self {
        Self { flows, app, net_shared, irq, own }
    }

    pub(crate) fn sum(self) -> u64 {
        self.array().into_iter().sum()
    }

    pub(crate) fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        let (own, other) = (self.array(), other.array());
        Self::from_array(std::array::from_fn(|account| combine(own[account], other[account])))
    }

    /// The times, scaled so that their sum is `total`.
    pub(crate) fn reduced_to(self, total: u64) -> Self {
        let mut parts = [0; ACCOUNTS];
        parts.iter_mut().zip(divide(total, &self.array())).for_each(|(part, time)| *part = time);
        Self::from_array(parts)
    }

    fn from_accounts(cpu: &CpuAccounts) -> Self {
        let CpuAccounts { flow, app, net_shared, irq, mpwatch, .. } = cpu;
        Self { flows: flow.0, app: app.0, net_shared: net_shared.0, irq: irq.0, own: mpwatch.0 }
    }
}

/// Weight of a window relative to the next window.
const DECAY: f64 = 0.8;

/// The CPUs on which the accounts ran in the latest windows.
#[derive(Default)]
pub(crate) struct Placement {
    /// The accounts in windows at the last call.
    latest: Vec<CpuAccounts>,
    /// Number of each CPU, and recent time of each account on it, nanoseconds.
    recent: Vec<(u32, [f64; ACCOUNTS])>,
}

impl Placement {
    /// Adds the time since the last call. `windows`: the accounts in windows so far.
    pub(crate) fn observe(&mut self, windows: &[CpuAccounts]) {
        if windows == self.latest {
            return;
        }
        self.recent.iter_mut().flat_map(|(_, times)| times).for_each(|time| *time *= DECAY);
        for now in windows {
            let before = self.latest.iter().find(|before| before.cpu == now.cpu).copied().unwrap_or_default();
            let [new, before] = [*now, before].map(|cpu| EstimatedTimes::from_accounts(&cpu));
            let new = new.with(before, u64::saturating_sub).array();
            let known = self.recent.iter().position(|(cpu, _)| *cpu == now.cpu);
            let index = known.unwrap_or_else(|| {
                self.recent.push((now.cpu, [0.0; ACCOUNTS]));
                self.recent.len() - 1
            });
            for (time, new) in self.recent[index].1.iter_mut().zip(new) {
                *time += new as f64;
            }
        }
        self.latest = windows.to_vec();
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times, never negative")]
    fn weight(&self, cpu: u32, account: usize) -> u64 {
        self.recent.iter().find(|(known, _)| *known == cpu).map_or(0, |(_, times)| times[account] as u64)
    }
}

/// Divides the time of each account among the CPUs, as integers that add up to `times`. The sum of `times` is at most the busy time of all CPUs.
pub(crate) fn place(busy: &[CpuLoad], times: EstimatedTimes, placement: &Placement) -> Vec<EstimatedTimes> {
    let mut placed = vec![[0; ACCOUNTS]; busy.len()];
    for (account, part) in times.array().into_iter().enumerate() {
        let mut weights: Vec<u64> = busy.iter().map(|load| placement.weight(load.cpu, account)).collect();
        if weights.iter().all(|weight| *weight == 0) {
            weights = busy.iter().map(|load| load.busy.0).collect();
        }
        for (cpu, time) in placed.iter_mut().zip(divide(part, &weights)) {
            cpu[account] = time;
        }
    }
    let mut overflow = [0; ACCOUNTS];
    for (cpu, load) in placed.iter_mut().zip(busy) {
        if cpu.iter().sum::<u64>() > load.busy.0 {
            let fitting: Vec<u64> = divide(load.busy.0, &cpu[..]).collect();
            for account in 0..ACCOUNTS {
                overflow[account] += cpu[account] - fitting[account].min(cpu[account]);
                cpu[account] = fitting[account].min(cpu[account]);
            }
        }
    }
    for (account, left) in overflow.into_iter().enumerate().filter(|(_, left)| *left > 0) {
        let room = |(cpu, load): (&[u64; ACCOUNTS], &CpuLoad)| load.busy.0 - cpu.iter().sum::<u64>();
        let rooms: Vec<u64> = placed.iter().zip(busy).map(room).collect();
        for (cpu, time) in placed.iter_mut().zip(divide(left, &rooms)) {
            cpu[account] += time;
        }
    }
    placed.into_iter().map(EstimatedTimes::from_array).collect()
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
            let times = EstimatedTimes { flows: 500, ..EstimatedTimes::default() };
            place(busy, times, &placement).iter().map(|cpu| cpu.flows).collect::<Vec<_>>()
        };
        assert_eq!(flows_of(&[load(0, 1_000), load(1, 1_000)]), [450, 50]);
        assert_eq!(flows_of(&[load(0, 100), load(1, 1_000)]), [100, 400], "it has moved to the other CPU");
        assert_eq!(flows_of(&[load(2, 300), load(3, 300)]), [250, 250], "CPUs without a window");
    }
}
