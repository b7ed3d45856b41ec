// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metric table: the one place where a number gets its name, its unit, its column title and its meaning.
//! Screens, reports, Prometheus and METRICS.md follow from it. Here are the numbers of a flow; in [`host`] those of the
//! whole machine, in [`event_counter`] what is counted when it happens to a flow, in [`distribution`] what is told as a histogram.

pub mod distribution;
pub mod event_counter;
pub mod host;

use crate::connection::Connection;
use crate::energy::FlowEnergy;
use crate::subflow::Subflow;
use crate::unit::{BitsPerSecond, Bytes, Microjoules, Micros};

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the flow lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size; only of distributions.
    Histogram,
}

/// Base unit of a metric's value; also its suffix in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bits per second.
    BitsPerSecond,
    /// A fraction of one.
    Ratio,
    /// TCP segments.
    Segments,
    /// Joules.
    Joules,
    /// Joules per gigabyte (10^9) of payload.
    JoulesPerGigabyte,
    /// A plain number.
    Count,
}

impl Unit {
    /// The suffix that a metric's name ends with (before `_total`).
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Bytes => "_bytes",
            Self::Seconds => "_seconds",
            Self::BitsPerSecond => "_bits_per_second",
            Self::Ratio => "_ratio",
            Self::Segments => "_segments",
            Self::Joules => "_joules",
            Self::JoulesPerGigabyte => "_joules_per_gigabyte",
            Self::Count => "",
        }
    }

    /// Whether a counter in it is what mpwatch itself has measured, and so begins with tracing. The others are the kernel's own and
    /// begin with the flow.
    pub fn starts_with_tracing(self) -> bool {
        matches!(self, Self::Joules | Self::Seconds)
    }

    fn is_energy(self) -> bool {
        matches!(self, Self::Joules | Self::JoulesPerGigabyte)
    }
}

/// What has a cost.
pub trait HasEnergy {
    /// Its energy. `None`: not known.
    fn energy(&self) -> Option<&FlowEnergy>;
}

impl HasEnergy for Connection {
    fn energy(&self) -> Option<&FlowEnergy> {
        self.energy.as_ref()
    }
}

impl HasEnergy for Subflow {
    fn energy(&self) -> Option<&FlowEnergy> {
        self.energy.as_ref()
    }
}

/// One row of the table.
pub struct Metric<T> {
    /// Full name, `mpwatch_<subject>_<thing>_<unit>[_total]`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Unit of the value.
    pub unit: Unit,
    /// Column title on screens.
    pub title: &'static str,
    /// Reads it; `None`: not known.
    pub read: fn(&T) -> Option<f64>,
    /// Name of the key in JSON and of the column in CSV and SQLite, for a value that is computed from others. `None`: the value is a field
    /// of the subject and has its key and column from there.
    pub column: Option<&'static str>,
}

fn bytes(value: Bytes) -> f64 {
    value.0 as f64
}

fn rate(value: BitsPerSecond) -> f64 {
    value.0 as f64
}

fn seconds(value: Micros) -> f64 {
    value.0 as f64 / 1e6
}

fn joules(subject: &impl HasEnergy, read: fn(&FlowEnergy) -> Option<Microjoules>) -> Option<f64> {
    subject.energy().and_then(read).map(Microjoules::joules)
}

