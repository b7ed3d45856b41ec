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
use mpwatch_model::timeline::{TimelineEntry, TimelineEvent};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros, Nanos};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::row::{
    BACKUP, CLOSED, ConnectionKind, ConnectionRow, EndsRow, EventRow, INITIAL, SEEN_OPEN, STALE, SubflowKind,
    SubflowRow, TOLD_CLOSING, TOLD_END, TOLD_OPENING, TOLD_SYN, VerdictRow, counter, number,
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
    pub(super) connections: HashMap<i64, ConnectionKind>,
    pub(super) subflows: HashMap<i64, SubflowKind>,
    /// By the number of the connection.
    pub(super) ends: HashMap<i64, EndsRow>,
}

/// Everything that is stored of a connection, but for its samples.
pub(super) struct Stored {
    pub(super) row: ConnectionRow,
    pub(super) subflows: Vec<SubflowRow>,
    pub(super) verdicts: Vec<VerdictRow>,
    pub(super) events: Vec<EventRow>,
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

    fn of_connection(&self, number: i64) -> Outcome<&ConnectionKind> {
        self.connections.get(&number).ok_or_else(|| damaged("the kind of a connection", number))
    }

    fn of_subflow(&self, number: i64) -> Outcome<&SubflowKind> {
        self.subflows.get(&number).ok_or_else(|| damaged("the kind of a subflow", number))
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
pub(super) fn connection(stored: &Stored, dictionary: &Dictionary) -> Outcome<Connection> {
    let row = &stored.row;
    let kind = dictionary.of_connection(row.kind)?;
    let bytes = |count: Option<i64>| count.map(|count| Bytes(counter(count)));
    let netns = dictionary.netns.get(&kind.netns).ok_or_else(|| damaged("a namespace", kind.netns))?;
    let token = Token(u32::from_le_bytes(small::<i32>(row.token)?.to_le_bytes()));
    let parts: Vec<Subflow> =
        stored.subflows.iter().map(|one| subflow(one, row, dictionary)).collect::<Outcome<_>>()?;
    let (local, remote) = ends(row.id, parts.first(), dictionary)?;
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
        role: maybe(kind.role, |role| dictionary.word(role))?,
        local,
        remote,
        process: process(row.pid, kind.comm, dictionary)?,
        cgroup: maybe(kind.cgroup, |cgroup| dictionary.text(cgroup).map(str::to_owned))?,
        opened_at: (row.flags & SEEN_OPEN != 0).then(|| timestamp(row.began_ns)),
        seen_open: row.flags & SEEN_OPEN != 0,
        age_s: age.seconds(),
        state: dictionary.word(kind.state)?,
        closed_at: (row.flags & CLOSED != 0).then_some(until),
        protocol: dictionary.word(kind.protocol)?,
        fallback: maybe(kind.fallback, |reason| Ok(Fallback { reason: dictionary.word(reason)? }))?,
        bytes_sent: bytes(row.bytes_sent),
        bytes_acked: bytes(row.acked_less.map(|less| row.bytes_sent.unwrap_or_default() - less)),
        bytes_received: bytes(row.bytes_received),
        bytes_retransmitted: parts.iter().map(|subflow| subflow.bytes_retransmitted).sum(),
        bytes_reinjected: bytes(row.bytes_reinjected),
        mptcp_bytes_retransmitted: bytes(row.mptcp_bytes_retransmitted),
        send: BitsPerSecond(counter(row.send_bps)),
        receive: BitsPerSecond(counter(row.receive_bps)),
        flow_class: dictionary.word(kind.flow_class)?,
        cpu: parts.iter().map(|subflow| subflow.cpu).reduce(|a, b| Some(a? + b?)).flatten(),
        energy: None,
        jain_index: row.jain_millionths.map(|millionths| millionths as f64 / 1e6),
        second_path: second_path(row, parts.get(1)),
        bottlenecks: bottlenecks(stored, kind, &parts, dictionary)?,
        extra_subflows: maybe(kind.extra_subflows, small)?,
        subflows: parts,
        timeline: Vec::new(),
    };
    settle(&mut connection);
    connection.timeline = timeline_of(&connection, stored, dictionary)?;
    Ok(connection)
}

type Ends = (Option<SocketAddr>, Option<SocketAddr>);

fn ends(connection: i64, first: Option<&Subflow>, dictionary: &Dictionary) -> Outcome<Ends> {
    let apart = dictionary.ends.get(&connection);
    let end = |ip: Option<i64>, port: Option<i64>| {
        ip.zip(port).map(|(ip, port)| dictionary.address(ip, port)).transpose()
    };
    let local = apart.map(|ends| end(ends.local_ip, ends.local_port)).transpose()?.flatten();
    let remote = apart.map(|ends| end(ends.remote_ip, ends.remote_port)).transpose()?.flatten();
    Ok((local.or(first.map(|first| first.local)), remote.or(first.map(|first| first.remote))))
}

fn second_path(row: &ConnectionRow, second: Option<&Subflow>) -> Option<SecondPath> {
    let joined = second.and_then(|subflow| subflow.joined_after).unwrap_or_default();
    let joined_bytes = second.and_then(|subflow| subflow.joined_after_bytes).unwrap_or_default();
    let more = |more: i64, than: u64| counter(more.saturating_add(number(than)));
    Some(SecondPath {
        after: Micros(more(row.second_path_more_us?, joined.0)),
        after_bytes: row.second_path_more_bytes.map(|bytes| Bytes(more(bytes, joined_bytes.0))),
        effective_after_bytes: row.second_path_effective_after_bytes.map(|bytes| Bytes(counter(bytes))),
    })
}

fn process(pid: Option<i64>, comm: Option<i64>, dictionary: &Dictionary) -> Outcome<Option<Process>> {
    let Some((pid, comm)) = pid.zip(comm) else { return Ok(None) };
    Ok(Some(Process { pid: small(pid)?, comm: dictionary.name(comm)? }))
}

fn bottlenecks(
    stored: &Stored,
    kind: &ConnectionKind,
    subflows: &[Subflow],
    dictionary: &Dictionary,
) -> Outcome<Option<Bottlenecks>> {
    let Some(grouped) = kind.grouped else { return Ok(None) };
    let ids: Vec<SubflowId> = subflows.iter().map(|subflow| subflow.id).collect();
    let found = verdicts::read(dictionary.text(grouped)?, &stored.verdicts, &ids);
    found.map(Some).ok_or_else(|| damaged("bottlenecks", stored.row.id))
}

/// Shares, excess and energies, which follow from the subflows and the payload.
fn settle(connection: &mut Connection) {
    let unique: Bytes = connection.subflows.iter().map(Subflow::unique_sent).sum();
    for subflow in &mut connection.subflows {
        subflow.share_sent = (unique.0 > 0).then(|| subflow.unique_sent().0 as f64 / unique.0 as f64);
    }
    let payload = connection.payload();
    let known: Vec<&FlowEnergy> =
        connection.subflows.iter().filter_map(|subflow| subflow.energy.as_ref()).collect();
    connection.energy = (!known.is_empty()).then(|| FlowEnergy::sum(known).over(payload));
}

fn subflow(row: &SubflowRow, of: &ConnectionRow, dictionary: &Dictionary) -> Outcome<Subflow> {
    let kind = dictionary.of_subflow(row.kind)?;
    let at = |after: i64| timestamp(of.began_ns.saturating_add(after));
    let micros = |time: Option<i64>| time.map(|time| Micros(counter(time)));
    let more = |time: Option<i64>, than: i64| time.map(|time| Micros(counter(time.saturating_add(than))));
    let bytes = |count: i64| Bytes(counter(count));
    let smoothed = row.srtt_us.unwrap_or_default();
    let closed = row.closed_less_ns.map(|less| at(of.age_ns.saturating_sub(less))).zip(kind.close_reason);
    let handshake = row.created_after_ns.and(row.established_ns).unwrap_or_default() / 1_000;
    let ports = u32::from_le_bytes(small::<i32>(row.ports)?.to_le_bytes());
    Ok(Subflow {
        id: id_of(row, kind, of)?,
        local: dictionary.address(kind.local_ip, (ports >> 16).into())?,
        remote: dictionary.address(row.remote_ip, (ports & 0xffff).into())?,
        local_id: small(kind.local_id)?,
        remote_id: small(kind.remote_id)?,
        interface: maybe(kind.interface, |name| dictionary.name(name))?,
        initial: kind.flags & INITIAL != 0,
        backup: kind.flags & BACKUP != 0,
        stale: kind.flags & STALE != 0,
        state: dictionary.word(kind.state)?,
        created_at: row.created_after_ns.map(at),
        handshake: more(row.handshake_more_us, handshake),
        joined_after: more(row.joined_more_us, established_after(row).unwrap_or_default() / 1_000),
        joined_after_bytes: row.joined_after_bytes.map(bytes),
        bytes_sent: bytes(row.bytes_sent),
        bytes_acked: bytes(row.bytes_sent - row.bytes_retransmitted - row.acked_less),
        bytes_received: bytes(row.bytes_received),
        bytes_retransmitted: bytes(row.bytes_retransmitted),
        segments_retransmitted: small(row.segments_retransmitted)?,
        retransmits: retransmits(row)?,
        rtt: more(row.rtt_more_us, smoothed),
        srtt: micros(row.srtt_us),
        rttvar: micros(row.rttvar_us),
        rtt_min: row.rtt_min_less_us.map(|less| Micros(counter(smoothed.saturating_sub(less)))),
        rtt_p50: more(row.rtt_p50_more_us, smoothed),
        rtt_p99: more(row.rtt_p99_more_us, smoothed),
        rtt_samples: counter(row.rtt_samples),
        cwnd_segments: small(row.cwnd_segments)?,
        delivery: row.delivery_bps.map(|rate| BitsPerSecond(counter(rate))),
        lost_segments: small(row.lost_more.saturating_add(row.segments_retransmitted))?,
        timeouts: maybe(row.timeouts, small)?,
        send: BitsPerSecond(counter(row.send_bps)),
        receive: BitsPerSecond(counter(row.receive_bps)),
        share_sent: None,
        wire_bytes_sent_estimate: bytes(row.bytes_sent.saturating_add(row.wire_sent_more)),
        wire_bytes_received_estimate: bytes(row.bytes_received.saturating_add(row.wire_received_more)),
        scheduler: row.scheduler_considered.zip(row.picked_less).map(|(considered, less)| Scheduler {
            considered: counter(considered),
            picked: counter(considered.saturating_sub(less)),
        }),
        cpu: cpu(row),
        energy: energy(row, kind, dictionary)?,
        closed: closed.map(|(at, reason)| Ok(Closed { at, reason: dictionary.word(reason)? })).transpose()?,
        tcp: None,
    })
}

/// After the beginning of the connection.
fn established_after(row: &SubflowRow) -> Option<i64> {
    row.established_ns.map(|time| time.saturating_add(row.created_after_ns.unwrap_or_default()))
}

fn id_of(row: &SubflowRow, kind: &SubflowKind, of: &ConnectionRow) -> Outcome<SubflowId> {
    let cookie = SocketCookie(of.birth.wrapping_add(row.cookie_more).cast_unsigned());
    Ok(SubflowId { cookie, generation: small(kind.generation)? })
}

fn retransmits(row: &SubflowRow) -> Outcome<Option<Retransmits>> {
    let (Some(less), Some(timeout), Some(probe)) =
        (row.fast_less, row.retransmits_timeout, row.retransmits_probe)
    else {
        return Ok(None);
    };
    let fast = small(row.segments_retransmitted.saturating_sub(less))?;
    Ok(Some(Retransmits { fast, timeout: small(timeout)?, probe: small(probe)? }))
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

fn energy(row: &SubflowRow, kind: &SubflowKind, dictionary: &Dictionary) -> Outcome<Option<FlowEnergy>> {
    let (Some(source), Some(convention), Some(idle)) =
        (kind.energy_source, kind.energy_convention, kind.energy_idle)
    else {
        return Ok(None);
    };
    let joules = |energy: i64| Microjoules(counter(energy));
    let active = row.active_uj.unwrap_or_default();
    let cpu_ns = cpu(row).map_or(0, |cpu| number(cpu.total().0));
    let energy = FlowEnergy {
        active: row.active_uj.map(joules),
        lo: row.lo_less_uj.map(|less| joules(active.saturating_sub(less))),
        hi: row.hi_more_uj.map(|more| joules(active.saturating_add(more))),
        full: row.full_more_uj.map(|more| joules(active.saturating_add(more))),
        j_per_gb: None,
        cpu: Nanos(counter(cpu_ns.saturating_add(row.energy_cpu_more_ns.unwrap_or_default()))),
        source: dictionary.word(source)?,
        convention: dictionary.word(convention)?,
        idle: dictionary.word(idle)?,
    };
    let payload = Bytes(counter(row.bytes_sent)) + Bytes(counter(row.bytes_received));
    Ok(Some(energy.over(payload)))
}

fn timeline_of(
    connection: &Connection,
    stored: &Stored,
    dictionary: &Dictionary,
) -> Outcome<Vec<TimelineEntry>> {
    let row = &stored.row;
    let apart = stored.events.iter().map(|event| entry(event, row.began_ns, dictionary));
    let mut entries = apart.collect::<Outcome<Vec<_>>>()?;
    let mut of_subflow = HashMap::new();
    for (subflow, row_of_it) in connection.subflows.iter().zip(&stored.subflows) {
        let established =
            established_after(row_of_it).map(|after| timestamp(row.began_ns.saturating_add(after)));
        let flags = dictionary.of_subflow(row_of_it.kind)?.flags & (TOLD_SYN | TOLD_END);
        of_subflow.insert(subflow.id, ToldOfSubflow { flags, established });
    }
    let told = |id| of_subflow.get(&id).copied().unwrap_or_default();
    let implied = timeline::implied(connection, row.flags & (TOLD_OPENING | TOLD_CLOSING), told);
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
            "tracepoint" => mpwatch_model::timeline::ObservedBy::Tracepoint,
            _ => mpwatch_model::timeline::ObservedBy::Sampled,
        },
        event: what(row, dictionary)?,
    })
}

