// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds delay, jitter and loss to a link. Uses the kernel's `netem` (`impairer/netem.rs`), or a relay in user space
//! (`impairer/relay`) if the kernel has no netem. Each process tests once whether netem works.
//! Rate limits are separate: `link/rate_limit.rs`.

mod impairment;
mod netem;
mod relay;

pub use impairment::{Direction, ImpairerCounters, Impairment};

use crate::error::Result;
use crate::link::TcParent;
use crate::netns::Namespace;
use netem::Netem;
use relay::Relay;
use std::sync::OnceLock;

/// Implementation of an impairer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpairerKind {
    /// The kernel's queueing discipline `netem` on both ports of a router.
    Netem,
    /// The lab's relay: two threads that copy frames between packet sockets.
    Relay,
}

impl ImpairerKind {
    /// The kind that this process uses: `netem` if the running kernel has it, else the relay.
    ///
    /// # Errors
    /// Without root, or if `tc` is missing.
    pub fn detect() -> Result<Self> {
        static DETECTED: OnceLock<ImpairerKind> = OnceLock::new();
        if let Some(kind) = DETECTED.get() {
            return Ok(*kind);
        }
        let scratch = Namespace::new("probe")?;
        let kind = if netem::works_in(&scratch)? { Self::Netem } else { Self::Relay };
        Ok(*DETECTED.get_or_init(|| kind))
    }
}

/// Impairs packets that cross a namespace from one port to the other, until the impairer is dropped.
#[derive(Debug)]
pub struct Impairer {
    // The relay is the first field: it must stop before its namespace is removed.
    engine: Engine,
    namespace: Namespace,
}

#[derive(Debug)]
enum Engine {
    Netem(Netem),
    Relay(Relay),
}

impl Impairer {
    /// Starts an impairer between two ports of a namespace. For netem, the namespace must be a router. For the relay, it must not send
    /// packets of its own.
    pub(crate) fn start(
        kind: ImpairerKind,
        namespace: Namespace,
        ports: (&'static str, &'static str),
        impairments: [Impairment; 2],
    ) -> Result<Self> {
        let engine = match kind {
            ImpairerKind::Netem => Engine::Netem(Netem::start(&namespace, ports, impairments)?),
            ImpairerKind::Relay => Engine::Relay(Relay::start(&namespace, ports, impairments)?),
        };
        Ok(Self { engine, namespace })
    }

    /// The implementation.
    #[must_use]
    pub fn kind(&self) -> ImpairerKind {
        match self.engine {
            Engine::Netem(_) => ImpairerKind::Netem,
            Engine::Relay(_) => ImpairerKind::Relay,
        }
    }

    /// The namespace between client and server that contains the two ports.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The parent qdisc of a rate limit on the ports, chosen so that packets reach the limit after their delay.
    pub(crate) fn rate_limit_parent(&self) -> TcParent {
        match self.engine {
            Engine::Netem(_) => netem::RATE_LIMIT_PARENT,
            Engine::Relay(_) => TcParent::ROOT,
        }
    }

    /// Changes the impairment of a direction for all later packets. The change does not reorder packets.
    ///
    /// # Errors
    /// If the kernel rejects the change.
    pub fn set(&self, direction: Direction, impairment: Impairment) -> Result<()> {
        match &self.engine {
            Engine::Netem(netem) => netem.set(&self.namespace, direction, impairment),
            Engine::Relay(relay) => {
                relay.set(direction, impairment);
                Ok(())
            }
        }
    }

    /// The current impairment of a direction.
    #[must_use]
    pub fn impairment(&self, direction: Direction) -> Impairment {
        match &self.engine {
            Engine::Netem(netem) => netem.impairment(direction),
            Engine::Relay(relay) => relay.impairment(direction),
        }
    }

    /// The counters of a direction.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn counters(&self, direction: Direction) -> Result<ImpairerCounters> {
        match &self.engine {
            Engine::Netem(netem) => netem.counters(&self.namespace, direction),
            Engine::Relay(relay) => Ok(relay.counters(direction)),
        }
    }
}
