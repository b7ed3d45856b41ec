// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated connections for all combinations of number of paths, load and incident. The simulation records when a path has missed three
//! consecutive retransmission timeouts, and when data waits because no path delivers. The tracker must report exactly these failures and
//! outages.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::{outages, path_failures};
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::kernel::event::{KernelEvent, MskView, Tick, Waiting};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Micros, Nanos};

use super::records::{SECOND, connection, msk, subflow, tracker};
use crate::tracker::{Closed, Tracker};

const MS: u64 = 1_000_000;
/// Times in milliseconds: step of the simulation, start of the incident, end of the simulation, interval of ticks, retransmission timeout,
/// suspension.
const STEP: u64 = 50;
const INCIDENT: u64 = 6_000;
const END: u64 = 26_000;
const TICK: u64 = 1_000;
const RTO: u64 = 200;
const SUSPENDED: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Full,
    Half,
    OnePercent,
    Idle,
    Bursty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incident {
    None,
    OnePathDead,
    AllDead,
    ReceiverPauses,
    ShortFlap,
    LongFlap,
    BackupTakesOver,
    EndpointRemoved,
    PeerKilled,
    Suspended,
}

#[derive(Clone, Default)]
struct Path {
    in_flight: u32,
    backoff: u8,
    acked: u64,
    last_ack: u64,
    busy_since: Option<u64>,
    next_timeout: u64,
    /// When the path missed its third timeout, and when data was acknowledged after that.
    missed_third: Option<u64>,
    works_again: Option<u64>,
    closed: Option<u64>,
}

struct Simulation {
    load: Load,
    incident: Incident,
    paths: Vec<Path>,
    /// Number of segments that were not sent on any path, and of segments that were sent only on a dead path.
    unsent: u32,
    lost: u32,
    window: u64,
    /// Start of the current wait, in which data waits and no path delivers, and the longest such wait, in milliseconds.
    waits_since: Option<u64>,
    longest_wait: u64,
}

impl Simulation {
    fn new(paths: usize, load: Load, incident: Incident) -> Self {
        let paths = vec![Path::default(); paths];
        Self {
            load,
            incident,
            paths,
            unsent: 0,
            lost: 0,
            window: 1_000_000,
            waits_since: None,
            longest_wait: 0,
        }
    }

    fn is_dead(&self, path: usize, now: u64) -> bool {
        let since = now.saturating_sub(INCIDENT);
        now >= INCIDENT
            && match self.incident {
                Incident::OnePathDead | Incident::BackupTakesOver => path == 0,
                Incident::AllDead => true,
                Incident::ShortFlap => path == 0 && since < 500,
                Incident::LongFlap => path == 0 && since < 8_000,
                _ => false,
            }
    }

    /// Number of segments that the application writes in this step.
    fn written(&self, now: u64) -> u32 {
        match self.load {
            Load::Full => 20,
            Load::Half => 10,
            Load::OnePercent => u32::from(now.is_multiple_of(500)),
            Load::Idle => u32::from(now < 1_000),
            Load::Bursty => {
                if now % 1_500 < 100 {
                    40
                } else {
                    0
                }
            }
        }
    }

    fn step(&mut self, now: u64) {
        let pauses = self.incident == Incident::ReceiverPauses && (INCIDENT..INCIDENT + 7_000).contains(&now);
        self.window = if pauses { 0 } else { 1_000_000 };
        if self.paths.iter().all(|path| path.closed.is_some()) {
            return;
        }
        // The send buffer has room for 200 segments.
        self.unsent = (self.unsent + self.written(now)).min(200);
        for place in 0..self.paths.len() {
            let is_dead = self.is_dead(place, now);
            let path = &mut self.paths[place];
            if path.in_flight > 0 && (!is_dead || now >= path.next_timeout) && path.closed.is_none() {
                if is_dead {
                    path.backoff += 1;
                    path.next_timeout = now + (RTO << path.backoff);
                    if path.backoff == 3 {
                        path.missed_third.get_or_insert(now);
                    }
                } else if path.backoff == 0 || now >= path.next_timeout {
                    path.acked += u64::from(path.in_flight);
                    (path.in_flight, path.backoff, path.busy_since, path.last_ack) = (0, 0, None, now);
                    path.works_again = path
                        .missed_third
                        .map(|_| now)
                        .filter(|_| path.works_again.is_none())
                        .or(path.works_again);
                }
            }
        }
        self.send(now);
        let delivers = |place: usize| !self.is_dead(place, now) && self.paths[place].closed.is_none();
        let waits = self.window > 0 && self.unsent + self.lost > 0 && !(0..self.paths.len()).any(delivers);
        let since = self.waits_since.filter(|_| waits).or(waits.then_some(now));
        self.waits_since = since;
        self.longest_wait = self.longest_wait.max(since.map_or(0, |since| now - since));
    }

