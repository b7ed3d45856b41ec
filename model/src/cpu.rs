// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time: what a flow has cost, by the kind of work, and where the time of each CPU went. Whole nanoseconds, each in one place.

use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Nanos;

/// CPU time spent on a subflow, or on a connection and no subflow in particular. Sums of subflows equal their connection's, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTimes {
    /// System calls of the application on the connection's socket, from entry to exit without what interrupted them. Of a
    /// connection with several subflows each gets its part by the bytes that it carried meanwhile. `null`: the kernel does not
    /// tell which call is whose (before 6.3).
    pub syscall: Option<Nanos>,
    /// Softirqs that received its segments, with everything that a segment causes: processing, waking up the application,
    /// sending what its acknowledgement allows.
    pub rx_softirq: Nanos,
    /// Softirqs that sent what had been held back.
    pub tx: Nanos,
    /// Retransmission and other timers.
    pub timer: Nanos,
    /// Threads of the kernel, mostly MPTCP's worker. Divided among the subflows as `syscall` is.
    pub worker: Nanos,
}

impl CpuTimes {
    /// All of it.
    pub fn total(&self) -> Nanos {
        Nanos(self.classes().iter().sum())
    }

    /// Each class, in the order of the fields; what is not known as zero.
    pub fn classes(&self) -> [u64; 5] {
        [self.syscall.unwrap_or_default().0, self.rx_softirq.0, self.tx.0, self.timer.0, self.worker.0]
    }

    /// From its classes. `calls`: whether the first is known.
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

    /// The larger of each class: a socket that is gone reads as zero.
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

/// Divides an amount in proportion to weights into integers whose sum is the amount. Without any weight the first gets all.
pub fn divide(amount: u64, weights: &[u64]) -> impl Iterator<Item = u64> {
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let (mut passed, mut given) = (0_u128, 0_u64);
    weights.iter().map(move |&weight| {
        passed += u128::from(weight);
        // Rounding the running sum, not the part, makes the parts add up.
        let until = if all == 0 { amount } else { portion(amount, passed, all) };
        let part = until - given;
        given = until;
        part
    })
}

/// `amount * part / all`, where `part` is at most `all`: exact unless the weights sum to more than 2^64.
fn portion(amount: u64, part: u128, all: u128) -> u64 {
    let shift = (128 - all.leading_zeros()).saturating_sub(64);
    let (part, rounded) = if part == all { (1, 1) } else { (part >> shift, all >> shift) };
    u64::try_from(u128::from(amount) * part / rounded).unwrap_or(amount)
}

/// Where the time of one CPU has gone since tracing began. The accounts sum to `wall`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuAccounts {
    /// Number of the CPU.
    pub cpu: u32,
    /// Time that has passed.
    #[serde(rename = "wall_ns")]
    pub wall: Nanos,
    /// Work for traced flows.
    #[serde(rename = "flow_ns")]
    pub flow: Nanos,
    /// The processes that own them, but for their calls on them.
    #[serde(rename = "app_ns")]
    pub app: Nanos,
    /// Every other task, and TCP connections that are not traced.
    #[serde(rename = "other_ns")]
    pub other: Nanos,
    /// Network softirqs before a packet has found its socket: the driver, GRO, queues, protocols other than TCP.
    #[serde(rename = "net_shared_ns")]
    pub net_shared: Nanos,
    /// Device interrupts and other softirqs.
    #[serde(rename = "irq_ns")]
    pub irq: Nanos,
    /// mpwatch itself.
    #[serde(rename = "self_ns")]
    pub mpwatch: Nanos,
    /// Nothing to do.
    #[serde(rename = "idle_ns")]
    pub idle: Nanos,
}

impl CpuAccounts {
    /// All accounts together.
    pub fn sum(&self) -> Nanos {
        let all = [self.flow, self.app, self.other, self.net_shared, self.irq, self.mpwatch, self.idle];
        Nanos(all.iter().map(|account| account.0).sum())
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
    fn what_is_not_known_stays_so_and_counts_nothing() {
        let known = CpuTimes::from_classes([1, 2, 3, 4, 5], true);
        let unknown = CpuTimes::from_classes([1, 2, 3, 4, 5], false);
        assert_eq!((known.total(), unknown.total()), (Nanos(15), Nanos(14)));
        assert_eq!((unknown + unknown).syscall, None);
        assert_eq!(known - known, CpuTimes { syscall: Some(Nanos(0)), ..CpuTimes::default() });
    }
}
