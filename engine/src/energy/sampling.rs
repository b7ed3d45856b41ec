// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sampled ledger: CPU time of every account, estimated from a ledger that is kept only in short windows. Method and limits: docs/ledger.md.
//!
//! * **Window**: 50 ms in which the programs of the ledger (task switches, softirqs, system calls) are attached and charge every nanosecond to
//!   an account. `ebpf/src/bpf/ledger.bpf.h` charges, and subtracts its own cost. `agent/src/windows` opens a window at a random time in each
//!   period, if the flows have probably used enough CPU time since the previous window.
//! * **Work**: counted all the time by the programs on the packet path: a constant per packet, plus the payload ([`WORK_PER_PACKET`]). Each flow
//!   has two counts: all work, and work in windows.
//! * **Unit cost** ([`super::unit_cost`]): CPU time in windows divided by work in windows, of a flow and of its class.
//! * **Charge**: at most every two seconds the time since the previous charge is estimated. A flow gets its time in windows, and its work
//!   outside of windows times its unit cost. Other accounts are scaled from windows by work, packets or time ([`Sampling::targets`]). The
//!   kernel reports how long each CPU was busy: all estimates together are limited to this time, and other processes get the remainder.
//! * **Placement** ([`super::placement`]): the estimates are divided among the CPUs.
//!
//! [`WORK_PER_PACKET`]: mpwatch_model::kernel::event::WORK_PER_PACKET

use mpwatch_model::kernel::cpu::{CpuAccounts, CpuLoad, CpuSampling};
use mpwatch_model::unit::Nanos;

use super::placement::{EstimatedTimes, Placement, place};
use super::unit_cost::{PACKET, UnitCosts};

/// Weight, in work units, of the prior assumption that windows contain the same fraction of all work as of all time.
const PRIOR_WORK: f64 = 64.0 * PACKET;
/// Weight, in packets, of the same assumption about the packets of the whole machine.
const PRIOR_PACKETS: f64 = 64.0;
/// Weight of a window relative to the next window, in the ratio of the ledger's busy time to the kernel's busy time.
const DECAY: f64 = 0.99;
/// Weight of the assumption that this ratio is 1, as busy time in nanoseconds: the kernel rounds its idle time to 10 ms.
const PRIOR_BUSY: f64 = 100_000_000.0;

/// Work of all flows since the start of tracing, and the part of it that was done in windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) all: u64,
    pub(crate) sampled: u64,
}

/// Time in windows, as counted by the ledger and by the kernel. The kernel reports more busy time, because it counts the code of the idle
/// loop before and after sleeping as busy: 25 % more with 20 000 wake-ups per second in a virtual machine.
#[derive(Default)]
struct Busy {
    /// In the latest windows: elapsed time, idle time by the ledger, idle time by the kernel; nanoseconds.
    recent: [f64; 3],
    /// The same three times since the start of tracing, as of the last call.
    totals: [u64; 3],
}

impl Busy {
    fn observe(&mut self, windows: &[CpuAccounts], now: &CpuSampling) {
        let sum = |read: fn(&CpuAccounts) -> Nanos| windows.iter().map(read).sum::<Nanos>().0;
        let sums = [sum(|cpu| cpu.wall), sum(|cpu| cpu.idle), now.window_idle.0];
        if sums == self.totals {
            return;
        }
        for (recent, (now, before)) in self.recent.iter_mut().zip(sums.into_iter().zip(self.totals)) {
            *recent = *recent * DECAY + now.saturating_sub(before) as f64;
        }
        self.totals = sums;
    }

    /// Converts busy time as counted by the kernel to busy time as the ledger would count it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, never negative")]
    fn by_ledger(&self, kernel: Nanos) -> Nanos {
        let [wall, idle, kernel_idle] = self.recent;
        if kernel_idle <= 0.0 {
            return kernel;
        }
        let ratio = (wall - idle + PRIOR_BUSY) / (wall - kernel_idle + PRIOR_BUSY).max(PRIOR_BUSY);
        let ratio = ratio.clamp(0.0, 1.0);
        Nanos((kernel.0 as f64 * ratio) as u64)
    }
}

/// Estimates the accounts of each CPU.
#[derive(Default)]
pub(crate) struct Sampling {
    /// CPU time per unit of work.
    pub(crate) costs: UnitCosts,
    pub(crate) work: Work,
    busy: Busy,
    loads: Vec<CpuLoad>,
    /// Time charged so far.
    charged: EstimatedTimes,
    placement: Placement,
    accounts: Vec<CpuAccounts>,
}

impl Sampling {
    /// The estimated accounts of each CPU since the start of tracing.
    pub(crate) fn accounts(&self) -> &[CpuAccounts] {
        &self.accounts
    }

