// SPDX-License-Identifier: MIT OR Apache-2.0
//! From rows back to a connection: what the rows do not hold follows from what they do, by the same rules as in the tracker.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use mpwatch_model::bottleneck::Bottlenecks;
use mpwatch_model::connection::{Connection, Fallback, SecondPath};
use mpwatch_model::cpu::CpuTimes;
use mpwatch_model::endpoint::Name;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::event::Process;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::subflow::{Closed, Retransmits, Scheduler, Subflow};
use mpwatch_model::timeline::{TimelineEntry, What};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros, Nanos};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::row::{
    BACKUP, CLOSED, ConnectionRow, EventRow, INITIAL, SEEN_OPEN, STALE, SubflowRow, TOLD_CLOSING, TOLD_END,
    TOLD_OPENING, TOLD_SYN, counter,
};
use super::timeline::{self, ToldOfSubflow};
use super::verdicts;

/// A row that no mpwatch has written.
#[derive(Debug, thiserror::Error)]
#[error("{what} is damaged: {why}")]
pub(super) struct Damaged {
    what: &'static str,
    why: String,
}

type Outcome<T> = Result<T, Damaged>;

/// What numbers stand for.
#[derive(Default)]
pub(super) struct Dictionary {
    pub(super) words: HashMap<i64, String>,
    pub(super) netns: HashMap<i64, Netns>,
}

/// A network namespace.
#[derive(Clone)]
pub(super) struct Netns {
    pub(super) cookie: i64,
    pub(super) inode: u32,
    pub(super) name: String,
}

impl Dictionary {
    fn text(&self, number: i64) -> Outcome<&str> {
        let missing = || Damaged { what: "the table of names", why: format!("it has no number {number}") };
        self.words.get(&number).map(String::as_str).ok_or_else(missing)
    }

    /// A word of one of the model's enumerations.
    fn word<T: DeserializeOwned>(&self, number: i64) -> Outcome<T> {
        let text = self.text(number)?;
        T::deserialize(StrDeserializer::<WordError>::new(text))
            .map_err(|error| Damaged { what: "a word", why: error.to_string() })
    }

    fn name(&self, number: i64) -> Outcome<Name> {
        self.word(number)
    }

    fn address(&self, ip: i64, port: i64) -> Outcome<SocketAddr> {
        let text = self.text(ip)?;
        let ip: IpAddr = text.parse().map_err(|_| damaged("an address", text))?;
        Ok(SocketAddr::new(ip, small(port)?))
    }
}

fn damaged(what: &'static str, value: impl std::fmt::Display) -> Damaged {
    Damaged { what, why: format!("`{value}` cannot be one") }
}

fn small<T: TryFrom<i64>>(value: i64) -> Outcome<T> {
    T::try_from(value).map_err(|_| damaged("a number", value))
}

fn maybe<T>(value: Option<i64>, read: impl FnOnce(i64) -> Outcome<T>) -> Outcome<Option<T>> {
    value.map(read).transpose()
}

/// From UTC nanoseconds.
pub(super) fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX)
}

