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
    /// Description in one sentence.
    pub help: &'static str,
    /// Unit of the observed values.
    pub unit: Unit,
    /// Upper bounds of the buckets, ascending; larger values count only in the total.
    pub bounds: &'static [f64],
    /// Number of observations of a flow so far. When it grows, the current value is observed.
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

/// Bounds for a histogram per interface: fewer buckets, because there may be many interfaces.
const PATH_DELAYS: &[f64] = &[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

fn closed(connection: &Connection) -> u64 {
    u64::from(!connection.is_open())
}

/// Declares tables of histograms: name, unit, bounds, help, number of observations, and value.
macro_rules! distributions {
    ($($(#[$doc:meta])* $table:ident: $subject:ty { $($name:literal $unit:ident $bounds:ident $help:literal $observations:expr, $value:expr;)* })*) => {
        $($(#[$doc])*
        pub static $table: &[Distribution<$subject>] = &[$(Distribution {
            name: $name,
            help: $help,
            unit: Unit::$unit,
            bounds: $bounds,
            observations: $observations,
            value: $value,
        }),*];)*
    };
}

distributions! {
    /// Distributions over connections.
    CONNECTION_DISTRIBUTIONS: Connection {
        "mpwatch_host_flow_duration_seconds" Seconds DURATIONS "Duration of connections whose opening and end were traced." closed, |c| c.seen_open.then_some(c.age_s);
        "mpwatch_host_flow_size_bytes" Bytes SIZES "Payload in both directions of connections that closed." closed, |c| Some((c.bytes_sent? + c.bytes_received?).0 as f64);
        "mpwatch_host_flow_active_joules" Joules ENERGIES "Energy above idle of the network stack for connections that closed." closed, |c| Some(c.energy.as_ref()?.active?.joules());
        "mpwatch_host_second_path_after_seconds" Seconds DELAYS "Time from the opening of connections to the state ESTABLISHED of their first joined subflow [ICPE19]." |c| u64::from(c.second_path.is_some()), |c| c.second_path.map(|path| path.after.seconds());
    }
    /// Distributions over subflows.
    SUBFLOW_DISTRIBUTIONS: Subflow {
        "mpwatch_host_handshake_seconds" Seconds DELAYS "Duration of the handshake of subflows." |s| u64::from(s.handshake.is_some()), |s| s.handshake.map(Micros::seconds);
        "mpwatch_host_rtt_seconds" Seconds DELAYS "RTT of the most recently acknowledged segment, one value for each subflow and snapshot with a new RTT sample." |s| s.rtt_samples, |s| s.rtt.map(Micros::seconds);
    }
    /// Distributions over the subflows of each interface.
    INTERFACE_DISTRIBUTIONS: Subflow {
        "mpwatch_interface_rtt_seconds" Seconds PATH_DELAYS "RTT of the most recently acknowledged segment, one value for each subflow of an interface and snapshot with a new RTT sample." |s| s.rtt_samples, |s| s.rtt.map(Micros::seconds);
    }
}
