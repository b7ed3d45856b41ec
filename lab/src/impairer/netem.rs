// SPDX-License-Identifier: MIT OR Apache-2.0
//! Impairment by the kernel: the queueing discipline `netem` at the root of both ports of a router.
//! The rate limit of a port is a child of netem: packets reach its queue after their delay, as with the relay.

use super::impairment::{Direction, ImpairerCounters, Impairment};
use crate::error::{Error, Result};
use crate::link::{PortQueues, TcParent};
use crate::netns::Namespace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The parent of a rate limit is netem's only class.
pub(super) const RATE_LIMIT_PARENT: TcParent = TcParent("parent 100:1");

/// netem on the two ports of a router. The kernel removes netem together with the router's namespace.
#[derive(Debug)]
pub(super) struct Netem {
    ports: (&'static str, &'static str),
    impairments: Mutex<[Impairment; 2]>,
}

impl Netem {
    pub(super) fn start(
        router: &Namespace,
        ports: (&'static str, &'static str),
        impairments: [Impairment; 2],
    ) -> Result<Self> {
        let netem = Self { ports, impairments: Mutex::new(impairments) };
        let lines = Direction::BOTH.map(|direction| line(netem.port(direction), netem.impairment(direction)));
        router.tc(&lines)?;
        Ok(netem)
    }

    /// The outgoing port of a direction.
    fn port(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => self.ports.1,
            Direction::Backward => self.ports.0,
        }
    }

    fn impairments(&self) -> MutexGuard<'_, [Impairment; 2]> {
        self.impairments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn impairment(&self, direction: Direction) -> Impairment {
        self.impairments()[direction as usize]
    }

    pub(super) fn set(&self, router: &Namespace, direction: Direction, impairment: Impairment) -> Result<()> {
        // Locked during the command, so that the stored impairment is always the impairment that the last command set.
        let mut impairments = self.impairments();
        router.tc(&[line(self.port(direction), impairment)])?;
        impairments[direction as usize] = impairment;
        Ok(())
    }

    pub(super) fn counters(&self, router: &Namespace, direction: Direction) -> Result<ImpairerCounters> {
        let PortQueues { netem, rate_limit } = PortQueues::read(router, self.port(direction))?;
        let netem = netem.unwrap_or_default();
        let queue_drops = rate_limit.map_or(0, |queue| queue.drops);
        Ok(ImpairerCounters {
            forwarded: netem.packets,
            forwarded_bytes: netem.bytes,
            // netem also counts the drops of its child.
            lost: netem.drops.saturating_sub(queue_drops),
            corrupted: 0,
            queue_drops,
            refused: 0,
            overflowed: 0,
        })
    }
}

/// Whether the running kernel has netem with all the options that the lab uses.
pub(super) fn works_in(scratch: &Namespace) -> Result<bool> {
    let everything = Impairment {
        delay: Duration::from_millis(2),
        jitter: Duration::from_millis(1),
        loss: 0.01,
        ..Impairment::default()
    };
    match scratch.tc(&[line("lo", everything)]) {
        Ok(()) => Ok(true),
        Err(Error::Command { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The `tc` line that adds netem to an interface or changes its parameters. A change keeps queue, counters and child.
fn line(interface: &str, impairment: Impairment) -> String {
    let Impairment { delay, jitter, loss, .. } = impairment;
    // netem's jitter is symmetric around the delay; the lab's jitter only adds to the delay. tc accepts fractions of microseconds,
    // but no nanoseconds.
    let half = jitter.as_secs_f64() * 1e6 / 2.0;
    let middle = delay.as_secs_f64() * 1e6 + half;
    let percent = loss * 100.0;
    // The default limit of 1000 packets is too low. 100 000 full frames are 1 s at 1.2 Gbit/s.
    // The rate is above any load of the lab. It is set because netem without a rate reorders packets that have jitter.
    format!(
        "qdisc replace dev {interface} root handle 100: netem limit 100000 delay {middle:.3}us {half:.3}us loss {percent}% rate 10gbit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_adds_to_the_delay() {
        let impairment = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(4),
            loss: 0.01,
            ..Impairment::default()
        };
        let line = line("far", impairment);
        assert!(line.contains("delay 12000.000us 2000.000us loss 1% rate"), "{line}");
    }
}