/// Puts a connection together.
pub(super) fn connection(
    row: &ConnectionRow,
    subflows: &[SubflowRow],
    events: &[EventRow],
    dictionary: &Dictionary,
) -> Outcome<Connection> {
    let bytes = |count: Option<i64>| count.map(|count| Bytes(counter(count)));
    let netns = dictionary.netns.get(&row.netns).ok_or_else(|| damaged("a namespace", row.netns))?;
    let token = Token(u32::from_le_bytes(small::<i32>(row.token)?.to_le_bytes()));
    let end = |ip: Option<i64>, port: Option<i64>| {
        ip.zip(port).map(|(ip, port)| dictionary.address(ip, port)).transpose()
    };
    let parts: Vec<Subflow> =
        subflows.iter().map(|one| subflow(one, row.began_ns, dictionary)).collect::<Outcome<_>>()?;
    let age = Nanos(counter(row.age_ns));
    let until = timestamp(row.began_ns.saturating_add(row.age_ns));
    let mut connection = Connection {
        id: ConnectionId {
            netns: NetnsCookie(netns.cookie.cast_unsigned()),
            token,
            birth: SocketCookie(row.birth.cast_unsigned()),
        },
        token: token.known(),
        remote_token: maybe(row.remote_token, |token| {
            Ok(Token(u32::from_le_bytes(small::<i32>(token)?.to_le_bytes())))
        })?,
        netns: netns.name.clone(),
        netns_inode: netns.inode,
        role: maybe(row.role, |role| dictionary.word(role))?,
        local: end(row.local_ip, row.local_port)?.or(parts.first().map(|first| first.local)),
        remote: end(row.remote_ip, row.remote_port)?.or(parts.first().map(|first| first.remote)),
        process: process(row, dictionary)?,
        cgroup: maybe(row.cgroup, |cgroup| dictionary.text(cgroup).map(str::to_owned))?,
        opened_at: (row.flags & SEEN_OPEN != 0).then(|| timestamp(row.began_ns)),
        seen_open: row.flags & SEEN_OPEN != 0,
        age_s: age.seconds(),
        state: dictionary.word(row.state)?,
        closed_at: (row.flags & CLOSED != 0).then_some(until),
        protocol: dictionary.word(row.protocol)?,
        fallback: maybe(row.fallback, |reason| Ok(Fallback { reason: dictionary.word(reason)? }))?,
        bytes_sent: bytes(row.bytes_sent),
        bytes_acked: bytes(row.bytes_acked),
        bytes_received: bytes(row.bytes_received),
        bytes_retransmitted: parts.iter().map(|subflow| subflow.bytes_retransmitted).sum(),
        bytes_reinjected: bytes(row.bytes_reinjected),
        mptcp_bytes_retransmitted: bytes(row.mptcp_bytes_retransmitted),
        send: BitsPerSecond(counter(row.send_bps)),
        receive: BitsPerSecond(counter(row.receive_bps)),
        flow_class: dictionary.word(row.flow_class)?,
        cpu: parts.iter().map(|subflow| subflow.cpu).reduce(|a, b| Some(a? + b?)).flatten(),
        energy: None,
        excess_ratio: row.excess_ratio,
        jain_index: row.jain_index,
        second_path: row.second_path_after_us.map(|after| SecondPath {
            after: Micros(counter(after)),
            after_bytes: bytes(row.second_path_after_bytes),
            effective_after_bytes: bytes(row.second_path_effective_after_bytes),
        }),
        bottlenecks: bottlenecks(row, &parts)?,
        extra_subflows: maybe(row.extra_subflows, small)?,
        subflows: parts,
        timeline: Vec::new(),
    };
    settle(&mut connection);
    connection.timeline = timeline_of(&connection, row, subflows, events, dictionary)?;
    Ok(connection)
}

fn process(row: &ConnectionRow, dictionary: &Dictionary) -> Outcome<Option<Process>> {
    let Some((pid, comm)) = row.pid.zip(row.comm) else { return Ok(None) };
    Ok(Some(Process { pid: small(pid)?, comm: dictionary.name(comm)? }))
}

fn bottlenecks(row: &ConnectionRow, subflows: &[Subflow]) -> Outcome<Option<Bottlenecks>> {
    let ids: Vec<SubflowId> = subflows.iter().map(|subflow| subflow.id).collect();
    let read = |text| verdicts::read(text, &ids).ok_or_else(|| damaged("bottlenecks", row.id));
    row.bottlenecks.as_deref().map(read).transpose()
}

/// Shares and energies, which follow from the subflows and the payload.
fn settle(connection: &mut Connection) {
    let unique: Bytes = connection.subflows.iter().map(Subflow::unique_sent).sum();
    for subflow in &mut connection.subflows {
        subflow.share_sent = (unique.0 > 0).then(|| subflow.unique_sent().0 as f64 / unique.0 as f64);
    }
    let payload = connection.bytes_sent.unwrap_or(unique) + connection.bytes_received.unwrap_or_default();
    let known: Vec<&FlowEnergy> =
        connection.subflows.iter().filter_map(|subflow| subflow.energy.as_ref()).collect();
    connection.energy = (!known.is_empty()).then(|| FlowEnergy::sum(known).over(payload));
}

