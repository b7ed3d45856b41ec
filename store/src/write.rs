// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a connection to its rows. Pure but for the numbers of words: each structure is taken apart field by field, so that a field
//! that is new cannot be forgotten.

use std::net::SocketAddr;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::energy::{Convention, EnergySource, FlowEnergy, IdleSource};
use mpwatch_model::id::SubflowId;
use mpwatch_model::lifecycle::Role;
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Bytes, Micros};

use super::names::Numbers;
use super::row::{
    BACKUP, CLOSED, ConnectionKind, ConnectionRow, EndsRow, EventRow, INITIAL, PLACES, SEEN_OPEN, STALE,
    SampleRow, SubflowKind, SubflowRow, VerdictRow, number, ports, subflow_id,
};
use super::timeline::{self, Told};
use super::verdicts;

/// Everything that is stored of a connection, but for its samples.
pub(super) struct Rows {
    pub(super) connection: ConnectionRow,
    pub(super) ends: Option<EndsRow>,
    pub(super) subflows: Vec<SubflowRow>,
    pub(super) verdicts: Vec<VerdictRow>,
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
    let pairs = connection.bottlenecks.as_ref().map_or(&[][..], |found| &found.pairs);
    Ok(Rows {
        connection: connection_row(connection, place, &life, &told, numbers)?,
        ends: ends_row(connection, place.connection, numbers)?,
        verdicts: verdicts::rows(pairs, &ids(&connection.subflows), place.connection),
        subflows,
        events,
    })
}

/// One more would be a place of the next connection.
fn most_subflows() -> usize {
    usize::try_from(PLACES - 1).unwrap_or_default()
}

/// What the times and numbers of a connection's subflows are relative to.
struct Life {
    began_ns: i64,
    age_ns: i64,
    /// The connection's.
    birth: u64,
}

