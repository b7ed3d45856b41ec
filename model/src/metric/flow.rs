// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics of connections and subflows. A value that is computed from other values has its column after `=>`.

use super::row::{HasEnergy, InfoMetric, metrics};
use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::metric::derived::tabled;
use crate::unit::{BitsPerSecond, Bytes, Microjoules, Micros};

tabled!(Connection, CONNECTION);
tabled!(Subflow, SUBFLOW);

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

fn bytes(value: Bytes) -> f64 {
    value.0 as f64
}

fn rate(value: BitsPerSecond) -> f64 {
    value.0 as f64
}

fn joules(subject: &impl HasEnergy, read: fn(&FlowEnergy) -> Option<Microjoules>) -> Option<f64> {
    subject.energy().and_then(read).map(Microjoules::joules)
}

metrics! {
    /// Metrics of a subflow.
    SUBFLOW: Subflow {
        "mpwatch_subflow_sent_bytes_total" Counter Bytes "SENT" "Payload sent, TCP retransmissions included." |s| Some(bytes(s.bytes_sent));
        "mpwatch_subflow_acked_bytes_total" Counter Bytes "ACKED" "Payload acknowledged by the peer." |s| Some(bytes(s.bytes_acked));
        "mpwatch_subflow_received_bytes_total" Counter Bytes "RECV" "Payload received." |s| Some(bytes(s.bytes_received));
        "mpwatch_subflow_retransmitted_bytes_total" Counter Bytes "RETX B" "Payload retransmitted by TCP." |s| Some(bytes(s.bytes_retransmitted));
        "mpwatch_subflow_refused_bytes_total" Counter Bytes "REFUSED" "Payload that a full queue of this host refused to send; the kernel counts it as sent." |s| Some(bytes(s.bytes_refused));
        "mpwatch_subflow_retransmitted_segments_total" Counter Segments "RETX" "Segments retransmitted, SYN included." |s| Some(f64::from(s.segments_retransmitted));
        "mpwatch_subflow_lost_segments_total" Counter Segments "LOST" "Segments that the kernel marked lost." |s| Some(f64::from(s.lost_segments));
        "mpwatch_subflow_timeouts_total" Counter Count "RTO" "Retransmission timeouts; unknown on kernels before 6.7." |s| s.timeouts.map(f64::from);
        "mpwatch_subflow_path_failures_total" Counter Count "PATH FAILS" "Failures of the path: no acknowledgements, a timeout, an unreachable peer or a reset." |s| Some(f64::from(s.path_failures));
        "mpwatch_subflow_send_bits_per_second" Gauge BitsPerSecond "TX" "Rate of sent payload in the interval; unknown once the subflow has closed." |s| s.send.filter(|_| s.closed.is_none()).map(rate);
        "mpwatch_subflow_receive_bits_per_second" Gauge BitsPerSecond "RX" "Rate of received payload in the interval; unknown once the subflow has closed." |s| s.receive.filter(|_| s.closed.is_none()).map(rate);
        "mpwatch_subflow_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT" "Mean rate of the observed payload in both directions, each byte once, over the observed time." |s| s.observed.goodput().map(rate) => "goodput_bps";
        "mpwatch_subflow_active_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT BUSY" "Goodput over the intervals that carried payload." |s| s.observed.active_goodput().map(rate) => "active_goodput_bps";
        "mpwatch_subflow_delivery_bits_per_second" Gauge BitsPerSecond "DELIVERY" "Delivery rate of the kernel's last rate sample." |s| s.delivery.map(rate);
        "mpwatch_subflow_excess_ratio" Gauge Ratio "OVERHEAD" "Fraction of the observed wire bytes (estimated) that was not payload: headers and retransmissions." |s| s.excess_ratio() => "excess_ratio";
        "mpwatch_subflow_sent_share_ratio" Gauge Ratio "SHARE" "Share of the subflow in the observed payload that all subflows of the connection sent." |s| s.share_sent;
        "mpwatch_subflow_rtt_seconds" Gauge Seconds "RTT LAST" "RTT of the most recently acknowledged segment." |s| s.rtt.map(Micros::seconds);
        "mpwatch_subflow_srtt_seconds" Gauge Seconds "RTT" "Smoothed RTT; unknown while the path has failed, and for a subflow that closed after a failure." |s| s.current_srtt().map(Micros::seconds);
        "mpwatch_subflow_rttvar_seconds" Gauge Seconds "RTTVAR" "Mean deviation of the RTT." |s| s.rttvar.map(Micros::seconds);
        "mpwatch_subflow_rtt_min_seconds" Gauge Seconds "RTT MIN" "Minimum RTT in the kernel's window (5 minutes by default)." |s| s.rtt_min.map(Micros::seconds);
        "mpwatch_subflow_rtt_p50_seconds" Gauge Seconds "RTT P50" "Median of all RTT samples." |s| s.rtt_p50.map(Micros::seconds);
        "mpwatch_subflow_rtt_p99_seconds" Gauge Seconds "RTT P99" "The 99th percentile of all RTT samples." |s| s.rtt_p99.map(Micros::seconds);
        "mpwatch_subflow_handshake_seconds" Gauge Seconds "HANDSHAKE" "Duration of the handshake." |s| s.handshake.map(Micros::seconds);
        "mpwatch_subflow_joined_after_seconds" Gauge Seconds "JOINED" "Time from the opening of the connection to the state ESTABLISHED of the subflow." |s| s.joined_after.map(Micros::seconds);
        "mpwatch_subflow_sender_busy_seconds_total" Counter Seconds "BUSY" "Time with data queued or in flight." |s| s.busy.map(|busy| busy.total.seconds());
        "mpwatch_subflow_receive_window_limited_seconds_total" Counter Seconds "RWND LIM" "Part of the busy time in which the peer's receive window limited the subflow." |s| s.busy.map(|busy| busy.receive_window.seconds());
        "mpwatch_subflow_send_buffer_limited_seconds_total" Counter Seconds "SNDBUF LIM" "Part of the busy time in which the send buffer limited the subflow." |s| s.busy.map(|busy| busy.send_buffer.seconds());
        "mpwatch_subflow_congestion_window_segments" Gauge Segments "CWND" "Congestion window." |s| Some(f64::from(s.cwnd_segments));
        "mpwatch_subflow_scheduler_considered_total" Counter Count "CONSIDERED" "Scheduler rounds that considered the subflow." |s| s.scheduler.map(|x| x.considered as f64);
        "mpwatch_subflow_scheduler_picked_total" Counter Count "PICKED" "Scheduler rounds at whose end the scheduler had assigned data to the subflow." |s| s.scheduler.map(|x| x.picked as f64);
        "mpwatch_subflow_wire_sent_bytes_total" Counter Bytes "WIRE TX" "Estimated bytes sent on the wire, headers included." |s| Some(bytes(s.wire_bytes_sent_estimate));
        "mpwatch_subflow_wire_received_bytes_total" Counter Bytes "WIRE RX" "Estimated bytes received on the wire, headers included." |s| Some(bytes(s.wire_bytes_received_estimate));
        "mpwatch_subflow_cpu_seconds_total" Counter Seconds "CPU" "CPU time of this machine's network stack; unknown with the ledger off." |s| s.cpu.map(|cpu| cpu.total().seconds());
        "mpwatch_subflow_active_joules_total" Counter Joules "ENERGY" "Energy above idle of the network stack." |s| joules(s, |e| e.active);
        "mpwatch_subflow_active_low_joules_total" Counter Joules "J MIN" "Lower bound of the energy above idle." |s| joules(s, |e| e.lo);
        "mpwatch_subflow_active_high_joules_total" Counter Joules "J MAX" "Upper bound of the energy above idle." |s| joules(s, |e| e.hi);
        "mpwatch_subflow_full_joules_total" Counter Joules "WITH IDLE" "Energy above idle of the network stack, plus a share of the idle energy in proportion to CPU time." |s| joules(s, |e| e.full);
        "mpwatch_subflow_joules_per_gigabyte" Gauge JoulesPerGigabyte "J/GB" "Energy above idle per gigabyte (10^9 bytes) of observed payload, both directions." |s| s.energy.and_then(|e| e.j_per_gb);
    }
}

