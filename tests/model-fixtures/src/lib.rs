// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample values for tests of outputs and for the examples in docs/. No program depends on this crate.

pub mod bottleneck;
pub mod delay_samples;
pub mod elimination;
pub mod formula;
mod parts;
pub mod simulator;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;

pub use parts::{cause, pod};

use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::connection::{Connection, Fallback, SecondPath};
use mpwatch_model::flow::idle::{IdleConnection, IdleConnections};
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::{Closed, Retransmits, Scheduler, Subflow};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::host::energy::{
    Convention, EnergySource, FlowEnergy, IdleSource, SnapshotEnergy, ZoneEnergy,
};
use mpwatch_model::host::machine::{Host, KernelCounters, Losses, MissingHook, Overhead};
use mpwatch_model::host::setup::Setup;
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};
use mpwatch_model::kernel::busy::BusyTimes;
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuTimes};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::event::Process;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason, Protocol, Role, TcpState};
use mpwatch_model::settle::settled;
use mpwatch_model::snapshot::{Report, Run, SCHEMA, Snapshot};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Microjoules, Micros, Nanos};

/// When the sample connections open: 2026-03-01T12:00:00Z.
const OPENING: i64 = 1_772_366_400_000_000;

/// A time, in microseconds after the opening.
pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(OPENING + micros).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn name(text: &str) -> Name {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(text.bytes().take(15)).for_each(|(slot, byte)| *slot = byte);
    Name::from_kernel(bytes)
}

/// The machine.
pub fn host() -> Host {
    Host {
        name: "db1".to_owned(),
        kernel: "6.12.30-amd64".to_owned(),
        boot_id: "7f0c2b4e-52a1-4b57-9d8e-1c66a9f0d3aa".to_owned(),
        mpwatch: "0.1.0".to_owned(),
        clock_error: Some(Nanos(1_500_000)),
        missing: Vec::new(),
    }
}

/// Labels and settings of the run.
pub fn setup() -> Setup {
    let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Setup {
        labels: map(&[("repetition", "3"), ("scheduler", "default")]),
        interval_ms: Some(1_000),
        cpu_model: Some("Example CPU 8000".to_owned()),
        governor: Some("performance".to_owned()),
        mptcp_sysctls: map(&[("checksum_enabled", "0"), ("pm_type", "0"), ("scheduler", "default")]),
    }
}

/// A subflow by its number in the connection: the first over eth1, the second over eth2, and so on, all open and healthy.
pub fn subflow(token: u32, place: u8) -> Subflow {
    let nth = u64::from(place);
    Subflow {
        id: SubflowId { cookie: SocketCookie(u64::from(token & 0xfff) * 16 + nth), generation: 0 },
        place: place.into(),
        local: SocketAddr::from(([10, 0, place, 1], 43_210 + u16::from(place))),
        remote: SocketAddr::from(([10, 0, place, 2], 5201)),
        local_id: place - 1,
        remote_id: place - 1,
        interface: Some(name(&format!("eth{place}"))),
        incoming_interface: Some(name(&format!("eth{place}"))),
        congestion_control: Some(name("cubic")),
        initial: place == 1,
        backup: false,
        progress: Progress::Working,
        progress_since: None,
        path_failures: 0,
        state: TcpState::Established,
        created_at: Some(at(if place == 1 { 0 } else { 20_000 * i64::from(place) })),
        handshake: Some(Micros(20_150 * nth)),
        joined_after: (place > 1).then_some(Micros(40_300 * nth)),
        joined_after_bytes: (place > 1).then_some(Bytes(61_440 * nth)),
        bytes_sent: Bytes(80_250_000 / nth),
        bytes_acked: Bytes(80_000_001 / nth),
        bytes_received: Bytes(1_200 / nth),
        bytes_retransmitted: Bytes(250_000 / nth),
        bytes_refused: Bytes(0),
        segments_retransmitted: 178 / u32::from(place),
        retransmits: Some(Retransmits { fast: 170 / u32::from(place), timeout: 2, probe: 1 }),
        rtt: Some(Micros(21_300 * nth)),
        srtt: Some(Micros(20_800 * nth)),
        rttvar: Some(Micros(850 * nth)),
        rtt_min: Some(Micros(20_040 * nth)),
        rtt_p50: Some(Micros(20_600 * nth)),
        rtt_p99: Some(Micros(34_900 * nth)),
        rtt_samples: 41_000 / nth,
        cwnd_segments: 132 / u32::from(place),
        delivery: Some(BitsPerSecond(62_400_000 / nth)),
        lost_segments: 180 / u32::from(place),
        timeouts: Some(2),
        send: Some(BitsPerSecond(61_000_000 / nth)),
        receive: Some(BitsPerSecond(1_100 / nth)),
        observed: Observed {
            bytes: Bytes(80_001_200 / nth),
            bytes_sent: Bytes(80_000_000 / nth),
            duration: Nanos(12_479_850_000),
            active: Nanos(10_000_000_000),
            wire_bytes_estimate: Bytes(87_350_000 / nth),
        },
        busy: Some(busy(nth)),
        share_sent: None,
        wire_bytes_sent_estimate: Bytes(85_300_000 / nth),
        wire_bytes_received_estimate: Bytes(2_050_000 / nth),
        scheduler: Some(Scheduler { considered: 71_000 / nth, picked: 52_000 / nth }),
        cpu: Some(CpuTimes::from_classes(
            [912_000_000 / nth, 388_000_000 / nth, 1_900_000, 240_000, 610_000],
            true,
        )),
        energy: Some(energy(nth)),
        closed: None,
    }
}

