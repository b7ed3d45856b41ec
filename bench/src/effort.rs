// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long and how often to measure, and with how many connections.

use std::time::Duration;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Repetitions of everything that is compared.
    pub(crate) rounds: usize,
    /// How long traffic runs, and tracing has begun, before it is measured.
    pub(crate) warm_up: Duration,
    /// How long it is measured.
    pub(crate) window: Duration,
    /// Subflows of which a snapshot is taken, in one series of measurements each.
    pub(crate) subflows: &'static [u32],
    /// How long an idle mpwatch is watched.
    pub(crate) idle: Duration,
    /// Connections in which bottlenecks are looked for.
    pub(crate) crowds: &'static [Crowd],
    /// What their measurements are cut into.
    pub(crate) crowd_slice: Duration,
    /// Frames of the live view that are drawn, of each kind.
    pub(crate) frames: usize,
}

/// Connections at once, each with one subflow on every path, and as much of it as any other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    /// How many.
    pub(crate) connections: u32,
    /// Paths, and subflows of each.
    pub(crate) paths: usize,
    /// What a path gives each of them, in Mbit/s.
    pub(crate) mbit_a_subflow: f64,
    /// How long a path may queue.
    pub(crate) queue: Duration,
}

/// A thousand subflows; two hundred that are fast enough for verdicts (more at that rate are too much for two processors); and as many in
/// connections of two, of which there is one verdict that stands, where of twenty-eight some always come or go.
const CROWDS: [Crowd; 3] = [
    Crowd { connections: 125, paths: 8, mbit_a_subflow: 0.3, queue: Duration::from_millis(300) },
    Crowd { connections: 25, paths: 8, mbit_a_subflow: 1.5, queue: Duration::from_millis(100) },
    Crowd { connections: 100, paths: 2, mbit_a_subflow: 1.5, queue: Duration::from_millis(100) },
];
const SMALL_CROWDS: [Crowd; 3] = [
    Crowd { connections: 2, ..CROWDS[0] },
    Crowd { connections: 1, ..CROWDS[1] },
    Crowd { connections: 2, ..CROWDS[2] },
];

impl Effort {
    /// What figures are published from.
    pub(crate) const FULL: Self = Self {
        rounds: 15,
        warm_up: Duration::from_millis(150),
        window: Duration::from_millis(500),
        subflows: &[2_500, 10_000],
        idle: Duration::from_secs(10),
        crowds: &CROWDS,
        crowd_slice: Duration::from_secs(2),
        frames: 200,
    };
    /// Enough to see that it works; its figures say nothing.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(20),
        window: Duration::from_millis(50),
        subflows: &[40],
        idle: Duration::from_millis(100),
        crowds: &SMALL_CROWDS,
        crowd_slice: Duration::from_millis(20),
        frames: 2,
    };
}
