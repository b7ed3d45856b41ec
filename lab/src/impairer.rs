// SPDX-License-Identifier: MIT OR Apache-2.0
//! What adds delay, jitter and loss to a stretch of network, and what it has done: the one face of the two that can,
//! the kernel's `netem` (`impairer/netem.rs`) and, where the kernel has none, the user-space relay (`relay.rs`).
//! Which of them is found out by trying, once a process. What to do to packets is [`Impairment`]; rate limits are not
//! here but in `link/shape.rs`.

mod impairment;
mod netem;

pub use impairment::Impairment;

use crate::error::Result;
use crate::link::Parent;
use crate::netns::Namespace;
use crate::relay::Relay;
use netem::Netem;
use std::sync::OnceLock;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first interface to the second; in a topology, from client to server.
    Forward,
    /// From the second interface to the first.
    Backward,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Forward, Self::Backward];
}

/// What one direction has done with packets since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairerCounters {
    /// Packets passed on.
    pub forwarded: u64,
    /// Bytes passed on, Ethernet headers included.
    pub forwarded_bytes: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets that the outgoing interface's queue refused: the bottleneck's drops.
    pub queue_drops: u64,
    /// Packets dropped because too many were waiting; 0 unless the relay is far too slow for the load. `netem` cannot tell
    /// them from those lost on purpose, and has room for 100 000.
    pub overflowed: u64,
}

/// Who impairs packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcer {
    /// The kernel's queueing discipline `netem` on both ports of a router.
    Netem,
    /// The lab's own relay: two threads that copy frames between packet sockets.
    Relay,
}

impl Enforcer {
    /// The one that this process uses: `netem` if the running kernel takes it, else the relay.
    ///
    /// # Errors
    /// Without root, or when there is no `tc`.
    pub fn here() -> Result<Self> {
        static FOUND: OnceLock<Enforcer> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(*found);
        }
        let scratch = Namespace::new("probe")?;
        let found = if netem::works_in(&scratch)? { Self::Netem } else { Self::Relay };
        Ok(*FOUND.get_or_init(|| found))
    }
}

/// Impairs what passes a namespace of its own, from one of its two ports to the other, until it is dropped.
#[derive(Debug)]
pub struct Impairer {
    // The relay comes first: it must stop before its namespace goes.
    engine: Engine,
    namespace: Namespace,
}

#[derive(Debug)]
enum Engine {
    Netem(Netem),
    Relay(Relay),
}

impl Impairer {
    /// Starts between two ports of a namespace that exist already. For netem the namespace is a router, for the relay it
    /// must keep silent.
    pub(crate) fn start(
        enforcer: Enforcer,
        namespace: Namespace,
        ports: (&'static str, &'static str),
        rules: [Impairment; 2],
    ) -> Result<Self> {
        let engine = match enforcer {
            Enforcer::Netem => Engine::Netem(Netem::start(&namespace, ports, rules)?),
            Enforcer::Relay => Engine::Relay(Relay::start(&namespace, ports, rules)?),
        };
        Ok(Self { engine, namespace })
    }

    /// Who it is.
    #[must_use]
    pub fn enforcer(&self) -> Enforcer {
        match self.engine {
            Engine::Netem(_) => Enforcer::Netem,
            Engine::Relay(_) => Enforcer::Relay,
        }
    }

    /// The namespace between the two ends, where its ports are.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Where a rate limit goes on its ports, so that packets meet it after the delay.
    pub(crate) fn limits_under(&self) -> Parent {
        match self.engine {
            Engine::Netem(_) => netem::LIMITS_UNDER,
            Engine::Relay(_) => Parent::ROOT,
        }
    }

    /// Changes what a direction does from the next packet on. Packets still never overtake.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, direction: Direction, rule: Impairment) -> Result<()> {
        match &self.engine {
            Engine::Netem(netem) => netem.set(&self.namespace, direction, rule),
            Engine::Relay(relay) => {
                relay.set(direction, rule);
                Ok(())
            }
        }
    }

    /// What a direction does now.
    #[must_use]
    pub fn impairment(&self, direction: Direction) -> Impairment {
        match &self.engine {
            Engine::Netem(netem) => netem.impairment(direction),
            Engine::Relay(relay) => relay.impairment(direction),
        }
    }

    /// What a direction has done so far.
    ///
    /// # Errors
    /// When the kernel's counters cannot be read.
    pub fn counters(&self, direction: Direction) -> Result<ImpairerCounters> {
        match &self.engine {
            Engine::Netem(netem) => netem.counters(&self.namespace, direction),
            Engine::Relay(relay) => Ok(relay.counters(direction)),
        }
    }
}