/// Busy times of the `nth` subflow.
fn busy(nth: u64) -> BusyTimes {
    BusyTimes {
        total: Nanos(11_000_000_000 / nth),
        receive_window: Nanos(1_500_000_000 / nth),
        send_buffer: Nanos(240_000_000),
    }
}

/// Energy of the `nth` subflow.
fn energy(nth: u64) -> FlowEnergy {
    FlowEnergy {
        active: Some(Microjoules(6_240_000 / nth)),
        lo: Some(Microjoules(4_980_000 / nth)),
        hi: Some(Microjoules(7_710_000 / nth)),
        full: Some(Microjoules(9_150_000 / nth)),
        j_per_gb: None,
        cpu: Nanos(1_300_000_000 / nth + 2_750_000),
        source: EnergySource::RaplPerf,
        convention: Convention::CpuTime,
        idle: IdleSource::Calibrated,
    }
    .over(Bytes(80_001_200 / nth))
}

/// A client's connection with this many healthy subflows, open for 12.5 s.
pub fn connection(token: u32, subflows: u8) -> Connection {
    let mut connection = Connection {
        id: ConnectionId {
            netns: NetnsCookie(0x1001),
            token: Token(token),
            birth: SocketCookie(u64::from(token & 0xfff)),
        },
        token: Some(Token(token)),
        remote_token: Some(Token(token.rotate_left(16))),
        netns: "client".to_owned(),
        netns_inode: 4_026_532_180,
        role: Some(Role::Client),
        local: None,
        remote: None,
        process: Some(Process { pid: 1234, comm: name("iperf3") }),
        cgroup: Some("/user.slice".to_owned()),
        pod: Some(pod()),
        opened_at: Some(at(0)),
        seen_open: true,
        age_s: 12.5,
        state: TcpState::Established,
        closed_at: None,
        protocol: Protocol::Mptcp,
        fallback: None,
        cause: None,
        bytes_sent: None,
        bytes_acked: None,
        bytes_received: None,
        bytes_retransmitted: Bytes(0),
        bytes_reinjected: Some(Bytes(0)),
        mptcp_bytes_retransmitted: Some(Bytes(0)),
        send: None,
        receive: None,
        observed: None,
        partly_observed: false,
        flow_class: FlowClass::Query,
        outage_since: None,
        dropped_subflows: None,
        busy: None,
        cpu: None,
        energy: None,
        jain_index: (subflows > 1).then_some(0.9),
        second_path: (subflows > 1).then_some(SecondPath {
            after: Micros(80_600),
            after_bytes: Some(Bytes(122_880)),
            effective_after_bytes: Some(Bytes(984_000)),
        }),
        bottlenecks: None,
        extra_subflows: None,
        subflows: (1..=subflows).map(|place| subflow(token, place)).collect(),
        timeline: Vec::new(),
    };
    if subflows > 1 {
        let found = bottleneck::disjoint(&connection.subflows);
        connection.extra_subflows = found.extra_subflows();
        connection.bottlenecks = Some(found);
    }
    settle(&mut connection);
    connection.timeline = timeline(&connection);
    connection
}