fn subflow(row: &SubflowRow, began_ns: i64, dictionary: &Dictionary) -> Outcome<Subflow> {
    let at = |after: Option<i64>| after.map(|after| timestamp(began_ns.saturating_add(after)));
    let micros = |time: Option<i64>| time.map(|time| Micros(counter(time)));
    let bytes = |count: i64| Bytes(counter(count));
    let closed = at(row.closed_after_ns).zip(row.close_reason);
    Ok(Subflow {
        id: id_of(row)?,
        local: dictionary.address(row.local_ip, row.local_port)?,
        remote: dictionary.address(row.remote_ip, row.remote_port)?,
        local_id: small(row.local_id)?,
        remote_id: small(row.remote_id)?,
        interface: maybe(row.interface, |name| dictionary.name(name))?,
        initial: row.flags & INITIAL != 0,
        backup: row.flags & BACKUP != 0,
        stale: row.flags & STALE != 0,
        state: dictionary.word(row.state)?,
        created_at: at(row.created_after_ns),
        handshake: micros(row.handshake_us),
        joined_after: micros(row.joined_after_us),
        joined_after_bytes: row.joined_after_bytes.map(bytes),
        bytes_sent: bytes(row.bytes_sent),
        bytes_acked: bytes(row.bytes_acked),
        bytes_received: bytes(row.bytes_received),
        bytes_retransmitted: bytes(row.bytes_retransmitted),
        segments_retransmitted: small(row.segments_retransmitted)?,
        retransmits: retransmits(row)?,
        rtt: micros(row.rtt_us),
        srtt: micros(row.srtt_us),
        rttvar: micros(row.rttvar_us),
        rtt_min: micros(row.rtt_min_us),
        rtt_p50: micros(row.rtt_p50_us),
        rtt_p99: micros(row.rtt_p99_us),
        rtt_samples: counter(row.rtt_samples),
        cwnd_segments: small(row.cwnd_segments)?,
        delivery: row.delivery_bps.map(|rate| BitsPerSecond(counter(rate))),
        lost_segments: small(row.lost_segments)?,
        timeouts: maybe(row.timeouts, small)?,
        send: BitsPerSecond(counter(row.send_bps)),
        receive: BitsPerSecond(counter(row.receive_bps)),
        share_sent: None,
        wire_bytes_sent_estimate: bytes(row.wire_bytes_sent_estimate),
        wire_bytes_received_estimate: bytes(row.wire_bytes_received_estimate),
        scheduler: row.scheduler_considered.zip(row.scheduler_picked).map(|(considered, picked)| Scheduler {
            considered: counter(considered),
            picked: counter(picked),
        }),
        cpu: cpu(row),
        energy: energy(row, dictionary)?,
        closed: closed.map(|(at, reason)| Ok(Closed { at, reason: dictionary.word(reason)? })).transpose()?,
    })
}

fn id_of(row: &SubflowRow) -> Outcome<SubflowId> {
    Ok(SubflowId { cookie: SocketCookie(row.cookie.cast_unsigned()), generation: small(row.generation)? })
}

fn retransmits(row: &SubflowRow) -> Outcome<Option<Retransmits>> {
    let (Some(fast), Some(timeout), Some(probe)) =
        (row.retransmits_fast, row.retransmits_timeout, row.retransmits_probe)
    else {
        return Ok(None);
    };
    Ok(Some(Retransmits { fast: small(fast)?, timeout: small(timeout)?, probe: small(probe)? }))
}

fn cpu(row: &SubflowRow) -> Option<CpuTimes> {
    let nanos = |time: i64| Nanos(counter(time));
    Some(CpuTimes {
        syscall: row.cpu_syscall_ns.map(nanos),
        rx_softirq: nanos(row.cpu_rx_softirq_ns?),
        tx: nanos(row.cpu_tx_ns?),
        timer: nanos(row.cpu_timer_ns?),
        worker: nanos(row.cpu_worker_ns?),
    })
}