macro_rules! column {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

macro_rules! metrics {
    ($(#[$doc:meta])* $table:ident: $subject:ty { $($name:literal $kind:ident $unit:ident $title:literal $help:literal $read:expr $(=> $column:literal)?;)* }) => {
        $(#[$doc])*
        pub static $table: &[Metric<$subject>] = &[$(Metric {
            name: $name,
            help: $help,
            kind: Kind::$kind,
            unit: Unit::$unit,
            title: $title,
            read: $read,
            column: column!($($column)?),
        }),*];
    };
}

metrics! {
    /// Metrics of a subflow.
    SUBFLOW: Subflow {
        "mpwatch_subflow_sent_bytes_total" Counter Bytes "SENT" "Payload sent, TCP retransmissions included." |s| Some(bytes(s.bytes_sent));
        "mpwatch_subflow_acked_bytes_total" Counter Bytes "ACKED" "Payload acknowledged by the peer." |s| Some(bytes(s.bytes_acked));
        "mpwatch_subflow_received_bytes_total" Counter Bytes "RECV" "Payload received." |s| Some(bytes(s.bytes_received));
        "mpwatch_subflow_retransmitted_bytes_total" Counter Bytes "RETR B" "Payload sent again by TCP." |s| Some(bytes(s.bytes_retransmitted));
        "mpwatch_subflow_retransmitted_segments_total" Counter Segments "RETR" "Segments sent again, SYN included." |s| Some(f64::from(s.segments_retransmitted));
        "mpwatch_subflow_lost_segments_total" Counter Segments "LOST" "Segments marked lost." |s| Some(f64::from(s.lost_segments));
        "mpwatch_subflow_timeouts_total" Counter Count "RTO" "Retransmission timeouts; not known on kernels before 6.7." |s| s.timeouts.map(f64::from);
        "mpwatch_subflow_send_bits_per_second" Gauge BitsPerSecond "TX" "Payload sent in the interval." |s| Some(rate(s.send));
        "mpwatch_subflow_receive_bits_per_second" Gauge BitsPerSecond "RX" "Payload received in the interval." |s| Some(rate(s.receive));
        "mpwatch_subflow_delivery_bits_per_second" Gauge BitsPerSecond "DELIVERY" "Delivery rate of the kernel's last rate sample." |s| s.delivery.map(rate);
        "mpwatch_subflow_sent_share_ratio" Gauge Ratio "SHARE" "Part of the payload sent by all subflows of the connection." |s| s.share_sent;
        "mpwatch_subflow_rtt_seconds" Gauge Seconds "RTT" "RTT of the segment acknowledged last." |s| s.rtt.map(seconds);
        "mpwatch_subflow_srtt_seconds" Gauge Seconds "SRTT" "Smoothed RTT." |s| s.srtt.map(seconds);
        "mpwatch_subflow_rttvar_seconds" Gauge Seconds "RTTVAR" "Mean deviation of the RTT." |s| s.rttvar.map(seconds);
        "mpwatch_subflow_rtt_min_seconds" Gauge Seconds "MIN" "Lowest RTT of the kernel's window." |s| s.rtt_min.map(seconds);
        "mpwatch_subflow_rtt_p50_seconds" Gauge Seconds "P50" "Median of all RTT samples." |s| s.rtt_p50.map(seconds);
        "mpwatch_subflow_rtt_p99_seconds" Gauge Seconds "P99" "The 99th percentile of all RTT samples." |s| s.rtt_p99.map(seconds);
        "mpwatch_subflow_handshake_seconds" Gauge Seconds "HANDSHAKE" "SYN to ESTABLISHED." |s| s.handshake.map(seconds);
        "mpwatch_subflow_joined_after_seconds" Gauge Seconds "JOINED" "From the opening of the connection to this subflow's ESTABLISHED." |s| s.joined_after.map(seconds);
        "mpwatch_subflow_congestion_window_segments" Gauge Segments "CWND" "Congestion window." |s| Some(f64::from(s.cwnd_segments));
        "mpwatch_subflow_scheduler_considered_total" Counter Count "CONSIDERED" "Scheduler rounds that looked at the subflow." |s| s.scheduler.map(|x| x.considered as f64);
        "mpwatch_subflow_scheduler_picked_total" Counter Count "PICKED" "Scheduler rounds after which the subflow had been given data." |s| s.scheduler.map(|x| x.picked as f64);
        "mpwatch_subflow_wire_sent_bytes_total" Counter Bytes "WIRE TX" "Estimated bytes sent on the wire, headers included." |s| Some(bytes(s.wire_bytes_sent_estimate));
        "mpwatch_subflow_wire_received_bytes_total" Counter Bytes "WIRE RX" "Estimated bytes received on the wire, headers included." |s| Some(bytes(s.wire_bytes_received_estimate));
        "mpwatch_subflow_cpu_seconds_total" Counter Seconds "CPU" "CPU time of its network path on this machine; not known without the ledger." |s| s.cpu.map(|cpu| cpu.total().seconds());
        "mpwatch_subflow_active_joules_total" Counter Joules "ENERGY" "Energy above idle of its network path, by CPU time." |s| joules(s, |e| e.active);
        "mpwatch_subflow_active_low_joules_total" Counter Joules "LEAST" "Lower end of what the energy above idle may be." |s| joules(s, |e| e.lo);
        "mpwatch_subflow_active_high_joules_total" Counter Joules "MOST" "Upper end of what the energy above idle may be." |s| joules(s, |e| e.hi);
        "mpwatch_subflow_full_joules_total" Counter Joules "FULL" "Energy of its network path with a share of the idle energy, by CPU time." |s| joules(s, |e| e.full);
        "mpwatch_subflow_joules_per_gigabyte" Gauge JoulesPerGigabyte "J/GB" "Energy above idle for each gigabyte (10^9) of payload, both directions." |s| s.energy.and_then(|e| e.j_per_gb);
    }
}

metrics! {
    /// Metrics of a connection.
    CONNECTION: Connection {
        "mpwatch_connection_sent_bytes_total" Counter Bytes "SENT" "Payload sent, each byte once." |c| c.bytes_sent.map(bytes);
        "mpwatch_connection_acked_bytes_total" Counter Bytes "ACKED" "Payload acknowledged by the peer's MPTCP." |c| c.bytes_acked.map(bytes);
        "mpwatch_connection_received_bytes_total" Counter Bytes "RECV" "Payload received in order." |c| c.bytes_received.map(bytes);
        "mpwatch_connection_retransmitted_bytes_total" Counter Bytes "RETR B" "Payload that TCP sent again, over all subflows." |c| Some(bytes(c.bytes_retransmitted));
        "mpwatch_connection_reinjected_bytes_total" Counter Bytes "REINJ" "Payload that MPTCP sent again on another subflow." |c| c.bytes_reinjected.map(bytes);
        "mpwatch_connection_send_bits_per_second" Gauge BitsPerSecond "TX" "Payload sent in the interval." |c| Some(rate(c.send));
        "mpwatch_connection_receive_bits_per_second" Gauge BitsPerSecond "RX" "Payload received in the interval." |c| Some(rate(c.receive));
        "mpwatch_connection_age_seconds" Gauge Seconds "AGE" "Time since it was opened; not known of a connection older than the agent." |c| c.seen_open.then_some(c.age_s);
        "mpwatch_connection_subflows" Gauge Count "SUBFLOWS" "Open subflows." |c| Some(c.subflows.iter().filter(|s| s.closed.is_none()).count() as f64);
        "mpwatch_connection_excess_ratio" Gauge Ratio "EXCESS" "Part of the estimated wire bytes that was not payload delivered once [UPD18]." |c| c.excess_ratio() => "excess_ratio";
        "mpwatch_connection_fairness_ratio" Gauge Ratio "JAIN" "Jain's fairness index of the subflows' mean rates [RN10]." |c| c.jain_index;
        "mpwatch_connection_second_path_after_seconds" Gauge Seconds "2ND PATH" "From the opening to ESTABLISHED of the first joined subflow [ICPE19]." |c| c.second_path.map(|p| seconds(p.after));
        "mpwatch_connection_cpu_seconds_total" Counter Seconds "CPU" "CPU time of its network path on this machine; not known without the ledger." |c| c.cpu.map(|cpu| cpu.total().seconds());
        "mpwatch_connection_active_joules_total" Counter Joules "ENERGY" "Energy above idle of its network path, by CPU time." |c| joules(c, |e| e.active);
        "mpwatch_connection_active_low_joules_total" Counter Joules "LEAST" "Lower end of what the energy above idle may be." |c| joules(c, |e| e.lo);
        "mpwatch_connection_active_high_joules_total" Counter Joules "MOST" "Upper end of what the energy above idle may be." |c| joules(c, |e| e.hi);
        "mpwatch_connection_full_joules_total" Counter Joules "FULL" "Energy of its network path with a share of the idle energy, by CPU time." |c| joules(c, |e| e.full);
        "mpwatch_connection_joules_per_gigabyte" Gauge JoulesPerGigabyte "J/GB" "Energy above idle for each gigabyte (10^9) of payload, both directions." |c| c.energy.and_then(|e| e.j_per_gb);
    }
}

impl<T> Metric<T> {
    /// Whether Prometheus gets it: rates are left to its `rate()`, over the period that the user asks for.
    pub fn is_exported(&self) -> bool {
        self.unit != Unit::BitsPerSecond
    }

    /// The name of its sum over all flows of another subject: `mpwatch_connection_sent_bytes_total` of a peer is
    /// `mpwatch_peer_sent_bytes_total`.
    pub fn name_of(&self, subject: &str) -> String {
        let thing = self.name.splitn(3, '_').nth(2).unwrap_or(self.name);
        format!("mpwatch_{subject}_{thing}")
    }
}

/// A gauge that is always 1 and whose labels say who a flow is, so that no other series has to.
pub struct InfoMetric<T> {
    /// Full name, ending in `_info`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Names of the labels, beside the ids.
    pub labels: &'static [&'static str],
    /// Their values; what is not known is an empty one.
    pub read: fn(&T) -> Vec<String>,
}

/// Who a connection is.
pub static CONNECTION_INFO: InfoMetric<Connection> = InfoMetric {
    name: "mpwatch_connection_info",
    help: "Which connection it is.",
    labels: &["local", "remote", "netns", "role", "process"],
    read: |c| {
        vec![
            c.local.map(|address| address.to_string()).unwrap_or_default(),
            c.remote.map(|address| address.to_string()).unwrap_or_default(),
            c.netns.clone(),
            c.role.map(|role| role.as_str().to_owned()).unwrap_or_default(),
            c.process.map(|process| process.comm.to_string()).unwrap_or_default(),
        ]
    },
};

/// Who a subflow is.
pub static SUBFLOW_INFO: InfoMetric<Subflow> = InfoMetric {
    name: "mpwatch_subflow_info",
    help: "Which subflow it is.",
    labels: &["local", "remote", "interface", "backup"],
    read: |s| {
        vec![
            s.local.to_string(),
            s.remote.to_string(),
            s.interface.map(|name| name.to_string()).unwrap_or_default(),
            s.backup.to_string(),
        ]
    },
};

impl<T: HasEnergy> Metric<T> {
    /// Its value as people read it, with its unit; energy that no counter of this machine has measured begins with `~`.
    pub fn display(&self, subject: &T) -> String {
        self.marked(subject, display)
    }

    /// Its value for a narrow column, likewise.
    pub fn compact(&self, subject: &T) -> String {
        self.marked(subject, compact)
    }

    fn marked(&self, subject: &T, form: fn(Unit, Option<f64>) -> String) -> String {
        let value = (self.read)(subject);
        let is_estimate = value.is_some()
            && self.unit.is_energy()
            && subject.energy().is_some_and(|energy| !energy.source.is_measured());
        format!("{}{}", if is_estimate { "~" } else { "" }, form(self.unit, value))
    }
}

/// The row with this name.
pub fn find<T>(table: &'static [Metric<T>], name: &str) -> Option<&'static Metric<T>> {
    table.iter().find(|metric| metric.name == name)
}

/// A value as people read it: three significant digits and a unit; a dash for what is not known.
pub fn display(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match unit {
        Unit::Bytes => scaled(value, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"]),
        Unit::BitsPerSecond => scaled(value, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
        Unit::Seconds if value < 1e-3 => format!("{:.0} us", value * 1e6),
        Unit::Seconds if value < 1.0 => format!("{} ms", significant(value * 1e3)),
        Unit::Seconds => format!("{} s", significant(value)),
        Unit::Ratio => format!("{:.1} %", value * 100.0),
        Unit::Joules => small(value, "J"),
        Unit::JoulesPerGigabyte => format!("{} J/GB", significant(value)),
        Unit::Segments | Unit::Count => format!("{value:.0}"),
    }
}

/// [`display`] for a narrow column: at most 7 letters up to 999 PB, no space; `b` stands for bit/s, and J/GB is what the title says.
pub fn compact(unit: Unit, value: Option<f64>) -> String {
    display(unit, value).replace("bit/s", "b").replace(" J/GB", "").replace(' ', "")
}

/// Power as people read it: watts, or milliwatts.
pub fn watts(value: f64) -> String {
    small(value, "W")
}

/// Of what is often below one.
fn small(value: f64, unit: &str) -> String {
    match value {
        v if v >= 999.5 => scaled(v, 1000.0, &[unit, &format!("k{unit}"), &format!("M{unit}")]),
        v if v >= 0.999_5 || v == 0.0 => format!("{} {unit}", significant(v)),
        v if v >= 0.000_999_5 => format!("{} m{unit}", significant(v * 1e3)),
        v => format!("{:.0} u{unit}", v * 1e6),
    }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // What would be rounded up to "1000 kB" is 1.00 MB.
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { significant(value) };
    format!("{number} {}", units[unit])
}

fn significant(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn rows() -> Vec<(&'static str, &'static str, Kind, Unit)> {
        let of = |name, help, kind, unit| (name, help, kind, unit);
        let subflow = SUBFLOW.iter().map(|m| of(m.name, m.help, m.kind, m.unit));
        let connection = CONNECTION.iter().map(|m| of(m.name, m.help, m.kind, m.unit));
        let service = crate::service::SERVICE.iter().map(|m| of(m.name, m.help, m.kind, m.unit));
        let machine = host::HOST_METRICS.iter().map(|m| of(m.name, m.help, m.kind, m.unit));
        let to_connections =
            event_counter::CONNECTION_EVENTS.iter().map(|h| of(h.name, h.help, Kind::Counter, Unit::Count));
        let to_subflows =
            event_counter::SUBFLOW_EVENTS.iter().map(|h| of(h.name, h.help, Kind::Counter, Unit::Count));
        let of_connections = distribution::CONNECTION_DISTRIBUTIONS
            .iter()
            .map(|d| of(d.name, d.help, Kind::Histogram, d.unit));
        let of_subflows =
            distribution::SUBFLOW_DISTRIBUTIONS.iter().map(|d| of(d.name, d.help, Kind::Histogram, d.unit));
        subflow
            .chain(connection)
            .chain(service)
            .chain(machine)
            .chain(to_connections)
            .chain(to_subflows)
            .chain(of_connections)
            .chain(of_subflows)
            .collect()
    }

    #[test]
    fn a_sum_is_named_after_its_subject() {
        assert_eq!(CONNECTION[0].name_of("peer"), "mpwatch_peer_sent_bytes_total");
        assert_eq!(SUBFLOW[4].name_of("interface"), "mpwatch_interface_retransmitted_segments_total");
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        let mut seen = HashSet::new();
        for (name, help, kind, unit) in rows() {
            assert!(seen.insert(name), "{name} stands twice in the table");
            let stem = name.strip_suffix("_total").unwrap_or(name);
            assert_eq!(kind == Kind::Counter, stem != name, "{name}: counters end in _total, gauges do not");
            assert!(stem.ends_with(unit.suffix()), "{name} does not end in {}", unit.suffix());
            assert!(
                help.ends_with('.') && help.starts_with(char::is_uppercase),
                "{name}: the help is no sentence"
            );
        }
    }

    #[test]
    fn values_read_well() {
        assert_eq!(display(Unit::Bytes, Some(0.0)), "0 B");
        assert_eq!(display(Unit::Bytes, Some(1_234_567.0)), "1.23 MB");
        assert_eq!(display(Unit::Seconds, Some(0.000_042)), "42 us");
        assert_eq!(display(Unit::Seconds, Some(0.0205)), "20.5 ms");
        assert_eq!(display(Unit::Ratio, Some(0.333)), "33.3 %");
        assert_eq!(display(Unit::BitsPerSecond, None), "-");
        assert_eq!(display(Unit::Bytes, Some(999_999.0)), "1.00 MB");
        assert_eq!(display(Unit::Bytes, Some(9_999.0)), "10.0 kB");
        assert_eq!(display(Unit::Joules, Some(0.004_2)), "4.20 mJ");
        assert_eq!(display(Unit::Joules, Some(12_300.0)), "12.3 kJ");
        assert_eq!(display(Unit::Joules, Some(0.999_9)), "1.00 J");
        assert_eq!(compact(Unit::JoulesPerGigabyte, Some(25.04)), "25.0");
        assert_eq!(watts(0.35), "350 mW");
        assert_eq!(compact(Unit::BitsPerSecond, Some(94_100_000.0)), "94.1Mb");
        assert_eq!(compact(Unit::Seconds, Some(0.0205)), "20.5ms");
    }
}