    /// The scheduler: uses free paths in turn, a backup path only if no other path works. Retransmits lost data after the first timeout.
    fn send(&mut self, now: u64) {
        let is_backup = |place: usize| self.incident == Incident::BackupTakesOver && place > 0;
        let main_works =
            (0..self.paths.len()).any(|place| !is_backup(place) && self.paths[place].backoff == 0);
        let usable: Vec<usize> = (0..self.paths.len())
            .filter(|&place| self.paths[place].closed.is_none() && self.paths[place].in_flight == 0)
            .filter(|&place| !(is_backup(place) && main_works))
            .collect();
        if self.window == 0 {
            return;
        }
        for (turn, &place) in usable.iter().enumerate() {
            let others = usable.len() - turn;
            let again = if self.is_dead(place, now) { 0 } else { std::mem::take(&mut self.lost) };
            let new = self.unsent.min(20).div_ceil(u32::try_from(others).unwrap());
            self.unsent -= new;
            let is_dead = self.is_dead(place, now);
            let path = &mut self.paths[place];
            if new + again == 0 {
                continue;
            }
            (path.in_flight, path.busy_since, path.next_timeout) = (new + again, Some(now), now + RTO);
            if is_dead {
                self.lost += new;
            }
        }
    }

    fn events(&self, now: u64, boot: impl Fn(u64) -> Nanos) -> Vec<KernelEvent> {
        let view = |sent: u64| MskView {
            unsent: Bytes(u64::from(self.unsent) * 1_000),
            unacked: Bytes(u64::from(self.lost) * 1_000),
            window: Some(Bytes(self.window)),
            ..msk(sent)
        };
        let mut events = Vec::new();
        let sent: u64 = self.paths.iter().map(|path| path.acked * 1_000).sum();
        for (place, path) in self.paths.iter().enumerate() {
            let mut record = subflow(11 + place as u64, boot(now).0, path.acked * 1_000);
            record.msk = Some(view(sent));
            (record.mp_join, record.created, record.established) = (place > 0, Some(boot(0)), Some(boot(0)));
            record.backup = self.incident == Incident::BackupTakesOver && place > 0;
            record.tcp.srtt = Micros(1_000);
            record.waiting = Waiting {
                in_flight: path.in_flight,
                window: Bytes(self.window),
                // While the window is closed, the kernel doubles the interval between its probes, and each probe is answered.
                backoff: if self.window == 0 { 4 } else { path.backoff },
                probes: 0,
                last_ack: Some(boot(path.last_ack.max(1))),
                busy_since: path.busy_since.map(&boot),
                limit: None,
            };
            if let Some(at) = path.closed {
                (record.closed, record.last, record.state) = (Some(boot(at)), true, TcpState::Close);
                if self.incident == Incident::EndpointRemoved {
                    (record.end.alone, record.end.removed_by_us, record.end.fin_sent_first) =
                        (true, true, true);
                } else {
                    record.end.reset_received = true;
                }
            }
            events.push(KernelEvent::Subflow(record));
        }
        let mut socket = connection(boot(now).0, sent);
        (socket.msk, socket.opened) = (view(sent), Some(boot(0)));
        if self.paths.iter().all(|path| path.closed.is_some()) {
            (socket.closed, socket.last, socket.msk.state) = (Some(boot(INCIDENT)), true, TcpState::Close);
        }
        events.push(KernelEvent::Connection(socket));
        events
    }
}