fn energy(row: &SubflowRow, dictionary: &Dictionary) -> Outcome<Option<FlowEnergy>> {
    let (Some(source), Some(convention), Some(idle)) =
        (row.energy_source, row.energy_convention, row.energy_idle)
    else {
        return Ok(None);
    };
    let joules = |energy: Option<i64>| energy.map(|energy| Microjoules(counter(energy)));
    let energy = FlowEnergy {
        active: joules(row.active_uj),
        lo: joules(row.lo_uj),
        hi: joules(row.hi_uj),
        full: joules(row.full_uj),
        j_per_gb: None,
        cpu: Nanos(counter(row.energy_cpu_ns.unwrap_or_default())),
        source: dictionary.word(source)?,
        convention: dictionary.word(convention)?,
        idle: dictionary.word(idle)?,
    };
    let payload = Bytes(counter(row.bytes_sent)) + Bytes(counter(row.bytes_received));
    Ok(Some(energy.over(payload)))
}

fn timeline_of(
    connection: &Connection,
    row: &ConnectionRow,
    subflows: &[SubflowRow],
    events: &[EventRow],
    dictionary: &Dictionary,
) -> Outcome<Vec<TimelineEntry>> {
    let apart = events.iter().map(|event| entry(event, row.began_ns, dictionary));
    let mut entries = apart.collect::<Outcome<Vec<_>>>()?;
    let of_subflow: HashMap<SubflowId, ToldOfSubflow> = connection
        .subflows
        .iter()
        .zip(subflows)
        .map(|(subflow, row_of_it)| {
            let established =
                row_of_it.established_after_ns.map(|after| timestamp(row.began_ns.saturating_add(after)));
            (subflow.id, ToldOfSubflow { flags: row_of_it.flags & (TOLD_SYN | TOLD_END), established })
        })
        .collect();
    let implied = timeline::implied(connection, row.flags & (TOLD_OPENING | TOLD_CLOSING), |id| {
        of_subflow.get(&id).copied().unwrap_or_default()
    });
    if !implied.is_empty() {
        entries.extend(implied);
        timeline::in_order(&mut entries);
    }
    Ok(entries)
}

fn entry(row: &EventRow, began_ns: i64, dictionary: &Dictionary) -> Outcome<TimelineEntry> {
    Ok(TimelineEntry {
        at: timestamp(began_ns.saturating_add(row.after_ns)),
        source: match dictionary.text(row.source)? {
            "tracepoint" => mpwatch_model::timeline::Source::Tracepoint,
            _ => mpwatch_model::timeline::Source::Sampled,
        },
        what: what(row, dictionary)?,
    })
}

fn what(row: &EventRow, dictionary: &Dictionary) -> Outcome<What> {
    let kind = dictionary.text(row.kind)?;
    let number = || row.number.ok_or_else(|| damaged("an event without number", kind));
    let word = || row.word.ok_or_else(|| damaged("an event without reason", kind));
    let subflow = || {
        let text = row.subflow.as_deref().unwrap_or_default();
        text.parse::<SubflowId>().map_err(|_| damaged("the subflow of an event", text))
    };
    let address = || row.address.as_deref().map(|text| text.parse().map_err(|_| damaged("an address", text)));
    Ok(match kind {
        "opened" => What::Opened,
        "adopted" => What::Adopted,
        "closed" => What::Closed,
        "subflow_opened" => What::SubflowOpened { subflow: subflow()? },
        "subflow_established" => What::SubflowEstablished { subflow: subflow()? },
        "subflow_closed" => What::SubflowClosed { subflow: subflow()?, reason: dictionary.word(word()?)? },
        "subflow_stale" => What::SubflowStale { subflow: subflow()?, stale: number()? != 0 },
        "priority_changed" => What::PriorityChanged { subflow: subflow()?, backup: number()? != 0 },
        "address_announced" => What::AddressAnnounced { total: small(number()?)? },
        "peer_address_announced" => {
            What::PeerAddressAnnounced { address_id: small(number()?)?, address: address().transpose()? }
        }
        "peer_address_removed" => What::PeerAddressRemoved { address_id: small(number()?)? },
        "stalled" => What::Stalled { gap: Micros(counter(number()?)) },
        "fell_back" => What::FellBack { reason: dictionary.word(word()?)? },
        other => return Err(damaged("the kind of an event", other)),
    })
}
