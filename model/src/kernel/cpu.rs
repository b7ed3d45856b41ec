// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of a flow by class of work, and the accounts of each CPU. Every nanosecond of a CPU is in exactly one account.

use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Nanos;
use crate::words::json_words;

json_words! {
    /// When CPU time is accounted.
    #[derive(Default)]
    pub enum LedgerMode {
        /// Always, by programs at every task switch, system call and softirq.
        #[default]
        Exact = "exact",
        /// In short windows; between windows it is estimated from the packets and the payload of each flow.
        Sampled = "sampled",
        /// Never: neither CPU time nor energy.
        Off = "off",
    }
}

/// Values read at every tick for a sampled ledger, whether or not a window is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSampling {
    /// Load of each CPU, from the kernel's idle time.
    pub loads: Vec<CpuLoad>,
    /// Idle time of all CPUs in windows, as counted by the kernel; zero: unknown. It is less than the idle time of the ledger, because the
    /// kernel counts idle time only while its tick is stopped.
    pub window_idle: Nanos,
    /// Packets that the kernel has received in all namespaces since the start of tracing, traced or not.
    pub packets: u64,
    /// Number of `packets` that were received in closed windows.
    pub window_packets: u64,
    /// CPU time of mpwatch's own tracing thread since the start of tracing.
    pub own: Nanos,
    /// Whether this tick charges the CPU time and energy so far, because a window has ended, some seconds have passed, or tracing ends.
    pub charges: bool,
}

/// Elapsed and busy time of a CPU since the start of tracing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLoad {
    /// CPU number.
    pub cpu: u32,
    /// Elapsed time.
    pub wall: Nanos,
    /// Time in which the CPU was not idle, at most `wall`.
    pub busy: Nanos,
}

/// CPU time of the network stack by kind of work, in nanoseconds. The times of a connection are exactly the sums over its subflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTimes {
    /// System calls of the application on the connection's socket, without interruptions; with several subflows, divided in proportion to their
    /// bytes since the last tick. `null`: the kernel does not report which socket a call uses (before 6.3).
    pub syscall: Option<Nanos>,
    /// Softirqs that received segments of the flow, with TCP processing, waking the application and sending data that an ACK allows.
    pub rx_softirq: Nanos,
    /// Softirqs that sent queued segments of the flow.
    pub tx: Nanos,
    /// Retransmission and other timers.
    pub timer: Nanos,
    /// Kernel threads, mostly the worker of MPTCP. Divided among the subflows like `syscall`.
    pub worker: Nanos,
}

impl CpuTimes {
    /// The sum of all classes.
    pub fn total(&self) -> Nanos {
        Nanos(self.classes().iter().sum())
    }

    /// The time of each class in field order, in nanoseconds. Unknown times are zero.
    pub fn classes(&self) -> [u64; 5] {
        [self.syscall.unwrap_or_default().0, self.rx_softirq.0, self.tx.0, self.timer.0, self.worker.0]
    }

    /// Builds the times from the value of each class. `calls`: whether `syscall` is known.
    pub fn from_classes([syscall, rx_softirq, tx, timer, worker]: [u64; 5], calls: bool) -> Self {
        Self {
            syscall: calls.then_some(Nanos(syscall)),
            rx_softirq: Nanos(rx_softirq),
            tx: Nanos(tx),
            timer: Nanos(timer),
            worker: Nanos(worker),
        }
    }

    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        let (a, b) = (self.classes(), other.classes());
        Self::from_classes(
            std::array::from_fn(|n| each(a[n], b[n])),
            self.syscall.is_some() || other.syscall.is_some(),
        )
    }

    /// The larger value of each class: the values of a destroyed socket read as zero.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, u64::max)
    }
}

impl Add for CpuTimes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl AddAssign for CpuTimes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for CpuTimes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

/// Divides an amount in proportion to weights, into integers whose sum is the amount. If all weights are zero, the first part gets all.
pub fn divide(amount: u64, weights: &[u64]) -> impl Iterator<Item = u64> {
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let (mut passed, mut given) = (0_u128, 0_u64);
    weights.iter().map(move |&weight| {
        passed += u128::from(weight);
        // The running sum is rounded instead of each part, so that the parts sum to the amount.
        let until = if all == 0 { amount } else { portion(amount, passed, all) };
        let part = until - given;
        given = until;
        part
    })
}

