// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms over all flows, with fixed buckets.

use super::unit::Unit;
use crate::flow::connection::Connection;
use crate::flow::subflow::Subflow;
use crate::unit::Micros;

/// One histogram.
pub struct Distribution<T: 'static> {
    /// Full name, `mpwatch_<host or interface>_<what>_<unit>`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Unit of the observed values.
    pub unit: Unit,
    /// Upper bounds of the buckets, ascending; larger values count only in the total.
    pub bounds: &'static [f64],
    /// Number of observations of a flow so far: when it grows, the current value is observed.
    pub observations: fn(&T) -> u64,
    /// The observed value. `None`: unknown.
    pub value: fn(&T) -> Option<f64>,
}

const DURATIONS: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0];
const SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12];
const ENERGIES: &[f64] = &[1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5];
const DELAYS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0,
];

/// For a histogram per interface: fewer buckets, because there may be many interfaces.
const PATH_DELAYS: &[f64] = &[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

fn closed(connection: &Connection) -> u64 {
    u64::from(!connection.is_open())
}

/// Of connections.
pub static CONNECTION_DISTRIBUTIONS: &[Distribution<Connection>] = &[
    Distribution {
        name: "mpwatch_host_flow_duration_seconds",
        help: "Duration of connections whose opening and end were traced.",
        unit: Unit::Seconds,
        bounds: DURATIONS,
        observations: closed,
        value: |c| c.seen_open.then_some(c.age_s),
    },
    Distribution {
        name: "mpwatch_host_flow_size_bytes",
        help: "Payload in both directions of connections that closed.",
        unit: Unit::Bytes,
        bounds: SIZES,
        observations: closed,
        value: |c| Some((c.bytes_sent? + c.bytes_received?).0 as f64),
    },
    Distribution {
        name: "mpwatch_host_flow_active_joules",
        help: "Energy above idle of the network path of connections that closed.",
        unit: Unit::Joules,
        bounds: ENERGIES,
        observations: closed,
        value: |c| Some(c.energy.as_ref()?.active?.joules()),
    },
    Distribution {
        name: "mpwatch_host_second_path_after_seconds",
        help: "From the opening of connections to ESTABLISHED of their first joined subflow [ICPE19].",
        unit: Unit::Seconds,
        bounds: DELAYS,
        observations: |c| u64::from(c.second_path.is_some()),
        value: |c| c.second_path.map(|path| path.after.seconds()),
    },
];

/// Of subflows.
pub static SUBFLOW_DISTRIBUTIONS: &[Distribution<Subflow>] = &[
    Distribution {
        name: "mpwatch_host_handshake_seconds",
        help: "From SYN to ESTABLISHED of subflows.",
        unit: Unit::Seconds,
        bounds: DELAYS,
        observations: |s| u64::from(s.handshake.is_some()),
        value: |s| s.handshake.map(Micros::seconds),
    },
    Distribution {
        name: "mpwatch_host_rtt_seconds",
        help: "RTT of the segment acknowledged last, once per subflow and snapshot with a new sample.",
        unit: Unit::Seconds,
        bounds: DELAYS,
        observations: |s| s.rtt_samples,
        value: |s| s.rtt.map(Micros::seconds),
    },
];

/// Of the subflows of each interface.
pub static INTERFACE_DISTRIBUTIONS: &[Distribution<Subflow>] = &[Distribution {
    name: "mpwatch_interface_rtt_seconds",
    help: "RTT of the segment acknowledged last, once per subflow of an interface and snapshot with a new sample.",
    unit: Unit::Seconds,
    bounds: PATH_DELAYS,
    observations: |s| s.rtt_samples,
    value: |s| s.rtt.map(Micros::seconds),
}];
