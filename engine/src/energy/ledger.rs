// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU ledger of one window: exclusive CPU time per CPU and account, in nanoseconds.

use mpwatch_model::host::energy::window::Cpus;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::cpu::{CpuAccounts, divide};

/// Account to which CPU time, and its energy, is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The network stack's work for a subflow.
    Flow(SubflowId),
    /// Code of processes that own sockets.
    App,
    /// All other processes.
    #[default]
    Other,
    /// Network work that could not be attributed to a flow.
    NetShared,
    /// Interrupts.
    Irq,
    /// mpwatch itself.
    Own,
}

/// Time of one account on one CPU. Idle time has no entry, because it is the remainder of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    cpu: u32,
    account: Account,
    time: u64,
}

/// One window of the ledger. Clearing it keeps its buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// Number of each CPU, and the time of all flows together on this CPU.
    flows_on: Vec<(u32, u64)>,
    /// The flows, and the time of each flow on all CPUs together: the BPF programs do not keep the time of a flow per CPU.
    flows: Vec<SubflowId>,
    times: Vec<u64>,
}

impl Ledger {
    /// Starts a new window.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.flows_on.clear();
        self.flows.clear();
        self.times.clear();
    }

    /// Adds time of an account on a CPU, also if the account already has time on this CPU.
    pub fn add(&mut self, cpu: u32, account: Account, time: u64) {
        self.entries.push(Entry { cpu, account, time });
    }

    /// Adds the increase of the accounts of each CPU from `before` to `now`.
    pub fn add_cpus(&mut self, before: &[CpuAccounts], now: &[CpuAccounts]) {
        for now in now {
            let before = before.iter().find(|before| before.cpu == now.cpu).copied().unwrap_or_default();
            let accounts = [
                (Account::App, now.app.since(before.app)),
                (Account::Other, now.other.since(before.other)),
                (Account::NetShared, now.net_shared.since(before.net_shared)),
                (Account::Irq, now.irq.since(before.irq)),
                (Account::Own, now.mpwatch.since(before.mpwatch)),
            ];
            for (account, time) in accounts {
                self.add(now.cpu, account, time.0);
            }
            self.flows_on.push((now.cpu, now.flow.since(before.flow).0));
        }
    }

    /// Adds the time of a flow on all CPUs.
    pub fn add_flow(&mut self, flow: SubflowId, time: u64) {
        if time > 0 {
            self.flows.push(flow);
            self.times.push(time);
        }
    }

    /// Busy time of all CPUs, nanoseconds.
    pub fn busy(&self) -> u64 {
        let entries = self.entries.iter().map(|entry| entry.time);
        entries.chain(self.flows_on.iter().map(|(_, time)| *time)).sum()
    }

    /// Calls `add` with each account's time on these CPUs. The time of all flows on these CPUs is divided among the flows in proportion to
    /// their times on all CPUs; time of unknown flows is `NetShared`.
    pub fn on(&self, cpus: &Cpus, mut add: impl FnMut(Account, u64)) {
        for entry in self.entries.iter().filter(|entry| cpus.contains(entry.cpu)) {
            add(entry.account, entry.time);
        }
        let everywhere: u64 = self.flows_on.iter().map(|(_, time)| time).sum();
        let here: u64 =
            self.flows_on.iter().filter(|(cpu, _)| cpus.contains(*cpu)).map(|(_, time)| time).sum();
        let known: u64 = self.times.iter().sum();
        let attributed = divide(here, &[known, everywhere.saturating_sub(known)]).next().unwrap_or(0);
        let attributed = if known == 0 { 0 } else { attributed };
        add(Account::NetShared, here - attributed);
        for (flow, time) in self.flows.iter().zip(divide(attributed, &self.times)) {
            add(Account::Flow(*flow), time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::id::SocketCookie;
    use mpwatch_model::unit::Nanos;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn flow(cookie: u64) -> SubflowId {
        SubflowId { cookie: SocketCookie(cookie), generation: 0 }
    }

    fn on(ledger: &Ledger, cpus: &Cpus) -> BTreeMap<Account, u64> {
        let mut sums = BTreeMap::new();
        ledger.on(cpus, |account, time| *sums.entry(account).or_default() += time);
        sums.retain(|_, time| *time > 0);
        sums
    }

    fn two_cpus(flows: [u64; 2]) -> Ledger {
        let mut ledger = Ledger::default();
        let now = [0, 1].map(|cpu| CpuAccounts {
            cpu,
            flow: Nanos(flows[cpu as usize]),
            other: Nanos(7),
            ..CpuAccounts::default()
        });
        ledger.add_cpus(&[], &now);
        ledger
    }

    #[test]
    fn flows_share_the_flow_time_of_each_cpu() {
        let mut ledger = two_cpus([300, 100]);
        ledger.add_flow(flow(1), 100);
        ledger.add_flow(flow(2), 300);
        let first = on(&ledger, &Cpus::These(vec![0]));
        let expected = [(Account::Flow(flow(1)), 75), (Account::Flow(flow(2)), 225), (Account::Other, 7)];
        assert_eq!(first, expected.into());
        assert_eq!(on(&ledger, &Cpus::All)[&Account::Flow(flow(2))], 300);
        assert_eq!(ledger.busy(), 414);
    }

    #[test]
    fn time_of_unknown_flows_is_shared_and_excess_time_of_flows_is_cut() {
        let mut ledger = two_cpus([300, 100]);
        assert_eq!(on(&ledger, &Cpus::All)[&Account::NetShared], 400);
        ledger.add_flow(flow(1), 300);
        assert_eq!(on(&ledger, &Cpus::All)[&Account::NetShared], 100);
        ledger.add_flow(flow(2), 200);
        assert_eq!(on(&ledger, &Cpus::All)[&Account::Flow(flow(1))], 240);
    }

    proptest! {
        #[test]
        fn no_time_is_lost_or_invented(on_cpus in any::<[u32; 2]>(), flows in prop::collection::vec(any::<u32>(), 0..9)) {
            let mut ledger = two_cpus(on_cpus.map(u64::from));
            for (cookie, time) in (0..).zip(flows) {
                ledger.add_flow(flow(cookie), time.into());
            }
            let parts: u64 = [0, 1].map(|cpu| on(&ledger, &Cpus::These(vec![cpu])).values().sum::<u64>()).iter().sum();
            prop_assert_eq!(parts, ledger.busy());
            prop_assert_eq!(on(&ledger, &Cpus::All).values().sum::<u64>(), ledger.busy());
        }
    }
}