    /// Whether a window has ended since the last charge.
    pub(crate) fn has_new_window(&self, windows: &[CpuAccounts]) -> bool {
        windows.iter().map(|cpu| cpu.wall.0).sum::<u64>() != self.busy.totals[0]
    }

    /// Charges the time since the last call. `windows`: the accounts in windows so far; `flows`: estimated time of all flows since the last
    /// call. Returns the time charged to flows: at most the busy time of the CPUs.
    pub(crate) fn charge(&mut self, windows: &[CpuAccounts], now: &CpuSampling, flows: u64) -> u64 {
        self.busy.observe(windows, now);
        let busy: Vec<CpuLoad> = now.loads.iter().map(|load| self.since_last(load)).collect();
        let all: u64 = busy.iter().map(|load| load.busy.0).sum();
        let due = self.targets(windows, now).with(self.charged, u64::saturating_sub);
        let mut times = EstimatedTimes { flows, ..due };
        if times.sum() > all {
            times = times.reduced_to(all);
        }
        self.charged = self.charged.with(times, u64::saturating_add);
        self.placement.observe(windows);
        for (load, times) in busy.iter().zip(place(&busy, times, &self.placement)) {
            self.add(load, times);
        }
        self.loads.clone_from(&now.loads);
        times.flows
    }

    /// Elapsed and busy time of a CPU since the last call.
    fn since_last(&self, now: &CpuLoad) -> CpuLoad {
        let before = self.loads.iter().find(|load| load.cpu == now.cpu).copied().unwrap_or_default();
        let wall = now.wall.since(before.wall);
        let busy = self.busy.by_ledger(now.busy.since(before.busy));
        CpuLoad { cpu: now.cpu, wall, busy: busy.min(wall) }
    }

    /// Time of the accounts since the start of tracing: their time in windows, scaled. `App` is scaled by the work of flows, `NetShared` by
    /// all packets of the machine, of which most may be untraced, `Irq` by time. Flows are 0 here: each flow is estimated by its unit cost.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times, never negative")]
    fn targets(&self, windows: &[CpuAccounts], now: &CpuSampling) -> EstimatedTimes {
        let sum = |read: fn(&CpuAccounts) -> Nanos| windows.iter().map(read).sum::<Nanos>().0 as f64;
        let (elapsed, sampled) =
            (now.loads.iter().map(|load| load.wall.0).sum::<u64>() as f64, sum(|cpu| cpu.wall));
        let own = now.own.0;
        if sampled <= 0.0 {
            return EstimatedTimes { own, ..EstimatedTimes::default() };
        }
        let by_time = (elapsed / sampled).max(1.0);
        let scale =
            |all: u64, sampled: u64, prior: f64| (all as f64 + prior * by_time) / (sampled as f64 + prior);
        let by_work = scale(self.work.all, self.work.sampled, PRIOR_WORK);
        let by_packets = scale(now.packets, now.window_packets, PRIOR_PACKETS);
        EstimatedTimes {
            flows: 0,
            app: (sum(|cpu| cpu.app) * by_work) as u64,
            net_shared: (sum(|cpu| cpu.net_shared) * by_packets) as u64,
            irq: (sum(|cpu| cpu.irq) * by_time) as u64,
            own,
        }
    }

