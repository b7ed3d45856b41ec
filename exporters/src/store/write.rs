// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a connection to its rows. Pure but for the numbers of words: each structure is taken apart field by field, so that a field
//! that is new cannot be forgotten.

use std::net::SocketAddr;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::energy::{Convention, FlowEnergy, Idle, Source};
use mpwatch_model::id::SubflowId;
use mpwatch_model::lifecycle::Role;
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::Micros;

use super::names::Numbers;
use super::row::{
    BACKUP, CLOSED, ConnectionRow, EventRow, INITIAL, PLACES, SEEN_OPEN, STALE, SampleRow, SubflowRow,
    number, subflow_id,
};
use super::timeline::{self, Told};
use super::verdicts;

/// Everything that is stored of a connection, but for its samples.
pub(super) struct Rows {
    pub(super) connection: ConnectionRow,
    pub(super) subflows: Vec<SubflowRow>,
    pub(super) events: Vec<EventRow>,
}

/// Where rows belong.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Number of the run.
    pub(super) run: i64,
    /// Number of the connection.
    pub(super) connection: i64,
    /// When the connection was seen so.
    pub(super) seen_at: Timestamp,
    /// How many runs have seen it.
    pub(super) runs: i64,
}

/// The rows of a connection.
pub(super) fn rows(
    connection: &Connection,
    place: Place,
    numbers: &mut impl Numbers,
) -> rusqlite::Result<Rows> {
    let life = Life::of(connection, place.seen_at);
    let told = timeline::told(connection);
    let stored = connection.subflows.iter().zip(1..).take(most_subflows());
    let subflows = stored
        .map(|(subflow, nth)| subflow_row(subflow, subflow_id(place.connection, nth), &life, &told, numbers))
        .collect::<rusqlite::Result<_>>()?;
    let events = told
        .apart
        .iter()
        .zip(0..)
        .map(|(entry, seq)| timeline::event_row(entry, place.connection, seq, life.began_ns, numbers))
        .collect::<rusqlite::Result<_>>()?;
    Ok(Rows { connection: connection_row(connection, place, &life, &told, numbers)?, subflows, events })
}

/// One more would be a place of the next connection.
fn most_subflows() -> usize {
    usize::try_from(PLACES - 1).unwrap_or_default()
}

/// The time of a connection that its other times are relative to, and its age.
struct Life {
    began_ns: i64,
    age_ns: i64,
}

impl Life {
    fn of(connection: &Connection, seen_at: Timestamp) -> Self {
        let until = nanos(connection.closed_at.unwrap_or(seen_at));
        match (connection.opened_at, connection.closed_at) {
            (Some(opened), Some(_)) => Self { began_ns: nanos(opened), age_ns: until - nanos(opened) },
            (Some(opened), None) => Self { began_ns: nanos(opened), age_ns: whole_nanos(connection.age_s) },
            (None, _) => {
                let age_ns = whole_nanos(connection.age_s);
                Self { began_ns: until - age_ns, age_ns }
            }
        }
    }

    fn after(&self, at: Timestamp) -> i64 {
        nanos(at) - self.began_ns
    }
}

