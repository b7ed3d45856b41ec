// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effort of measurements: durations, repetitions and sizes.

use std::time::Duration;

/// Durations, repetitions and sizes of measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Number of repetitions of every comparison.
    pub(crate) rounds: usize,
    /// Time for which traffic and tracing run before a measurement.
    pub(crate) warm_up: Duration,
    /// Length of one measurement.
    pub(crate) window: Duration,
    /// Duration of the traffic whose energy is compared with the truth.
    pub(crate) traffic: Duration,
    /// Number of short connections in the comparison of tools, which may miss some of these connections.
    pub(crate) short_connections: u32,
    /// Numbers of subflows in measurements of a snapshot.
    pub(crate) subflows: &'static [u32],
    /// Number of idle subflows in the subject `scale`, and number of short connections that are opened while the idle subflows exist.
    pub(crate) many: [u32; 2],
    /// Number of connections that are opened and closed one after the other.
    pub(crate) new_connections: u32,
    /// Duration of the measurement of an idle mpwatch.
    pub(crate) idle: Duration,
    /// Workloads of the subject `detection`.
    pub(crate) workloads: &'static [DetectionWorkload],
    /// Length of the slices into which measurements of these workloads are divided.
    pub(crate) slice: Duration,
    /// Number of measured frames of the live view, for each kind of frame.
    pub(crate) frames: usize,
}

/// Parallel connections, each with one subflow per path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectionWorkload {
    /// Number of connections.
    pub(crate) connections: u32,
    /// Number of paths, and so of subflows per connection.
    pub(crate) paths: usize,
    /// Rate of a path divided by the number of its subflows, Mbit/s.
    pub(crate) mbit_per_subflow: f64,
    /// Length of a path's queue in time.
    pub(crate) queue: Duration,
}

/// 1 000 slow subflows; 200 subflows that are fast enough for verdicts (two CPUs cannot carry more at this rate); 200 subflows in pairs,
/// with one verdict per connection. Of the 28 verdicts of a connection with eight subflows, some change all the time.
const WORKLOADS: [DetectionWorkload; 3] = [
    DetectionWorkload {
        connections: 125,
        paths: 8,
        mbit_per_subflow: 0.3,
        queue: Duration::from_millis(300),
    },
    DetectionWorkload { connections: 25, paths: 8, mbit_per_subflow: 1.5, queue: Duration::from_millis(100) },
    DetectionWorkload {
        connections: 100,
        paths: 2,
        mbit_per_subflow: 1.5,
        queue: Duration::from_millis(100),
    },
];
const SMALL_WORKLOADS: [DetectionWorkload; 3] = [
    DetectionWorkload { connections: 2, ..WORKLOADS[0] },
    DetectionWorkload { connections: 1, ..WORKLOADS[1] },
    DetectionWorkload { connections: 2, ..WORKLOADS[2] },
];

impl Effort {
    /// The effort for published figures.
    pub(crate) const FULL: Self = Self {
        rounds: 15,
        warm_up: Duration::from_millis(150),
        // A sampled ledger has one sampling window per second.
        window: Duration::from_secs(1),
        traffic: Duration::from_secs(6),
        short_connections: 1_000,
        subflows: &[2_500, 10_000],
        many: [100_000, 20_000],
        new_connections: 300_000,
        idle: Duration::from_secs(10),
        workloads: &WORKLOADS,
        slice: Duration::from_secs(2),
        frames: 200,
    };
    /// The effort for a quick check that the bench works. Its figures have no meaning.
    pub(crate) const QUICK: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(20),
        window: Duration::from_millis(50),
        traffic: Duration::from_millis(200),
        short_connections: 20,
        subflows: &[40],
        many: [80, 20],
        new_connections: 40,
        idle: Duration::from_millis(100),
        workloads: &SMALL_WORKLOADS,
        slice: Duration::from_millis(20),
        frames: 2,
    };
}
