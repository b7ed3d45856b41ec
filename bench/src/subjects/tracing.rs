// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways to trace that a measurement compares, and the order in which it does.

use crate::harness::Observer;

/// What runs beside the measured work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracing {
    Nothing,
    /// The same as `Nothing`: shows by how much two equal measurements differ.
    NothingAgain,
    /// `--ledger off`: no CPU time per flow.
    WithoutLedger,
    /// CPU time is measured in short windows.
    Sampled,
    /// The default settings: every system call, softirq and context switch is accounted.
    Exact,
}

impl Tracing {
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::WithoutLedger, Self::Sampled, Self::Exact, Self::NothingAgain];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no tracing",
            Self::NothingAgain => "no tracing, again",
            Self::WithoutLedger => "`--ledger off`",
            Self::Sampled => "`--ledger sampled`",
            Self::Exact => "`--ledger exact`",
        }
    }

    /// A recorder with these settings. `None`: nothing runs.
    pub(crate) fn observer(self) -> Option<Observer> {
        let arguments: &[&str] = match self {
            Self::Nothing | Self::NothingAgain => return None,
            Self::WithoutLedger => &["--ledger", "off"],
            Self::Sampled => &["--ledger", "sampled"],
            Self::Exact => &["--ledger", "exact"],
        };
        Some(Observer::start_every("1s", arguments))
    }
}

/// Values measured with each kind of tracing, one per round.
#[derive(Default)]
pub(crate) struct Series([Vec<f64>; Tracing::ALL.len()]);

impl Series {
    pub(crate) fn push(&mut self, tracing: Tracing, value: f64) {
        self.0[tracing as usize].push(value);
    }

    pub(crate) fn of(&self, tracing: Tracing) -> &[f64] {
        &self.0[tracing as usize]
    }

    /// What to compare with: the mean of the two measurements without tracing, round by round, an estimate for the time between them; for
    /// the second of them, the first.
    pub(crate) fn baseline(&self, tracing: Tracing) -> Vec<f64> {
        let (first, again) = (self.of(Tracing::Nothing), self.of(Tracing::NothingAgain));
        if tracing == Tracing::NothingAgain {
            return first.to_vec();
        }
        first.iter().zip(again).map(|(first, again)| f64::midpoint(*first, *again)).collect()
    }
}

/// The order of a round. Alternating directions cancel out a drift of the machine.
pub(crate) fn order(round: usize) -> [Tracing; Tracing::ALL.len()] {
    let mut order = Tracing::ALL;
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