metrics! {
    /// Metrics of a connection.
    CONNECTION: Connection {
        "mpwatch_connection_sent_bytes_total" Counter Bytes "SENT" "Payload that MPTCP passed to subflows, each byte once; the last part may still wait in a send queue." |c| c.bytes_sent.map(bytes);
        "mpwatch_connection_acked_bytes_total" Counter Bytes "ACKED" "Payload acknowledged by the peer's MPTCP." |c| c.bytes_acked.map(bytes);
        "mpwatch_connection_received_bytes_total" Counter Bytes "RECV" "Payload received in order." |c| c.bytes_received.map(bytes);
        "mpwatch_connection_retransmitted_bytes_total" Counter Bytes "RETX B" "Payload retransmitted by TCP, over all subflows." |c| Some(bytes(c.bytes_retransmitted));
        "mpwatch_connection_reinjected_bytes_total" Counter Bytes "REINJ" "Payload that MPTCP reinjected on another subflow." |c| c.bytes_reinjected.map(bytes);
        "mpwatch_connection_outages_total" Counter Count "OUTAGES" "Outages: intervals of at least a retransmission timeout in which no path made progress." |c| Some(outage::outages(c).len() as f64);
        "mpwatch_connection_outage_seconds_total" Counter Seconds "OUTAGE" "Total duration of outages." |c| Some(outage::outages(c).iter().map(|outage| outage.duration.seconds()).sum());
        "mpwatch_connection_send_bits_per_second" Gauge BitsPerSecond "TX" "Rate at which the subflows sent payload in the interval; unknown once the connection has closed." |c| c.send.filter(|_| c.is_open()).map(rate);
        "mpwatch_connection_receive_bits_per_second" Gauge BitsPerSecond "RX" "Rate at which the subflows received payload in the interval; unknown once the connection has closed." |c| c.receive.filter(|_| c.is_open()).map(rate);
        "mpwatch_connection_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT" "Mean rate of the observed payload in both directions, each byte once, over the observed time." |c| c.observed?.goodput().map(rate) => "goodput_bps";
        "mpwatch_connection_active_goodput_bits_per_second" Gauge BitsPerSecond "GOODPUT BUSY" "Goodput over the intervals that carried payload." |c| c.observed?.active_goodput().map(rate) => "active_goodput_bps";
        "mpwatch_connection_age_seconds" Gauge Seconds "AGE" "Time since the opening; unknown for a connection opened before mpwatch started." |c| c.seen_open.then_some(c.age_s);
        "mpwatch_connection_subflows" Gauge Count "SUBFLOWS" "Open subflows." |c| Some(c.subflows.iter().filter(|s| s.closed.is_none()).count() as f64);
        "mpwatch_connection_excess_ratio" Gauge Ratio "OVERHEAD" "Fraction of the observed wire bytes (estimated) that delivered no new payload [UPD18]." |c| c.excess_ratio() => "excess_ratio";
        "mpwatch_connection_fairness_ratio" Gauge Ratio "JAIN" "Jain's fairness index of the subflows' goodputs [RN10]." |c| c.jain_index;
        "mpwatch_connection_second_path_after_seconds" Gauge Seconds "2ND PATH" "Time from the opening to the state ESTABLISHED of the first joined subflow [ICPE19]." |c| c.second_path.map(|p| p.after.seconds());
        "mpwatch_connection_sender_busy_seconds_total" Counter Seconds "BUSY" "Time with data queued or in flight, over all subflows." |c| c.busy.map(|busy| busy.total.seconds());
        "mpwatch_connection_receive_window_limited_seconds_total" Counter Seconds "RWND LIM" "Part of the busy time in which the peer's receive window limited the subflows." |c| c.busy.map(|busy| busy.receive_window.seconds());
        "mpwatch_connection_send_buffer_limited_seconds_total" Counter Seconds "SNDBUF LIM" "Part of the busy time in which the send buffer limited the subflows." |c| c.busy.map(|busy| busy.send_buffer.seconds());
        "mpwatch_connection_cpu_seconds_total" Counter Seconds "CPU" "CPU time of this machine's network stack; unknown with the ledger off." |c| c.cpu.map(|cpu| cpu.total().seconds());
        "mpwatch_connection_active_joules_total" Counter Joules "ENERGY" "Energy above idle of the network stack." |c| joules(c, |e| e.active);
        "mpwatch_connection_active_low_joules_total" Counter Joules "J MIN" "Lower bound of the energy above idle." |c| joules(c, |e| e.lo);
        "mpwatch_connection_active_high_joules_total" Counter Joules "J MAX" "Upper bound of the energy above idle." |c| joules(c, |e| e.hi);
        "mpwatch_connection_full_joules_total" Counter Joules "WITH IDLE" "Energy above idle of the network stack, plus a share of the idle energy in proportion to CPU time." |c| joules(c, |e| e.full);
        "mpwatch_connection_joules_per_gigabyte" Gauge JoulesPerGigabyte "J/GB" "Energy above idle per gigabyte (10^9 bytes) of observed payload, both directions." |c| c.energy.and_then(|e| e.j_per_gb);
    }
}

/// Identifies a connection.
pub static CONNECTION_INFO: InfoMetric<Connection> = InfoMetric {
    name: "mpwatch_connection_info",
    help: "Identity of a connection; always 1.",
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

/// Identifies a subflow.
pub static SUBFLOW_INFO: InfoMetric<Subflow> = InfoMetric {
    name: "mpwatch_subflow_info",
    help: "Identity of a subflow; always 1.",
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