fn what(row: &EventRow, dictionary: &Dictionary) -> Outcome<TimelineEvent> {
    let kind = dictionary.text(row.kind)?;
    let number = || row.number.ok_or_else(|| damaged("an event without number", kind));
    let word = || row.word.ok_or_else(|| damaged("an event without reason", kind));
    let subflow = || {
        let text = row.subflow.as_deref().unwrap_or_default();
        text.parse::<SubflowId>().map_err(|_| damaged("the subflow of an event", text))
    };
    let address = || row.address.as_deref().map(|text| text.parse().map_err(|_| damaged("an address", text)));
    Ok(match kind {
        "opened" => TimelineEvent::Opened,
        "adopted" => TimelineEvent::Adopted,
        "closed" => TimelineEvent::Closed,
        "subflow_opened" => TimelineEvent::SubflowOpened { subflow: subflow()? },
        "subflow_established" => TimelineEvent::SubflowEstablished { subflow: subflow()? },
        "subflow_closed" => {
            TimelineEvent::SubflowClosed { subflow: subflow()?, reason: dictionary.word(word()?)? }
        }
        "subflow_stale" => TimelineEvent::SubflowStale { subflow: subflow()?, stale: number()? != 0 },
        "priority_changed" => TimelineEvent::PriorityChanged { subflow: subflow()?, backup: number()? != 0 },
        "address_announced" => TimelineEvent::AddressAnnounced { total: small(number()?)? },
        "peer_address_announced" => TimelineEvent::PeerAddressAnnounced {
            address_id: small(number()?)?,
            address: address().transpose()?,
        },
        "peer_address_removed" => TimelineEvent::PeerAddressRemoved { address_id: small(number()?)? },
        "stalled" => TimelineEvent::Stalled { gap: Micros(counter(number()?)) },
        "fell_back" => TimelineEvent::FellBack { reason: dictionary.word(word()?)? },
        other => return Err(damaged("the kind of an event", other)),
    })
}
