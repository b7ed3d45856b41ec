// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the model's connections and subflows from tracked state. Converts times of the boot clock to calendar time.

use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_model::flow::bottleneck::{Bottlenecks, DetectionMethod};
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::connection::{Connection, Fallback, SecondPath};
use mpwatch_model::flow::subflow::{Closed, Retransmits, Scheduler, Subflow};
use mpwatch_model::flow::timeline::TimelineEntry;
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::host::names::Pod;
use mpwatch_model::kernel::cpu::{CpuTimes, LedgerMode};
use mpwatch_model::kernel::event::{Start, SubflowRecord, Traces};
use mpwatch_model::kernel::histogram::RttHistogram;
use mpwatch_model::kernel::lifecycle::{Protocol, Role, TcpState};
use mpwatch_model::settle;
use mpwatch_model::unit::{BitsPerSecond, Bytes, Micros, Nanos};

use super::bottleneck;
use super::close;
use super::energy::Energy;
use super::flow::Flow;
use super::names::Names;
use super::subflow::SubflowState;
use super::timeline::Entry;
use super::wire;
use crate::bottleneck::{Detector, Pool};

/// Converts boot-clock time to calendar time.
pub(super) fn timestamp(boot_epoch_ns: i64, at: Nanos) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(boot_epoch_ns) + i128::from(at.0)).unwrap_or(Timestamp::MAX)
}

/// Which values a run measures, and by which methods. They are the same for all flows.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) traces: Traces,
    pub(super) ledger: LedgerMode,
    pub(super) method: DetectionMethod,
}

/// Properties of a connection that are not in its flow.
pub(super) struct Extras {
    pub(super) netns: Arc<str>,
    pub(super) cgroup: Option<Arc<str>>,
    pub(super) pod: Option<Arc<Pod>>,
    /// The results of the connection's detector. `None`: the connection has no detector.
    pub(super) bottlenecks: Option<Box<Bottlenecks>>,
}

/// The sources of facts and extras.
pub(super) struct Sources<'a> {
    pub(super) start: &'a Start,
    pub(super) names: &'a Names,
    pub(super) energy: Option<&'a Energy>,
    pub(super) method: DetectionMethod,
    pub(super) pool: &'a Pool,
    pub(super) now: Nanos,
}

impl Sources<'_> {
    pub(super) fn facts(&self) -> Facts {
        Facts { traces: self.start.traces, ledger: self.start.ledger, method: self.method }
    }

    pub(super) fn extras(&self, flow: &Flow, detector: Option<&Detector>) -> Extras {
        let bottlenecks =
            detector.and_then(|_| bottleneck::summarise(flow, detector, self.pool, self.method, self.now));
        Extras {
            netns: self.names.netns(flow.id().netns, flow.netns_inode),
            cgroup: self.names.cgroup(flow.cgroup),
            pod: self.names.pod(flow.cgroup),
            bottlenecks: bottlenecks.map(Box::new),
        }
    }

    /// Energy of each subflow, in the order of [`Flow::in_order`].
    pub(super) fn energies(&self, flow: &Flow) -> Vec<Option<FlowEnergy>> {
        let energy = |subflow| self.energy.and_then(|energy| energy.flow_energy(subflow));
        flow.in_order().map(energy).collect()
    }

    pub(super) fn connection(&self, flow: &Flow, detector: Option<&Detector>) -> Connection {
        let (extras, energies) = (&self.extras(flow, detector), &self.energies(flow));
        let boot_epoch_ns = self.start.boot_epoch_ns;
        Context { facts: self.facts(), extras, energies, boot_epoch_ns, now: self.now }.connection(flow)
    }
}

/// All inputs of a reported connection except its flow.
pub(super) struct Context<'a> {
    pub(super) facts: Facts,
    pub(super) extras: &'a Extras,
    pub(super) energies: &'a [Option<FlowEnergy>],
    pub(super) boot_epoch_ns: i64,
    pub(super) now: Nanos,
}

