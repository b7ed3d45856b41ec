// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the CPU ledger hands to the split: exclusive nanoseconds per CPU and account in one window. Only the form and the
//! integer arithmetic to divide shared time; where the times come from is the kernel side's business.

use mpwatch_model::id::SubflowId;

/// Who a nanosecond, and then a microjoule, belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Account {
    /// Network path of a subflow; of a connection's own socket after [`divide`].
    Flow(SubflowId),
    /// Code of processes that own sockets.
    App,
    /// Everybody else.
    Other,
    /// Network work that could not be tied to a flow.
    NetShared,
    /// Interrupts.
    Irq,
    /// mpwatch.
    Own,
}

/// Time of one account on one CPU. Idle time has no entry: it is what is missing to the window's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// CPU.
    pub(crate) cpu: u32,
    /// Who.
    pub(crate) account: Account,
    /// Nanoseconds.
    pub(crate) time: u64,
}

/// One window of the ledger. Keep it and clear it: the buffer is reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Times, in any order; an account may come more than once.
    pub(crate) entries: Vec<Entry>,
}

impl Ledger {
    /// Adds time.
    pub(crate) fn add(&mut self, cpu: u32, account: Account, time: u64) {
        self.entries.push(Entry { cpu, account, time });
    }

    /// Busy time of all CPUs, nanoseconds.
    pub(crate) fn busy(&self) -> u64 {
        self.entries.iter().map(|entry| entry.time).sum()
    }
}

/// Divides `total` in proportion to `weights` into integers whose sum is `total` (equal parts where all weights are zero).
/// Used for what comes to a connection and not to a subflow (system calls on the MPTCP socket, by bytes) and for
/// `net_shared` (by segments). No weights: nothing is given away, `total` comes back. All numbers are below 2^60.
pub(crate) fn divide(total: u64, weights: &[u64], mut give: impl FnMut(usize, u64)) -> u64 {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let is_even = all == 0;
    let all = if is_even { weights.len() as u128 } else { all };
    let (mut passed, mut given) = (0_u128, 0_u64);
    for (index, weight) in weights.iter().enumerate() {
        passed += if is_even { 1 } else { u128::from(*weight) };
        // Rounding the running sum, not the part, makes the parts add up.
        let until = u64::try_from(u128::from(total) * passed / all).unwrap_or(total);
        give(index, until - given);
        given = until;
    }
    total - given
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(total: u64, weights: &[u64]) -> Vec<u64> {
        let mut parts = Vec::new();
        assert_eq!(
            divide(total, weights, |_, part| parts.push(part)),
            if weights.is_empty() { total } else { 0 }
        );
        parts
    }

    #[test]
    fn parts_are_in_proportion() {
        assert_eq!(parts(10, &[1, 1, 3]), [2, 2, 6]);
        assert_eq!(parts(10, &[0, 0]), [5, 5]);
        assert!(parts(10, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn parts_always_add_up(total in 0..1_u64 << 60, weights in prop::collection::vec(0..1_u64 << 60, 1..9)) {
            let parts = parts(total, &weights);
            prop_assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), u128::from(total));
            let none_without_weight = parts.iter().zip(&weights).all(|(part, weight)| *weight > 0 || *part == 0);
            prop_assert!(none_without_weight || weights.iter().all(|weight| *weight == 0));
        }
    }
}