impl Life {
    fn of(connection: &Connection, seen_at: Timestamp) -> Self {
        let until = nanos(connection.closed_at.unwrap_or(seen_at));
        let (began_ns, age_ns) = match (connection.opened_at, connection.closed_at) {
            (Some(opened), Some(_)) => (nanos(opened), until - nanos(opened)),
            (Some(opened), None) => (nanos(opened), whole_nanos(connection.age_s)),
            (None, _) => {
                let age_ns = whole_nanos(connection.age_s);
                (until - age_ns, age_ns)
            }
        };
        Self { began_ns, age_ns, birth: connection.id.birth.0 }
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
    // What is left out follows from the rest: sums and excess from the subflows, times from `life`.
    let Connection {
        id,
        token: _,
        remote_token,
        ref netns,
        netns_inode,
        role,
        local: _,
        remote: _,
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
        jain_index,
        second_path,
        ref bottlenecks,
        extra_subflows,
        ref subflows,
        timeline: _,
    } = *connection;
    let mut flags = told.of_connection;
    flags |= if opened_at.is_some() { SEEN_OPEN } else { 0 };
    flags |= if closed_at.is_some() { CLOSED } else { 0 };
    let bytes = |count: Option<Bytes>| count.map(|count| number(count.0));
    let second = subflows.get(1);
    let joined_us = number(second.and_then(|subflow| subflow.joined_after).unwrap_or_default().0);
    let joined_bytes = number(second.and_then(|subflow| subflow.joined_after_bytes).unwrap_or_default().0);
    let groups = bottlenecks.as_ref().map(|found| verdicts::grouped(found, &ids(subflows)));
    let kind = ConnectionKind {
        id: None,
        runs: place.runs,
        netns: numbers.netns(id.netns.0, netns_inode, netns)?,
        role: numbers.maybe(role.map(Role::as_str))?,
        protocol: numbers.word(protocol.as_str())?,
        state: numbers.word(state.as_str())?,
        fallback: numbers.maybe(fallback.map(|fallback| fallback.reason.as_str()))?,
        flow_class: numbers.word(flow_class.as_str())?,
        comm: numbers.maybe(process.as_ref().map(|process| process.comm.text()).as_deref())?,
        cgroup: numbers.maybe(cgroup.as_deref())?,
        extra_subflows: extra_subflows.map(i64::from),
        grouped: numbers.maybe(groups.transpose()?.as_deref())?,
    };
    Ok(ConnectionRow {
        id: place.connection,
        run: place.run,
        kind: numbers.of_connection(kind)?,
        flags,
        token: i64::from(id.token.0.cast_signed()),
        birth: id.birth.0.cast_signed(),
        remote_token: remote_token.map(|token| i64::from(token.0.cast_signed())),
        pid: process.map(|process| i64::from(process.pid)),
        began_ns: life.began_ns,
        age_ns: life.age_ns,
        bytes_sent: bytes(bytes_sent),
        acked_less: bytes(bytes_acked).map(|acked| bytes(bytes_sent).unwrap_or_default() - acked),
        bytes_received: bytes(bytes_received),
        bytes_reinjected: bytes(bytes_reinjected),
        mptcp_bytes_retransmitted: bytes(mptcp_bytes_retransmitted),
        send_bps: number(send.0),
        receive_bps: number(receive.0),
        jain_millionths: jain_index.map(millionths),
        second_path_more_us: second_path.map(|path| number(path.after.0) - joined_us),
        second_path_more_bytes: bytes(second_path.and_then(|path| path.after_bytes))
            .map(|bytes| bytes - joined_bytes),
        second_path_effective_after_bytes: bytes(second_path.and_then(|path| path.effective_after_bytes)),
    })
}

/// An index is a whole number of them over a million: this finds it again.
#[allow(clippy::cast_possible_truncation, reason = "between 0 and 1")]
fn millionths(index: f64) -> i64 {
    (index * 1e6).round() as i64
}

/// `None`: they are those of the first subflow, or not known either.
fn ends_row(
    connection: &Connection,
    stored_as: i64,
    numbers: &mut impl Numbers,
) -> rusqlite::Result<Option<EndsRow>> {
    let first = connection.subflows.first();
    let mut end = |address: Option<SocketAddr>, same: Option<SocketAddr>| {
        let apart = address.filter(|_| address != same);
        Ok::<_, rusqlite::Error>((
            apart.map(|a| numbers.address(a.ip())).transpose()?,
            apart.map(|a| i64::from(a.port())),
        ))
    };
    let (local_ip, local_port) = end(connection.local, first.map(|s| s.local))?;
    let (remote_ip, remote_port) = end(connection.remote, first.map(|s| s.remote))?;
    let row = EndsRow { connection: stored_as, local_ip, local_port, remote_ip, remote_port };
    Ok((row.local_ip.is_some() || row.remote_ip.is_some()).then_some(row))
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
        tcp: _,
    } = *subflow;
    let micros = |time: Option<Micros>| time.map(|time| number(time.0));
    let [sent, received, resent] = [bytes_sent, bytes_received, bytes_retransmitted].map(|b| number(b.0));
    let segments = i64::from(segments_retransmitted);
    let smoothed = micros(srtt).unwrap_or_default();
    let more = |time: Option<Micros>, than: i64| micros(time).map(|time| time - than);
    let cpu_ns = cpu.map_or(0, |cpu| number(cpu.total().0));
    let cpu = cpu.map(columns_of_cpu);
    let energy_of = energy.as_ref().map(|energy| columns_of_energy(energy, numbers)).transpose()?;
    let joules = |nth: usize| energy_of.as_ref().and_then(|energy| energy.joules[nth]);
    let active = joules(0).unwrap_or_default();
    let told_here = told.of_subflow(id);
    let created = created_at.map(|at| life.after(at));
    let established = told_here.established.map(|at| life.after(at));
    let kind = SubflowKind {
        id: None,
        flags: told_here.flags | flag(initial, INITIAL) | flag(backup, BACKUP) | flag(stale, STALE),
        generation: id.generation.into(),
        local_ip: numbers.address(local.ip())?,
        local_id: local_id.into(),
        remote_id: remote_id.into(),
        interface: numbers.maybe(interface.as_ref().map(|name| name.text()).as_deref())?,
        state: numbers.word(state.as_str())?,
        close_reason: numbers.maybe(closed.map(|closed| closed.reason.as_str()))?,
        energy_source: energy_of.as_ref().map(|energy| energy.source),
        energy_convention: energy_of.as_ref().map(|energy| energy.convention),
        energy_idle: energy_of.as_ref().map(|energy| energy.idle),
    };
    Ok(SubflowRow {
        id: stored_as,
        kind: numbers.of_subflow(kind)?,
        cookie_more: id.cookie.0.wrapping_sub(life.birth).cast_signed(),
        ports: ports(local.port(), remote.port()),
        remote_ip: numbers.address(remote.ip())?,
        created_after_ns: created,
        established_ns: established.map(|at| at - created.unwrap_or_default()),
        handshake_more_us: more(
            handshake,
            created.zip(established).map_or(0, |(from, to)| (to - from) / 1_000),
        ),
        joined_more_us: more(joined_after, established.unwrap_or_default() / 1_000),
        joined_after_bytes: joined_after_bytes.map(|bytes| number(bytes.0)),
        closed_less_ns: closed.map(|closed| life.age_ns - life.after(closed.at)),
        bytes_sent: sent,
        acked_less: sent - resent - number(bytes_acked.0),
        bytes_received: received,
        bytes_retransmitted: resent,
        segments_retransmitted: segments,
        fast_less: retransmits.map(|by| segments - i64::from(by.fast)),
        retransmits_timeout: retransmits.map(|by| by.timeout.into()),
        retransmits_probe: retransmits.map(|by| by.probe.into()),
        srtt_us: micros(srtt),
        rtt_more_us: more(rtt, smoothed),
        rttvar_us: micros(rttvar),
        rtt_min_less_us: micros(rtt_min).map(|least| smoothed - least),
        rtt_p50_more_us: more(rtt_p50, smoothed),
        rtt_p99_more_us: more(rtt_p99, smoothed),
        rtt_samples: number(rtt_samples),
        cwnd_segments: cwnd_segments.into(),
        delivery_bps: delivery.map(|rate| number(rate.0)),
        lost_more: i64::from(lost_segments) - segments,
        timeouts: timeouts.map(Into::into),
        send_bps: number(send.0),
        receive_bps: number(receive.0),
        wire_sent_more: number(wire_bytes_sent_estimate.0) - sent,
        wire_received_more: number(wire_bytes_received_estimate.0) - received,
        scheduler_considered: scheduler.map(|rounds| number(rounds.considered)),
        picked_less: scheduler.map(|rounds| number(rounds.considered) - number(rounds.picked)),
        cpu_syscall_ns: cpu.and_then(|cpu| cpu.0),
        cpu_rx_softirq_ns: cpu.map(|cpu| cpu.1[0]),
        cpu_tx_ns: cpu.map(|cpu| cpu.1[1]),
        cpu_timer_ns: cpu.map(|cpu| cpu.1[2]),
        cpu_worker_ns: cpu.map(|cpu| cpu.1[3]),
        active_uj: joules(0),
        lo_less_uj: joules(1).map(|lo| active - lo),
        hi_more_uj: joules(2).map(|hi| hi - active),
        full_more_uj: joules(3).map(|full| full - active),
        energy_cpu_more_ns: energy_of.as_ref().map(|energy| energy.cpu_ns - cpu_ns),
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
        source: numbers.word(EnergySource::as_str(source))?,
        convention: numbers.word(Convention::as_str(convention))?,
        idle: numbers.word(IdleSource::as_str(idle))?,
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