impl Context<'_> {
    pub(super) fn connection(&self, flow: &Flow) -> Connection {
        let (local, remote) = flow.addresses().unzip();
        let (sent, received) = flow.bytes().unzip();
        let counted = flow.msk.as_ref().and_then(|msk| msk.bytes);
        let subflows = flow.in_order().zip(self.energies);
        let subflows = subflows.map(|(state, energy)| self.subflow(flow, state, *energy));
        let connection = Connection {
            id: flow.id(),
            token: flow.id().token.known(),
            remote_token: flow.msk.as_ref().and_then(|msk| msk.remote_token.known()),
            netns: self.extras.netns.to_string(),
            netns_inode: flow.netns_inode,
            role: role(flow),
            local,
            remote,
            process: flow.owner,
            cgroup: self.extras.cgroup.as_ref().map(ToString::to_string),
            pod: self.extras.pod.as_deref().cloned(),
            opened_at: flow.opened.map(|at| self.at(at)),
            seen_open: flow.opened.is_some(),
            age_s: flow.closed_at().unwrap_or(self.now).since(flow.began(self.now)).seconds(),
            state: state(flow),
            closed_at: flow.closed_at().map(|at| self.at(at)),
            protocol: if flow.msk.is_some() { Protocol::Mptcp } else { Protocol::Tcp },
            fallback: fallback(flow),
            cause: flow.cause().cloned(),
            bytes_sent: sent,
            bytes_acked: counted
                .map(|bytes| bytes.acked)
                .or_else(|| flow.only_subflow().map(|tcp| tcp.record.tcp.bytes_acked)),
            bytes_received: received,
            bytes_retransmitted: Bytes(0),
            bytes_reinjected: flow.reinjected(),
            mptcp_bytes_retransmitted: counted.and_then(|bytes| bytes.retransmitted),
            send: rate(flow, |subflow| subflow.send),
            receive: rate(flow, |subflow| subflow.receive),
            observed: flow.observed(self.now),
            partly_observed: false,
            flow_class: FlowClass::Query,
            busy: None,
            cpu: None,
            energy: None,
            jain_index: None,
            second_path: second_path(flow),
            bottlenecks: self.bottlenecks(flow),
            extra_subflows: None,
            outage_since: flow.outage_since.map(|at| self.at(at)),
            subflows: subflows.collect(),
            dropped_subflows: flow.dropped.clone(),
            timeline: self.timeline(flow),
        };
        settle::settled(connection)
    }

    fn bottlenecks(&self, flow: &Flow) -> Option<Bottlenecks> {
        let Facts { traces, method, .. } = self.facts;
        let known = self.extras.bottlenecks.as_deref().cloned();
        known
            .or_else(|| bottleneck::summarise(flow, None, &Pool::default(), method, self.now))
            .filter(|_| traces.samples)
    }

    fn subflow(&self, flow: &Flow, state: &SubflowState, energy: Option<FlowEnergy>) -> Subflow {
        let (record, tcp) = (&state.record, &state.record.tcp);
        let traces = self.facts.traces;
        let joined = record.established.filter(|_| record.mp_join);
        let until = flow.closed_at().unwrap_or(self.now);
        let [wire_sent, wire_received] = wire::estimate(record);
        let interface = record.interface.map(|interface| interface.name);
        Subflow {
            id: record.id,
            place: state.place,
            local: record.local,
            remote: record.remote,
            local_id: record.local_id,
            remote_id: record.remote_id,
            interface,
            incoming_interface: record.incoming_interface.or(interface),
            congestion_control: record.congestion,
            initial: state.is_initial(),
            backup: record.backup,
            progress: state.path.progress,
            progress_since: state.path.since.map(|at| self.at(at)),
            path_failures: state.path.failures,
            state: if state.end.is_some() { TcpState::Close } else { record.state },
            created_at: record.created.filter(|_| !close::is_unsent(record)).map(|at| self.at(at)),
            handshake: record.handshake,
            joined_after: joined.and_then(|at| Some(at.since(flow.opened?).micros())),
            joined_after_bytes: joined.and(record.joined_bytes),
            bytes_sent: tcp.bytes_sent,
            bytes_acked: tcp.bytes_acked,
            bytes_received: tcp.bytes_received,
            bytes_retransmitted: tcp.bytes_retransmitted,
            bytes_refused: tcp.bytes_refused,
            segments_retransmitted: tcp.segments_retransmitted,
            retransmits: traces.retransmits.then(|| retransmits(record)),
            rtt: measured(tcp.rtt),
            srtt: measured(tcp.srtt),
            rttvar: measured(tcp.srtt).map(|_| tcp.rttvar),
            rtt_min: measured(tcp.rtt_min),
            rtt_p50: quantile(record, 0.5),
            rtt_p99: quantile(record, 0.99),
            rtt_samples: record.rtts.samples(),
            cwnd_segments: tcp.cwnd,
            delivery: delivery_rate(record),
            lost_segments: tcp.lost,
            timeouts: tcp.timeouts,
            send: state.send,
            receive: state.receive,
            observed: state.observed(until),
            busy: state.busy(until),
            share_sent: None,
            wire_bytes_sent_estimate: wire_sent,
            wire_bytes_received_estimate: wire_received,
            scheduler: (traces.scheduler && record.msk.is_some())
                .then_some(Scheduler { considered: record.considered, picked: record.picked }),
            cpu: self.cpu(state),
            energy,
            closed: state.end.map(|(at, reason)| Closed { at: self.at(at), reason }),
        }
    }

    /// CPU time of a subflow. Without the hooks for system calls, `syscall` is `None`, even if another hook charged a part of it.
    fn cpu(&self, state: &SubflowState) -> Option<CpuTimes> {
        let traces = self.facts.traces;
        let known = state.cpu(self.facts.ledger).filter(|_| traces.ledger)?;
        Some(CpuTimes { syscall: known.syscall.filter(|_| traces.calls), ..known })
    }

    fn timeline(&self, flow: &Flow) -> Vec<TimelineEntry> {
        let entry = |entry: &Entry| TimelineEntry {
            at: self.at(entry.at),
            source: entry.source,
            event: entry.event.clone(),
        };
        flow.timeline.entries().iter().map(entry).collect()
    }

    fn at(&self, at: Nanos) -> Timestamp {
        timestamp(self.boot_epoch_ns, at)
    }
}