/// Computes a connection's totals, shares and other derived values from its subflows.
pub fn settle(connection: &mut Connection) {
    let subflows = &mut connection.subflows;
    let unique: Bytes = subflows.iter().map(Subflow::unique_sent).sum();
    let received: Bytes = subflows.iter().map(|s| s.bytes_received).sum();
    let sent = unique.since(connection.bytes_reinjected.unwrap_or_default());
    (connection.bytes_sent, connection.bytes_acked) = (Some(sent), Some(sent));
    connection.bytes_received = Some(received);
    connection.send = subflows.iter().filter_map(|s| s.send).reduce(|a, b| a + b);
    connection.receive = subflows.iter().filter_map(|s| s.receive).reduce(|a, b| a + b);
    let (duration, active) = (Nanos(12_500_000_000), Nanos(10_000_000_000));
    let wire_bytes_estimate =
        subflows.iter().map(|s| s.wire_bytes_sent_estimate + s.wire_bytes_received_estimate).sum();
    let bytes = sent + received;
    connection.observed = Some(Observed { bytes, bytes_sent: sent, duration, active, wire_bytes_estimate });
    connection.flow_class = FlowClass::from_payload(sent, received);
    connection.local = subflows.first().map(|s| s.local);
    connection.remote = subflows.first().map(|s| s.remote);
    *connection = settled(connection.clone());
}

fn entry(micros: i64, source: ObservedBy, what: TimelineEvent) -> TimelineEntry {
    TimelineEntry { at: at(micros), source, event: what }
}