/// Runs one simulation. Returns the last state of the connection, when each path was first reported as failed, whether an outage was
/// reported, and all reported states of paths.
fn run(simulation: &mut Simulation) -> (Connection, Vec<Option<u64>>, bool, Vec<Progress>) {
    let mut tracker: Tracker = tracker(Closed::Keep);
    let mut noticed = vec![None; simulation.paths.len()];
    let (mut had_outage, mut states) = (false, Vec::new());
    let sleeps = simulation.incident == Incident::Suspended;
    let mut last = None;
    for now in (STEP..=END).step_by(usize::try_from(STEP).unwrap()) {
        let is_asleep = sleeps && now > INCIDENT;
        if now == INCIDENT {
            match simulation.incident {
                Incident::EndpointRemoved => simulation.paths.last_mut().unwrap().closed = Some(now),
                Incident::PeerKilled => simulation.paths.iter_mut().for_each(|path| path.closed = Some(now)),
                _ => {}
            }
        }
        simulation.step(now);
        if !now.is_multiple_of(TICK) {
            continue;
        }
        // The kernel's timer stops during a suspension, so earlier times appear later by the duration of the suspension.
        let boot = |at: u64| Nanos(SECOND + (at + if is_asleep { SUSPENDED } else { 0 }) * MS);
        for event in simulation.events(now, boot) {
            tracker.apply(&event);
        }
        let suspended = if sleeps && now == INCIDENT + TICK { SUSPENDED } else { 0 };
        tracker.apply(&KernelEvent::Tick(Tick {
            at: boot(now),
            suspended: Nanos(suspended * MS),
            ..Tick::default()
        }));
        let Some(found) = tracker.end_tick().connections.pop() else { continue };
        for (path, noticed) in found.subflows.iter().zip(&mut noticed) {
            states.push(path.progress);
            if path.is_failed() {
                noticed.get_or_insert(now);
            }
        }
        had_outage |= found.outage_since.is_some() || !outages(&found).is_empty();
        last = Some(found);
    }
    (last.unwrap(), noticed, had_outage, states)
}

const LOADS: [Load; 5] = [Load::Full, Load::Half, Load::OnePercent, Load::Idle, Load::Bursty];
const INCIDENTS: [Incident; 10] = [
    Incident::None,
    Incident::OnePathDead,
    Incident::AllDead,
    Incident::ReceiverPauses,
    Incident::ShortFlap,
    Incident::LongFlap,
    Incident::BackupTakesOver,
    Incident::EndpointRemoved,
    Incident::PeerKilled,
    Incident::Suspended,
];

#[test]
fn each_combination_is_reported_as_it_was_simulated() {
    let mut cases = 0;
    for paths in 1..=3 {
        for load in LOADS {
            for incident in INCIDENTS {
                if incident == Incident::BackupTakesOver && paths == 1 {
                    continue;
                }
                cases += 1;
                check(paths, load, incident);
            }
        }
    }
    assert_eq!(cases, 145);
}

fn check(paths: usize, load: Load, incident: Incident) {
    let case = format!("{paths} paths, {load:?}, {incident:?}");
    let mut simulation = Simulation::new(paths, load, incident);
    let (connection, noticed, had_outage, states) = run(&mut simulation);
    for (place, (path, noticed)) in simulation.paths.iter().zip(noticed).enumerate() {
        let case = format!("{case}, path {}", place + 1);
        match (path.missed_third, noticed) {
            (Some(third), Some(noticed)) => {
                assert!((third..third + 3_000).contains(&noticed), "{case}: {third} {noticed}");
            }
            (None, None) => {}
            other => panic!("{case}: missed its third timeout and was reported at {other:?}"),
        }
        let failures = path_failures(&connection, &connection.subflows[place]);
        assert_eq!(failures.len(), usize::from(path.missed_third.is_some()), "{case}");
        let recovered = failures.first().and_then(|failure| failure.recovered);
        assert_eq!(recovered.is_some(), path.works_again.is_some(), "{case}");
    }
    // The simulation measures the wait with an error of two steps.
    let must = simulation.longest_wait > RTO + TICK + 2 * STEP;
    let may = simulation.longest_wait + 2 * STEP >= RTO;
    assert!(had_outage || !must, "{case}: waited for {} ms, no outage", simulation.longest_wait);
    assert!(
        !had_outage || may,
        "{case}: waited for {} ms, outages {:?}",
        simulation.longest_wait,
        outages(&connection)
    );
    let is_limited = states.contains(&Progress::LimitedByReceiver);
    assert_eq!(is_limited, incident == Incident::ReceiverPauses && load != Load::Idle, "{case}");
}