/// `amount * part / all`, where `part` is at most `all`. It is exact unless the weights sum to more than 2^64.
fn portion(amount: u64, part: u128, all: u128) -> u64 {
    let shift = (128 - all.leading_zeros()).saturating_sub(64);
    let (part, rounded) = if part == all { (1, 1) } else { (part >> shift, all >> shift) };
    u64::try_from(u128::from(amount) * part / rounded).unwrap_or(amount)
}

/// CPU time of one CPU by account since tracing began, in nanoseconds. The accounts sum exactly to `wall_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuAccounts {
    /// CPU number.
    pub cpu: u32,
    /// Elapsed time of the CPU.
    #[serde(rename = "wall_ns")]
    pub wall: Nanos,
    /// Network stack for traced flows.
    #[serde(rename = "flow_ns")]
    pub flow: Nanos,
    /// Processes that own traced flows, without their system calls on these flows.
    #[serde(rename = "app_ns")]
    pub app: Nanos,
    /// All other tasks, and TCP connections that are not traced.
    #[serde(rename = "other_ns")]
    pub other: Nanos,
    /// Network softirqs before a packet reaches its socket: driver, GRO, queues, protocols other than TCP.
    #[serde(rename = "net_shared_ns")]
    pub net_shared: Nanos,
    /// Device interrupts and other softirqs.
    #[serde(rename = "irq_ns")]
    pub irq: Nanos,
    /// mpwatch itself.
    #[serde(rename = "self_ns")]
    pub mpwatch: Nanos,
    /// Idle time.
    #[serde(rename = "idle_ns")]
    pub idle: Nanos,
}

impl CpuAccounts {
    /// The accounts of these CPUs together, each with its label in metrics, its name on screens, and its time.
    pub fn parts(cpus: &[Self]) -> [(&'static str, &'static str, Nanos); 7] {
        let sum = |read: fn(&Self) -> Nanos| cpus.iter().map(read).sum();
        [
            ("flow", "flows", sum(|cpu| cpu.flow)),
            ("app", "their applications", sum(|cpu| cpu.app)),
            ("net_shared", "unattributed network", sum(|cpu| cpu.net_shared)),
            ("other", "other processes", sum(|cpu| cpu.other)),
            ("irq", "interrupts", sum(|cpu| cpu.irq)),
            ("self", "mpwatch", sum(|cpu| cpu.mpwatch)),
            ("idle", "idle", sum(|cpu| cpu.idle)),
        ]
    }

    /// The sum of all accounts.
    pub fn sum(&self) -> Nanos {
        Self::parts(std::slice::from_ref(self)).into_iter().map(|(.., time)| time).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(amount: u64, weights: &[u64]) -> Vec<u64> {
        divide(amount, weights).collect()
    }

    #[test]
    fn parts_are_in_proportion() {
        assert_eq!(parts(10, &[1, 1, 3]), [2, 2, 6]);
        assert_eq!(parts(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(parts(7, &[0, 3, 1]), [0, 5, 2]);
        assert_eq!(parts(5, &[0, 0]), [5, 0]);
        assert_eq!(parts(5, &[]), [0; 0]);
    }

    proptest! {
        #[test]
        fn parts_always_add_up(amount in any::<u64>(), weights in prop::collection::vec(any::<u64>(), 1..9)) {
            let parts = parts(amount, &weights);
            prop_assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(amount));
            let none_without_weight = parts.iter().zip(&weights).all(|(part, weight)| *weight > 0 || *part == 0);
            prop_assert!(none_without_weight || weights.iter().all(|weight| *weight == 0));
        }
    }

    #[test]
    fn unknown_call_time_stays_unknown_and_counts_as_zero() {
        let known = CpuTimes::from_classes([1, 2, 3, 4, 5], true);
        let unknown = CpuTimes::from_classes([1, 2, 3, 4, 5], false);
        assert_eq!((known.total(), unknown.total()), (Nanos(15), Nanos(14)));
        assert_eq!((unknown + unknown).syscall, None);
        assert_eq!(known - known, CpuTimes { syscall: Some(Nanos(0)), ..CpuTimes::default() });
    }
}