fn timeline(connection: &Connection) -> Vec<TimelineEntry> {
    let mut entries = vec![entry(0, ObservedBy::Tracepoint, TimelineEvent::Opened)];
    for (subflow, place) in connection.subflows.iter().zip(1i64..) {
        let opened = if place == 1 { 0 } else { 20_000 * place };
        let handshake = 20_150 * place;
        entries.push(entry(
            opened,
            ObservedBy::Tracepoint,
            TimelineEvent::SubflowOpened { subflow: subflow.id },
        ));
        entries.push(entry(
            opened + handshake,
            ObservedBy::Tracepoint,
            TimelineEvent::SubflowEstablished { subflow: subflow.id },
        ));
    }
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// A connection that both ends closed after 12 s.
pub fn closed(token: u32) -> Connection {
    let mut connection = connection(token, 2);
    for (subflow, place) in connection.subflows.iter_mut().zip(1..) {
        subflow.state = TcpState::Close;
        (subflow.send, subflow.receive) = (Some(BitsPerSecond(0)), Some(BitsPerSecond(0)));
        subflow.closed = Some(Closed { at: at(11_999_000 + place * 100), reason: CloseReason::Fin });
        let what = TimelineEvent::SubflowClosed { subflow: subflow.id, reason: CloseReason::Fin };
        connection.timeline.push(entry(11_999_000 + place * 100, ObservedBy::Tracepoint, what));
    }
    settle(&mut connection);
    connection.state = TcpState::Close;
    connection.closed_at = Some(at(12_000_000));
    connection.age_s = 12.0;
    connection.observed.iter_mut().for_each(|observed| observed.duration = Nanos(12_000_000_000));
    connection.timeline.push(entry(12_000_000, ObservedBy::Tracepoint, TimelineEvent::Closed));
    connection
}

/// A connection with three subflows: the first ended with a timeout, the path of the second has failed, and the third is a backup.
pub fn failover(token: u32) -> Connection {
    let mut connection = connection(token, 3);
    let first = &mut connection.subflows[0];
    first.state = TcpState::Close;
    (first.send, first.receive) = (Some(BitsPerSecond(0)), Some(BitsPerSecond(0)));
    first.closed = Some(Closed { at: at(9_412_000), reason: CloseReason::Timeout });
    let id = first.id;
    connection.subflows[1].progress = Progress::Failed;
    connection.subflows[1].srtt = None;
    connection.subflows[2].backup = true;
    connection.bytes_reinjected = Some(Bytes(412_160));
    settle(&mut connection);
    let stalled = TimelineEvent::Stalled { gap: Micros(412_300), timeout: None };
    connection.timeline.push(entry(
        3_000_000,
        ObservedBy::Sampled,
        TimelineEvent::PeerAddressAnnounced {
            address_id: 2,
            address: Some(SocketAddr::from(([10, 0, 3, 2], 5201))),
        },
    ));
    connection.timeline.push(entry(5_600_200, ObservedBy::Tracepoint, stalled));
    connection.timeline.push(entry(
        6_000_000,
        ObservedBy::Sampled,
        TimelineEvent::SubflowStale { subflow: id, stale: true, silent: None },
    ));
    let ended = TimelineEvent::SubflowClosed { subflow: id, reason: CloseReason::Timeout };
    connection.timeline.push(entry(9_412_000, ObservedBy::Tracepoint, ended));
    settled(connection)
}

/// A server's connection over IPv6 that is older than mpwatch and whose peer does not support MPTCP.
pub fn fallen_back(token: u32) -> Connection {
    let mut connection = connection(token, 1);
    let subflow = &mut connection.subflows[0];
    subflow.local = SocketAddr::from(([0xfd00, 0, 0, 1, 0, 0, 0, 0x10], 443));
    subflow.remote = SocketAddr::from(([0xfd00, 0, 0, 2, 0xa8bb, 0xccff, 0xfe00, 0x1234], 51_842));
    (subflow.created_at, subflow.handshake, subflow.retransmits) = (None, None, None);
    (subflow.bytes_sent, subflow.bytes_retransmitted, subflow.bytes_received) =
        (Bytes(48_200), Bytes(0), Bytes(3_100));
    (subflow.send, subflow.receive) = (Some(BitsPerSecond(9_600)), Some(BitsPerSecond(800)));
    subflow.scheduler = None;
    connection.role = Some(Role::Server);
    connection.process = Some(Process { pid: 88, comm: name("nginx: worker") });
    (connection.opened_at, connection.seen_open, connection.age_s) = (None, false, 4.0);
    connection.fallback = Some(Fallback { reason: FallbackReason::NoMpCapableInSynAck });
    connection.cause = Some(cause().into());
    connection.bytes_reinjected = None;
    let (bytes, duration, active) = (Bytes(8_000), Nanos(4_000_000_000), Nanos(4_000_000_000));
    let (wire_bytes_estimate, bytes_sent) = (Bytes(9_200), Bytes(7_500));
    let observed = Observed { bytes, bytes_sent, duration, active, wire_bytes_estimate };
    connection.subflows[0].observed = observed;
    // Energy in proportion to the payload.
    let energy = connection.subflows[0].energy.as_mut();
    let parts = energy.map(|e| [&mut e.active, &mut e.lo, &mut e.hi, &mut e.full]);
    parts.into_iter().flatten().flatten().for_each(|part| part.0 /= 10_000);
    settle(&mut connection);
    connection.observed = Some(observed);
    connection.energy = connection.energy.map(|energy| energy.over(bytes));
    connection.timeline = vec![entry(1_500_000, ObservedBy::Sampled, TimelineEvent::Adopted)];
    connection
}

/// A snapshot of the machine with these connections, 1 s after the previous snapshot.
pub fn snapshot(connections: Vec<Connection>) -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        at: at(12_500_000),
        interval_s: Some(1.0),
        host: host(),
        setup: Arc::new(setup()),
        connections,
        counters: KernelCounters {
            records: 7,
            mptcp_mib: [("MPJoinSynTx".to_owned(), 3)].into(),
            ..KernelCounters::default()
        },
        cpus: Some(vec![cpu(0), cpu(1)]),
        energy: Some(zones()),
        losses: Losses::default(),
        overhead: Some(Overhead { ratio: 0.0042, budget: Some(0.01), reductions: 0 }),
        boot_epoch_ns: 0,
        idle: IdleConnections::default(),
    }
}