    /// Adds time to the accounts of a CPU, so that the accounts sum exactly to the elapsed time.
    fn add(&mut self, load: &CpuLoad, times: EstimatedTimes) {
        let index = self.accounts.iter().position(|cpu| cpu.cpu == load.cpu).unwrap_or_else(|| {
            self.accounts.push(CpuAccounts { cpu: load.cpu, ..CpuAccounts::default() });
            self.accounts.len() - 1
        });
        let cpu = &mut self.accounts[index];
        cpu.wall += load.wall;
        cpu.flow += Nanos(times.flows);
        cpu.app += Nanos(times.app);
        cpu.net_shared += Nanos(times.net_shared);
        cpu.irq += Nanos(times.irq);
        cpu.mpwatch += Nanos(times.own);
        cpu.other += Nanos(load.busy.0 - times.sum());
        cpu.idle += Nanos(load.wall.0 - load.busy.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn windows(flow: u64, app: u64, other: u64) -> Vec<CpuAccounts> {
        let [flow, app, other] = [flow, app, other].map(Nanos);
        vec![CpuAccounts { cpu: 0, wall: Nanos(SECOND / 20), flow, app, other, ..CpuAccounts::default() }]
    }

    fn loads(busy: &[u64]) -> CpuSampling {
        let load = |(cpu, busy): (u32, &u64)| CpuLoad { cpu, wall: Nanos(SECOND), busy: Nanos(*busy) };
        CpuSampling {
            loads: (0..).zip(busy).map(load).collect(),
            own: Nanos(1_000),
            charges: true,
            ..CpuSampling::default()
        }
    }

    #[test]
    fn load_that_began_between_windows_is_charged_to_other_processes() {
        for busy in [300_000_000, 900_000_000] {
            let mut sampling =
                Sampling { work: Work { all: 640_000, sampled: 32_000 }, ..Sampling::default() };
            let granted = sampling.charge(&windows(10_000_000, 2_000_000, 0), &loads(&[busy]), 200_000_000);
            assert_eq!(granted, 200_000_000);
            let [cpu] = sampling.accounts() else { panic!("one CPU") };
            assert!(cpu.app.0.abs_diff(40_000_000) < 100_000, "{cpu:?}");
            assert_eq!(cpu.other.0, busy - 200_000_000 - cpu.app.0 - 1_000);
        }
    }

    #[test]
    fn busy_time_follows_the_ledger_where_the_kernel_counts_more() {
        let mut sampling = Sampling::default();
        let mut windows = windows(0, 0, 16_000_000);
        windows[0].other = Nanos(1_600_000_000);
        windows[0].wall = Nanos(5_000_000_000);
        windows[0].idle = Nanos(3_400_000_000);
        let now = CpuSampling { window_idle: Nanos(2_900_000_000), ..loads(&[400_000_000]) };
        sampling.charge(&windows, &now, 0);
        let [cpu] = sampling.accounts() else { panic!("one CPU") };
        assert!(cpu.idle.0.abs_diff(SECOND - 309_000_000) < 1_000_000, "1.7 of 2.2 s: {cpu:?}");
        sampling.charge(&windows, &CpuSampling { window_idle: Nanos(0), ..loads(&[400_000_000]) }, 0);
        assert_eq!(sampling.accounts()[0].sum(), Nanos(SECOND));
    }

    #[test]
    fn flows_get_no_more_than_the_cpus_were_busy() {
        let mut sampling = Sampling::default();
        assert_eq!(
            sampling.charge(&[], &loads(&[SECOND, SECOND / 2]), 9 * SECOND) / 1_000,
            SECOND * 3 / 2_000 - 1
        );
        assert_eq!(sampling.charge(&[], &loads(&[SECOND, SECOND / 2]), 9 * SECOND), 0, "no time has passed");
    }

    #[test]
    fn network_work_without_a_flow_follows_all_packets_of_the_machine() {
        let shared = |now: CpuSampling| {
            let mut windows = windows(10_000_000, 0, 0);
            windows[0].net_shared = Nanos(1_000_000);
            let mut sampling =
                Sampling { work: Work { all: 640_000, sampled: 320_000 }, ..Sampling::default() };
            sampling.charge(&windows, &now, 20_000_000);
            sampling.accounts()[0].net_shared.0
        };
        let others = CpuSampling { packets: 2_000_000, window_packets: 200_000, ..loads(&[SECOND]) };
        assert!(shared(others).abs_diff(10_000_000) < 10_000);
        assert_eq!(shared(loads(&[SECOND])), 20_000_000, "without packets, by time");
    }

    proptest! {
        #[test]
        fn the_accounts_of_every_cpu_sum_to_the_elapsed_time(
            ticks in prop::collection::vec((any::<[u32; 3]>(), any::<[u32; 3]>(), any::<u32>(), any::<u16>()), 1..9)
        ) {
            let (mut sampling, mut totals, mut in_windows) = (Sampling::default(), CpuSampling::default(), windows(0, 0, 0));
            totals.loads = (0..3).map(|cpu| CpuLoad { cpu, ..CpuLoad::default() }).collect();
            let mut granted = 0;
            for (walls, busy, wanted, packets) in ticks {
                for (load, (wall, busy)) in totals.loads.iter_mut().zip(walls.iter().zip(busy)) {
                    load.wall += Nanos((*wall).into());
                    load.busy += Nanos(busy.min(*wall).into());
                }
                in_windows[0].app += Nanos(packets.into());
                in_windows[0].net_shared += Nanos(7);
                sampling.work.all += u64::from(packets);
                totals.own += Nanos(packets.into());
                granted += sampling.charge(&in_windows, &totals, wanted.into());
            }
            for (cpu, load) in sampling.accounts().iter().zip(&totals.loads) {
                prop_assert_eq!(cpu.sum(), cpu.wall);
                prop_assert_eq!((cpu.wall, cpu.idle), (load.wall, load.wall.since(load.busy)));
            }
            prop_assert_eq!(sampling.accounts().iter().map(|cpu| cpu.flow.0).sum::<u64>(), granted);
        }
    }
}
