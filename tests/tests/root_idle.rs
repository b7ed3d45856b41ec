// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots compare only a fingerprint of idle sockets. Every later change of such a socket is in the next snapshot.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mpwatch_ebpf::namespace;
use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_lab::link::{self, RateLimit};
use mpwatch_lab::topology::{LinkSpec, PathFailure};
use mpwatch_lab::traffic::Workload;
use mpwatch_lab::{Topology, poll_until};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::{KernelEvent, SubflowRecord};
use mpwatch_model::unit::Nanos;
use mpwatch_tests::{emulation, may_run_as_root};
use socket2::{Domain, Protocol, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(30);
/// RTT of a path, longer than the time that the test needs to cut both paths.
const RTT: Duration = Duration::from_millis(400);
const MESSAGE: [u8; 500] = [7; 500];
/// Number of snapshots in which nothing happens.
const MANY: usize = 40;

/// A connection with two subflows, both ends in this process, and its subflows at the client as they were last read.
struct Idle {
    lab: Topology,
    tracer: Tracer,
    client: Socket,
    server: Socket,
    // Joins need the listener.
    _listener: Socket,
    subflows: HashMap<SubflowId, SubflowRecord>,
    /// Subflows that were listed as unchanged.
    listed: HashSet<SubflowId>,
}

impl Idle {
    /// Asserts that a subflow had a stall of at least this length with data in flight.
    #[track_caller]
    fn assert_stalled(&mut self, least: Nanos) {
        // The next segment of the subflow notes the stall. The messages are longer than the congestion window, so they use both subflows.
        let (long, mut read) = (vec![7; 40_000], vec![0; 40_000]);
        for _ in 0..20 {
            self.client.write_all(&long).unwrap();
            self.server.read_exact(&mut read).unwrap();
        }
        self.wait_until_idle();
        let stalls: Vec<_> = self.subflows.values().flat_map(|subflow| &subflow.stalls).collect();
        let is_found =
            stalls.iter().any(|stall| stall.unacked == Some(true) && stall.to >= stall.from + least);
        assert!(is_found, "{stalls:?}");
    }

    fn open(link: LinkSpec) -> Self {
        let tracer = Tracer::start(TracerSettings::default()).unwrap();
        let lab = Topology::two_paths(link, link).unwrap();
        let address = lab.traffic(Workload::upload(1)).unwrap().server;
        // The server listens on all addresses, because joins use another address.
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        let address = address.into();
        let stream = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
        let listener = lab.server().enter(|| {
            let listener = stream();
            listener.bind(&any.into()).unwrap();
            listener.listen(1).unwrap();
            listener
        });
        let client = lab.client().enter(|| {
            let client = stream();
            client.connect(&address).unwrap();
            client
        });
        let (listener, client) = (listener.unwrap(), client.unwrap());
        let (server, _) = listener.accept().unwrap();
        let mut idle = Self {
            lab,
            tracer,
            client,
            server,
            _listener: listener,
            subflows: HashMap::new(),
            listed: HashSet::new(),
        };
        idle.exchange();
        let opened = poll_until("both subflows to be idle", emulation::timeout(TIMEOUT), || {
            let changed = idle.snapshot();
            (idle.subflows.values().filter(|subflow| !subflow.last).count() == 2 && changed == 0)
                .then_some(())
        });
        opened.unwrap();
        idle
    }

    fn exchange(&mut self) {
        self.client.write_all(&MESSAGE).unwrap();
        self.server.read_exact(&mut [0; MESSAGE.len()]).unwrap();
        self.server.write_all(&MESSAGE).unwrap();
        self.client.read_exact(&mut [0; MESSAGE.len()]).unwrap();
    }

    /// Reads a snapshot. Returns the number of subflows with a new record.
    fn snapshot(&mut self) -> usize {
        let inode = self.lab.client().inode();
        let (subflows, listed, mut records) = (&mut self.subflows, &mut self.listed, 0);
        let read = self.tracer.snapshot(&mut |event| match event {
            KernelEvent::Subflow(record) if u64::from(record.netns_inode) == inode => {
                records += 1;
                subflows.insert(record.id, record.clone());
            }
            KernelEvent::SubflowUnchanged(id) if subflows.contains_key(id) => drop(listed.insert(*id)),
            _ => {}
        });
        read.unwrap();
        records
    }

    fn timeouts(&self) -> u32 {
        self.subflows.values().filter_map(|subflow| subflow.tcp.timeouts).sum()
    }

    /// Number of timeouts of the subflows as a new tracer reads them.
    fn timeouts_now(&self) -> u32 {
        let (mut tracer, mut timeouts) = (Tracer::start(TracerSettings::default()).unwrap(), 0);
        tracer.adopt(&namespace::all());
        let read = tracer.snapshot(&mut |event| {
            if let KernelEvent::Subflow(record) = event
                && self.subflows.contains_key(&record.id)
            {
                timeouts += record.tcp.timeouts.unwrap_or_default();
            }
        });
        read.unwrap();
        timeouts
    }

    fn sent(&self) -> u64 {
        self.subflows.values().map(|subflow| subflow.tcp.bytes_sent.0).sum()
    }

    fn wait_until_idle(&mut self) {
        let idle = poll_until("the subflows to be idle", emulation::timeout(TIMEOUT), || {
            (self.snapshot() + self.snapshot() == 0).then_some(())
        });
        idle.unwrap();
    }
}

#[test]
fn an_idle_connection_is_listed_and_later_changes_are_reported() {
    if !may_run_as_root() {
        return;
    }
    let mut idle = Idle::open(LinkSpec::default());
    for _ in 0..MANY {
        idle.snapshot();
    }
    idle.listed.clear();
    let listed = poll_until("both subflows to be listed again", emulation::timeout(TIMEOUT), || {
        assert_eq!(idle.snapshot(), 0, "all are idle");
        (idle.listed.len() == 2).then_some(())
    });
    listed.unwrap();
    let before = idle.sent();
    idle.exchange();
    idle.snapshot();
    assert_eq!(idle.sent(), before + MESSAGE.len() as u64, "bytes after the idle time");

    idle.wait_until_idle();
    idle.lab.path(1).unwrap().set_backup(true).unwrap();
    idle.snapshot();
    let backups = idle.subflows.values().filter(|subflow| subflow.backup).count();
    assert_eq!(backups, 1, "{:#?}", idle.subflows);

    idle.wait_until_idle();
    let sent = idle.sent();
    let ids: Vec<SubflowId> = idle.subflows.keys().copied().collect();
    drop((
        std::mem::replace(&mut idle.client, Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()),
        idle.server,
    ));
    let (mut finals, tracer) = (Vec::new(), &mut idle.tracer);
    let closed = poll_until("the final records", emulation::timeout(TIMEOUT), || {
        let polled = tracer.poll(Duration::from_millis(10), &mut |event| {
            if let KernelEvent::Subflow(record) = event
                && record.last
                && ids.contains(&record.id)
            {
                finals.push(record.tcp.bytes_sent.0);
            }
        });
        polled.unwrap();
        (finals.len() == ids.len()).then_some(())
    });
    closed.unwrap();
    assert_eq!(finals.iter().sum::<u64>(), sent, "bytes of the final records");
}

/// Without a route, a timeout sends no segment: only the counter of timeouts changes.
#[test]
fn timeouts_of_paths_that_fail_while_they_are_idle_are_in_the_next_snapshot() {
    if !may_run_as_root() {
        return;
    }
    let mut idle = Idle::open(LinkSpec::default().rtt(RTT));
    if idle.subflows.values().all(|subflow| subflow.tcp.timeouts.is_none()) {
        eprintln!("skipped: this kernel counts no timeouts");
        return;
    }
    idle.client.write_all(&MESSAGE).unwrap();
    for path in [0, 1] {
        idle.lab.path(path).unwrap().fail(PathFailure::LinkDown).unwrap();
    }
    let seen = poll_until("several timeouts", emulation::timeout(TIMEOUT), || {
        let timeouts = idle.timeouts_now();
        idle.snapshot();
        assert!(idle.timeouts() >= timeouts, "{} timeouts of {timeouts}", idle.timeouts());
        (timeouts > 3).then_some(())
    });
    seen.unwrap();
}

/// The kernel sends data after TCP_CORK has held it back for 200 ms, which takes as long as a retransmission timeout.
#[test]
fn data_that_the_sender_holds_back_is_no_stall() {
    const WRITES: usize = 8;
    if !may_run_as_root() {
        return;
    }
    let mut idle = Idle::open(LinkSpec::default());
    idle.client.set_tcp_cork(true).unwrap();
    let mut stalls = HashSet::new();
    for _ in 0..WRITES {
        idle.client.write_all(&MESSAGE).unwrap();
        idle.server.read_exact(&mut [0; MESSAGE.len()]).unwrap();
        idle.wait_until_idle();
        let all = idle.subflows.values().flat_map(|subflow| &subflow.stalls);
        stalls.extend(all.filter(|stall| stall.unacked == Some(true)).map(|stall| stall.from));
    }
    // On a busy host, single answers are late.
    assert!(stalls.len() <= WRITES / 4, "{stalls:?}");
}

/// A tail loss probe repairs the loss of a single packet, before the kernel counts a retransmission.
#[test]
fn a_packet_that_a_loss_probe_repairs_is_a_stall() {
    const PAUSE: Duration = Duration::from_millis(100);
    const LOSS: Duration = Duration::from_millis(60);
    const MIN_STALL: Nanos = Nanos(150_000_000);
    if !may_run_as_root() {
        return;
    }
    let mut idle = Idle::open(LinkSpec::default().rtt(Duration::from_millis(20)));
    std::thread::sleep(PAUSE);
    for path in [0, 1] {
        idle.lab.path(path).unwrap().fail(PathFailure::Blackhole).unwrap();
    }
    idle.client.write_all(&MESSAGE).unwrap();
    std::thread::sleep(LOSS);
    for path in [0, 1] {
        idle.lab.path(path).unwrap().restore().unwrap();
    }
    idle.server.read_exact(&mut [0; MESSAGE.len()]).unwrap();
    idle.assert_stalled(MIN_STALL);
}

/// The kernel sends such a packet again after 200 ms, as it does with data that TCP_CORK has held back.
#[test]
fn a_packet_that_the_queue_of_this_host_refuses_is_a_stall() {
    const PAUSE: Duration = Duration::from_millis(100);
    const REFUSED: Duration = Duration::from_millis(60);
    const MIN_STALL: Nanos = Nanos(150_000_000);
    if !may_run_as_root() {
        return;
    }
    let mut idle = Idle::open(LinkSpec::default());
    std::thread::sleep(PAUSE);
    let whole = RateLimit::mbit(1_000.0, Duration::from_millis(10));
    // The queue refuses packets that are longer than the bucket. ACKs are not.
    for limit in [RateLimit { burst: 300, ..whole }, whole] {
        for path in [0, 1] {
            let interface = idle.lab.path(path).unwrap().client_interface();
            link::limit_rate(idle.lab.client(), interface, limit).unwrap();
        }
        if limit.burst < whole.burst {
            idle.client.write_all(&MESSAGE).unwrap();
            std::thread::sleep(REFUSED);
        }
    }
    idle.server.read_exact(&mut [0; MESSAGE.len()]).unwrap();
    idle.assert_stalled(MIN_STALL);
}