/// The sum of the rates of the subflows. `None`: no rate is known.
fn rate(flow: &Flow, read: fn(&SubflowState) -> Option<BitsPerSecond>) -> Option<BitsPerSecond> {
    flow.subflows.iter().filter_map(read).reduce(|a, b| a + b)
}

fn role(flow: &Flow) -> Option<Role> {
    let server = match (&flow.msk, flow.subflows.first()) {
        (Some(msk), _) if msk.server_side => true,
        (_, Some(first)) if first.record.seen_open => first.record.passive && !first.record.mp_join,
        (Some(_), _) => false,
        (None, _) => return None,
    };
    Some(if server { Role::Server } else { Role::Client })
}

fn state(flow: &Flow) -> TcpState {
    match (&flow.msk, flow.subflows.first()) {
        _ if flow.closed_at().is_some() => TcpState::Close,
        (Some(msk), _) => msk.state,
        (None, Some(tcp)) => tcp.record.state,
        (None, None) => TcpState::Unknown,
    }
}

fn fallback(flow: &Flow) -> Option<Fallback> {
    let initial = flow.subflows.first().filter(|_| flow.fell_back)?;
    Some(Fallback { reason: close::fallback_reason(&initial.record) })
}

fn second_path(flow: &Flow) -> Option<SecondPath> {
    let joined = flow.subflows.iter().map(|subflow| &subflow.record).filter(|record| record.mp_join);
    let first = joined
        .clone()
        .filter(|record| record.established.is_some())
        .min_by_key(|record| record.established)?;
    Some(SecondPath {
        after: first.established?.since(flow.opened?).micros(),
        after_bytes: first.joined_bytes,
        effective_after_bytes: joined.filter_map(|record| record.effective).min().map(|(_, bytes)| bytes),
    })
}

fn retransmits(record: &SubflowRecord) -> Retransmits {
    Retransmits {
        fast: record.retransmits_fast,
        timeout: record.retransmits_timeout,
        probe: record.retransmits_probe,
    }
}

/// `None` before the first sample, when the kernel reports 0 or, for the minimum, `u32::MAX`.
fn measured(rtt: Micros) -> Option<Micros> {
    (rtt.0 != 0 && rtt.0 != u64::from(u32::MAX)).then_some(rtt)
}

/// A quantile of the RTT, accurate to one bucket of the histogram. In the bucket of the minimum RTT, the minimum is a lower bound.
fn quantile(record: &SubflowRecord, q: f64) -> Option<Micros> {
    let found = record.rtts.quantile(q)?;
    let bucket = |rtt: Micros| u32::try_from(rtt.0).map(RttHistogram::bucket).ok();
    let same_bucket = |least: &Micros| bucket(*least) == bucket(found);
    Some(measured(record.tcp.rtt_min).filter(same_bucket).map_or(found, |least| found.max(least)))
}

fn delivery_rate(record: &SubflowRecord) -> Option<BitsPerSecond> {
    let tcp = &record.tcp;
    let bytes = Bytes(u64::from(tcp.rate_delivered) * u64::from(tcp.mss));
    (tcp.rate_interval.0 > 0 && bytes.0 > 0).then(|| bytes.per(Nanos(tcp.rate_interval.0 * 1_000)))
}
