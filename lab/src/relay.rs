// SPDX-License-Identifier: MIT OR Apache-2.0
//! A user-space wire between two interfaces of one namespace that adds delay, jitter and loss, for kernels
//! that lack `netem`. One thread a direction: packet socket in, packet socket out, asleep until the
//! next packet is due. Rate limits stay the kernel's: put a [`crate::link::Shape`] on the outgoing interface.
//! Both interfaces, and their peers, need `offloads: false`.

mod delay_line;
mod wire;

use crate::error::{Error, Result};
use crate::impairer::{Direction, ImpairerCounters, Impairment};
use crate::netns::{self, Namespace};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What a direction's thread shares with the relay's owner.
#[derive(Debug)]
struct Lane {
    rule: Mutex<Impairment>,
    rule_changed: AtomicBool,
    stop: AtomicBool,
    /// Written to by the owner, polled by the thread.
    wake: (UnixStream, UnixStream),
    forwarded: AtomicU64,
    forwarded_bytes: AtomicU64,
    lost: AtomicU64,
    queue_drops: AtomicU64,
    overflowed: AtomicU64,
}

/// A running relay; dropping it stops its threads, and packets in flight are lost.
#[derive(Debug)]
pub(crate) struct Relay {
    lanes: [Arc<Lane>; 2],
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Relay {
    /// Starts to pass packets between interfaces `first` and `second` of a namespace.
    ///
    /// # Errors
    /// When an interface is missing or a packet socket is refused.
    pub(crate) fn start(
        namespace: &Namespace,
        (first, second): (&str, &str),
        [forward, backward]: [Impairment; 2],
    ) -> Result<Self> {
        let lanes = [lane(forward)?, lane(backward)?];
        let (open_first, open_second) = namespace.enter(|| (wire::open(first), wire::open(second)))?;
        let (first_end, second_end) = (Arc::new(open_first?), Arc::new(open_second?));
        let mut relay = Self { lanes, threads: Vec::new() };
        for (lane, from, to) in
            [(0, Arc::clone(&first_end), Arc::clone(&second_end)), (1, second_end, first_end)]
        {
            let lane = Arc::clone(&relay.lanes[lane]);
            let thread = namespace.spawn("lab-relay", move || wire::run(&lane, &from, &to))?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    fn lane(&self, direction: Direction) -> &Lane {
        &self.lanes[direction as usize]
    }

    /// Changes what a direction does from the next packet on. Packets still never overtake.
    pub(crate) fn set(&self, direction: Direction, rule: Impairment) {
        let lane = self.lane(direction);
        *lane.rule.lock().unwrap_or_else(PoisonError::into_inner) = rule;
        lane.rule_changed.store(true, Ordering::Release);
    }

    /// What a direction does now.
    pub(crate) fn impairment(&self, direction: Direction) -> Impairment {
        let lane = self.lane(direction);
        *lane.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a direction has done so far.
    pub(crate) fn counters(&self, direction: Direction) -> ImpairerCounters {
        let lane = self.lane(direction);
        ImpairerCounters {
            forwarded: lane.forwarded.load(Ordering::Relaxed),
            forwarded_bytes: lane.forwarded_bytes.load(Ordering::Relaxed),
            lost: lane.lost.load(Ordering::Relaxed),
            queue_drops: lane.queue_drops.load(Ordering::Relaxed),
            overflowed: lane.overflowed.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.stop.store(true, Ordering::Release);
            let _ = (&lane.wake.0).write_all(&[1]);
        }
        for thread in self.threads.drain(..) {
            // A relay that failed has already shown it: packets stopped.
            let _ = netns::join(thread);
        }
    }
}

fn lane(rule: Impairment) -> Result<Arc<Lane>> {
    let wake = UnixStream::pair().map_err(Error::os("make", "a socket pair"))?;
    Ok(Arc::new(Lane {
        rule: Mutex::new(rule),
        rule_changed: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        wake,
        forwarded: AtomicU64::new(0),
        forwarded_bytes: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        queue_drops: AtomicU64::new(0),
        overflowed: AtomicU64::new(0),
    }))
}
