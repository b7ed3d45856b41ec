// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the sampler hands to the split: the energy of each zone in one window, or why it is not known. Only data.

use std::sync::Arc;

use mpwatch_model::energy::{LostReason, Source};
use mpwatch_model::unit::{Microjoules, Nanos};

use super::topology::Cpus;

/// A zone for the life of the agent, through vanishing and coming back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneId {
    /// Place among the sampler's zones; never reused.
    pub(crate) index: usize,
    /// `package-0`, `package-0/dram`; `model`.
    pub(crate) label: String,
    /// CPUs whose work it pays for.
    pub(crate) cpus: Cpus,
    /// Where its numbers come from.
    pub(crate) source: Source,
}

/// What happened to a zone in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It closed a window.
    Energy(Spent),
    /// The counter has not moved: the window stays open, and this time counts with the next.
    Pending,
    /// The energy of the window is not known.
    Lost {
        /// Why.
        reason: LostReason,
        /// How long the window was.
        elapsed: Nanos,
    },
}

/// Energy of a window, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spent {
    /// Energy.
    pub(crate) energy: Microjoules,
    /// Length of the window: longer than the tick where ticks before it were pending.
    pub(crate) elapsed: Nanos,
    /// Part of the energy that may belong to the windows beside this one: steps of the counter and the time it takes to
    /// read it, over the length.
    pub(crate) edge: f64,
    /// Of an estimate: its own idle power, microwatts, and the factors between which the truth is expected.
    pub(crate) estimate: Option<Estimate>,
}

/// What a model knows about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// Idle power, microwatts.
    pub(crate) idle: u64,
    /// The truth is expected above this many times the estimate.
    pub(crate) low: f64,
    /// And below this many times.
    pub(crate) high: f64,
}

/// A zone that counts, in one window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZoneWindow {
    /// Which zone.
    pub(crate) zone: Arc<ZoneId>,
    /// How often it has vanished and come back.
    pub(crate) epoch: u32,
    /// What happened.
    pub(crate) outcome: Outcome,
}

/// One window. Keep it and hand it in again: buffers are reused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Window {
    /// Where the joules come from. `Absent`: there are none.
    pub(crate) source: Source,
    /// Time since the window before. Zero in the first.
    pub(crate) elapsed: Nanos,
    /// How long it took to read all counters and settle the ledger.
    pub(crate) skew: Nanos,
    /// Zones that count.
    pub(crate) zones: Vec<ZoneWindow>,
    /// Zones that overlap with those, and their energy since the window before.
    pub(crate) shown: Vec<(Arc<ZoneId>, Microjoules)>,
}