/// A connection that is idle: only its age grows.
#[derive(Debug)]
struct Idle(Connection);

impl IdleConnection for Idle {
    fn id(&self) -> ConnectionId {
        self.0.id
    }

    fn connection(&self, at: Nanos, boot_epoch_ns: i64) -> Connection {
        let mut connection = self.0.clone();
        if let Some(opened) = connection.opened_at {
            let now = i128::from(at.0) + i128::from(boot_epoch_ns);
            connection.age_s = (now - opened.as_nanosecond()) as f64 / 1e9;
        }
        connection
    }
}

/// The idle connections of a snapshot.
pub fn idle(connections: Vec<Connection>) -> IdleConnections {
    let mut idle = IdleConnections::default();
    for connection in connections {
        idle.insert(Arc::new(Idle(connection)));
    }
    idle
}

/// Energy of a machine with one package after 12.5 s.
fn zones() -> SnapshotEnergy {
    SnapshotEnergy {
        source: EnergySource::RaplPerf,
        convention: Convention::CpuTime,
        idle: IdleSource::Calibrated,
        zones: vec![ZoneEnergy {
            zone: "package-0".to_owned(),
            zone_uj: Microjoules(250_000_000),
            power_uw: Some(20_400_000),
            flows_uj: Microjoules(31_000_000),
            app_uj: Microjoules(24_000_000),
            other_uj: Microjoules(6_100_000),
            net_shared_uj: Microjoules(950_000),
            irq_uj: Microjoules(310_000),
            self_uj: Microjoules(140_000),
            unexplained_uj: Microjoules(0),
            idle_uj: Microjoules(187_500_000),
            ..ZoneEnergy::default()
        }],
        ..SnapshotEnergy::default()
    }
}

/// Accounts of a half busy CPU after 12.5 s.
fn cpu(number: u32) -> CpuAccounts {
    CpuAccounts {
        cpu: number,
        wall: Nanos(12_500_000_000),
        flow: Nanos(3_100_000_000),
        app: Nanos(2_400_000_000),
        other: Nanos(610_000_000),
        net_shared: Nanos(95_000_000),
        irq: Nanos(31_000_000),
        mpwatch: Nanos(14_000_000),
        idle: Nanos(6_250_000_000),
    }
}

/// The report of a run whose last snapshot is [`snapshot`] with these connections.
pub fn report(connections: Vec<Connection>) -> Report {
    let Snapshot { schema, at: to, host, connections, counters, cpus, energy, losses, .. } =
        snapshot(connections);
    Report {
        schema,
        run: Run {
            host,
            setup: Arc::new(setup()),
            from: at(-250_000),
            to,
            since: None,
            until: None,
            cut_short: None,
        },
        connections: Vec::new(),
        flow_classes: Vec::new(),
        counters,
        cpus,
        energy,
        losses,
        filtered_out: 0,
        is_of_namespace: false,
        run_starts: Vec::new(),
    }
    .with(connections)
}

/// Losses of the kinds that occur in practice.
pub fn losses() -> Losses {
    Losses {
        ring_full_recovered: 40,
        records_lost: 3,
        lost_bytes_sent: Bytes(4_096),
        vanished: 1,
        ..Losses::default()
    }
}

/// A hook that an older kernel does not have.
pub fn missing_hook() -> MissingHook {
    MissingHook {
        what: "mptcp_subflow_get_send".to_owned(),
        costs: "what the MPTCP scheduler considered and picked".to_owned(),
        why: "this kernel has no such tracepoint".to_owned(),
    }
}