/// UTC nanoseconds; good until the year 2262.
pub(super) fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// An age is a number of nanoseconds over 10^9: this finds it again.
#[allow(
    clippy::cast_possible_truncation,
    reason = "an `as` cast saturates, which is what a broken age deserves"
)]
pub(super) fn whole_nanos(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

#[allow(clippy::too_many_lines, reason = "a line for each column")]
fn connection_row(
    connection: &Connection,
    place: Place,
    life: &Life,
    told: &Told<'_>,
    numbers: &mut impl Numbers,
) -> rusqlite::Result<ConnectionRow> {
    // What is left out follows from the rest: the sums from the subflows, times from `life`, both ends from the first subflow.
    let Connection {
        id,
        token: _,
        remote_token,
        ref netns,
        netns_inode,
        role,
        local,
        remote,
        process,
        ref cgroup,
        opened_at,
        seen_open: _,
        age_s: _,
        state,
        closed_at,
        protocol,
        fallback,
        bytes_sent,
        bytes_acked,
        bytes_received,
        bytes_retransmitted: _,
        bytes_reinjected,
        mptcp_bytes_retransmitted,
        send,
        receive,
        flow_class,
        cpu: _,
        energy: _,
        excess_ratio,
        jain_index,
        second_path,
        ref bottlenecks,
        extra_subflows,
        ref subflows,
        timeline: _,
    } = *connection;
    let first = subflows.first();
    let mut end = |address: Option<SocketAddr>, same: Option<SocketAddr>| {
        let apart = address.filter(|_| address != same);
        Ok::<_, rusqlite::Error>((
            apart.map(|a| numbers.address(a.ip())).transpose()?,
            apart.map(|a| i64::from(a.port())),
        ))
    };
    let (local_ip, local_port) = end(local, first.map(|s| s.local))?;
    let (remote_ip, remote_port) = end(remote, first.map(|s| s.remote))?;
    let mut flags = told.of_connection;
    flags |= if opened_at.is_some() { SEEN_OPEN } else { 0 };
    flags |= if closed_at.is_some() { CLOSED } else { 0 };
    let bytes = |count: Option<mpwatch_model::unit::Bytes>| count.map(|count| number(count.0));
    Ok(ConnectionRow {
        id: place.connection,
        run: place.run,
        runs: place.runs,
        netns: numbers.netns(id.netns.0, netns_inode, netns)?,
        token: i64::from(id.token.0.cast_signed()),
        birth: id.birth.0.cast_signed(),
        remote_token: remote_token.map(|token| i64::from(token.0.cast_signed())),
        flags,
        role: numbers.maybe(role.map(Role::word))?,
        protocol: numbers.word(protocol.word())?,
        state: numbers.word(state.word())?,
        fallback: numbers.maybe(fallback.map(|fallback| fallback.reason.word()))?,
        pid: process.map(|process| i64::from(process.pid)),
        comm: numbers.maybe(process.as_ref().map(|process| process.comm.text()).as_deref())?,
        cgroup: numbers.maybe(cgroup.as_deref())?,
        local_ip,
        local_port,
        remote_ip,
        remote_port,
        began_ns: life.began_ns,
        age_ns: life.age_ns,
        bytes_sent: bytes(bytes_sent),
        bytes_acked: bytes(bytes_acked),
        bytes_received: bytes(bytes_received),
        bytes_reinjected: bytes(bytes_reinjected),
        mptcp_bytes_retransmitted: bytes(mptcp_bytes_retransmitted),
        send_bps: number(send.0),
        receive_bps: number(receive.0),
        flow_class: numbers.word(flow_class.word())?,
        excess_ratio,
        jain_index,
        second_path_after_us: second_path.map(|path| number(path.after.0)),
        second_path_after_bytes: bytes(second_path.and_then(|path| path.after_bytes)),
        second_path_effective_after_bytes: bytes(second_path.and_then(|path| path.effective_after_bytes)),
        extra_subflows: extra_subflows.map(i64::from),
        bottlenecks: bottlenecks
            .as_ref()
            .map(|found| verdicts::written(found, &ids(subflows)))
            .transpose()?,
    })
}

/// Those that are stored.
fn ids(subflows: &[Subflow]) -> Vec<SubflowId> {
    subflows.iter().take(most_subflows()).map(|subflow| subflow.id).collect()
}

#[allow(clippy::too_many_lines, reason = "a line for each column")]
fn subflow_row(
    subflow: &Subflow,
    stored_as: i64,
    life: &Life,
    told: &Told<'_>,
    numbers: &mut impl Numbers,
) -> rusqlite::Result<SubflowRow> {
    let Subflow {
        id,
        local,
        remote,
        local_id,
        remote_id,
        ref interface,
        initial,
        backup,
        stale,
        state,
        created_at,
        handshake,
        joined_after,
        joined_after_bytes,
        bytes_sent,
        bytes_acked,
        bytes_received,
        bytes_retransmitted,
        segments_retransmitted,
        retransmits,
        rtt,
        srtt,
        rttvar,
        rtt_min,
        rtt_p50,
        rtt_p99,
        rtt_samples,
        cwnd_segments,
        delivery,
        lost_segments,
        timeouts,
        send,
        receive,
        share_sent: _,
        wire_bytes_sent_estimate,
        wire_bytes_received_estimate,
        scheduler,
        cpu,
        ref energy,
        closed,
    } = *subflow;
    let micros = |time: Option<Micros>| time.map(|time| number(time.0));
    let cpu = cpu.map(columns_of_cpu);
    let energy = energy.as_ref().map(|energy| columns_of_energy(energy, numbers)).transpose()?;
    let joules = |nth: usize| energy.as_ref().and_then(|energy| energy.joules[nth]);
    let told_here = told.of_subflow(id);
    Ok(SubflowRow {
        id: stored_as,
        cookie: id.cookie.0.cast_signed(),
        generation: id.generation.into(),
        flags: told_here.flags | flag(initial, INITIAL) | flag(backup, BACKUP) | flag(stale, STALE),
        local_ip: numbers.address(local.ip())?,
        local_port: local.port().into(),
        remote_ip: numbers.address(remote.ip())?,
        remote_port: remote.port().into(),
        local_id: local_id.into(),
        remote_id: remote_id.into(),
        interface: numbers.maybe(interface.as_ref().map(|name| name.text()).as_deref())?,
        state: numbers.word(state.word())?,
        created_after_ns: created_at.map(|at| life.after(at)),
        established_after_ns: told_here.established.map(|at| life.after(at)),
        handshake_us: micros(handshake),
        joined_after_us: micros(joined_after),
        joined_after_bytes: joined_after_bytes.map(|bytes| number(bytes.0)),
        bytes_sent: number(bytes_sent.0),
        bytes_acked: number(bytes_acked.0),
        bytes_received: number(bytes_received.0),
        bytes_retransmitted: number(bytes_retransmitted.0),
        segments_retransmitted: segments_retransmitted.into(),
        retransmits_fast: retransmits.map(|by| by.fast.into()),
        retransmits_timeout: retransmits.map(|by| by.timeout.into()),
        retransmits_probe: retransmits.map(|by| by.probe.into()),
        rtt_us: micros(rtt),
        srtt_us: micros(srtt),
        rttvar_us: micros(rttvar),
        rtt_min_us: micros(rtt_min),
        rtt_p50_us: micros(rtt_p50),
        rtt_p99_us: micros(rtt_p99),
        rtt_samples: number(rtt_samples),
        cwnd_segments: cwnd_segments.into(),
        delivery_bps: delivery.map(|rate| number(rate.0)),
        lost_segments: lost_segments.into(),
        timeouts: timeouts.map(Into::into),
        send_bps: number(send.0),
        receive_bps: number(receive.0),
        wire_bytes_sent_estimate: number(wire_bytes_sent_estimate.0),
        wire_bytes_received_estimate: number(wire_bytes_received_estimate.0),
        scheduler_considered: scheduler.map(|rounds| number(rounds.considered)),
        scheduler_picked: scheduler.map(|rounds| number(rounds.picked)),
        cpu_syscall_ns: cpu.and_then(|cpu| cpu.0),
        cpu_rx_softirq_ns: cpu.map(|cpu| cpu.1[0]),
        cpu_tx_ns: cpu.map(|cpu| cpu.1[1]),
        cpu_timer_ns: cpu.map(|cpu| cpu.1[2]),
        cpu_worker_ns: cpu.map(|cpu| cpu.1[3]),
        active_uj: joules(0),
        lo_uj: joules(1),
        hi_uj: joules(2),
        full_uj: joules(3),
        energy_cpu_ns: energy.as_ref().map(|energy| energy.cpu_ns),
        energy_source: energy.as_ref().map(|energy| energy.source),
        energy_convention: energy.as_ref().map(|energy| energy.convention),
        energy_idle: energy.as_ref().map(|energy| energy.idle),
        closed_after_ns: closed.map(|closed| life.after(closed.at)),
        close_reason: numbers.maybe(closed.map(|closed| closed.reason.word()))?,
    })
}

fn flag(holds: bool, bit: i64) -> i64 {
    if holds { bit } else { 0 }
}

/// Time of system calls, where it is known, and of the other four kinds of work.
fn columns_of_cpu(cpu: CpuTimes) -> (Option<i64>, [i64; 4]) {
    let CpuTimes { syscall, rx_softirq, tx, timer, worker } = cpu;
    (syscall.map(|time| number(time.0)), [rx_softirq, tx, timer, worker].map(|time| number(time.0)))
}

struct EnergyColumns {
    /// Active, least, most, full.
    joules: [Option<i64>; 4],
    cpu_ns: i64,
    source: i64,
    convention: i64,
    idle: i64,
}

fn columns_of_energy(energy: &FlowEnergy, numbers: &mut impl Numbers) -> rusqlite::Result<EnergyColumns> {
    let FlowEnergy { active, lo, hi, full, j_per_gb: _, cpu, source, convention, idle } = *energy;
    Ok(EnergyColumns {
        joules: [active, lo, hi, full].map(|energy| energy.map(|energy| number(energy.0))),
        cpu_ns: number(cpu.0),
        source: numbers.word(Source::word(source))?,
        convention: numbers.word(Convention::word(convention))?,
        idle: numbers.word(Idle::word(idle))?,
    })
}

/// Where the counters of a connection's open subflows stand.
pub(super) fn samples(connection: &Connection, place: Place) -> Vec<SampleRow> {
    let life = Life::of(connection, place.seen_at);
    let stored = connection.subflows.iter().zip(1..).take(most_subflows());
    let open = stored.filter(|(subflow, _)| subflow.closed.is_none());
    open.map(|(subflow, nth)| SampleRow {
        subflow: subflow_id(place.connection, nth),
        after_ns: life.after(place.seen_at),
        bytes_sent: number(subflow.bytes_sent.0),
        bytes_received: number(subflow.bytes_received.0),
        bytes_retransmitted: number(subflow.bytes_retransmitted.0),
        srtt_us: subflow.srtt.map(|time| number(time.0)),
        cwnd_segments: subflow.cwnd_segments.into(),
        active_uj: subflow.energy.and_then(|energy| energy.active).map(|energy| number(energy.0)),
    })
    .collect()
}
