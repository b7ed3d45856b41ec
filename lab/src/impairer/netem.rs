// SPDX-License-Identifier: MIT OR Apache-2.0
//! Impairment by the kernel: the queueing discipline `netem` at the root of both ports of a router.
//! A rate limit of the same port is its child: packets meet the queue when their delay is over, as behind the relay.

use super::{Direction, ImpairerCounters, Impairment};
use crate::error::{Error, Result};
use crate::link::{Parent, Queues};
use crate::netns::Namespace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where a rate limit hangs: netem has this one class.
pub(super) const LIMITS_UNDER: Parent = Parent("parent 100:1");

/// netem on the two ports of a router. It goes with the router's namespace.
#[derive(Debug)]
pub(super) struct Netem {
    ports: (&'static str, &'static str),
    rules: Mutex<[Impairment; 2]>,
}

impl Netem {
    pub(super) fn start(
        router: &Namespace,
        ports: (&'static str, &'static str),
        rules: [Impairment; 2],
    ) -> Result<Self> {
        let netem = Self { ports, rules: Mutex::new(rules) };
        let lines = Direction::BOTH.map(|direction| line(netem.port(direction), netem.impairment(direction)));
        router.tc(&lines)?;
        Ok(netem)
    }

    /// The port by which a direction leaves.
    fn port(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => self.ports.1,
            Direction::Backward => self.ports.0,
        }
    }

    fn rules(&self) -> MutexGuard<'_, [Impairment; 2]> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn impairment(&self, direction: Direction) -> Impairment {
        self.rules()[direction as usize]
    }

    pub(super) fn set(&self, router: &Namespace, direction: Direction, rule: Impairment) -> Result<()> {
        // Held across the command, so that the last one to set is the one that is remembered.
        let mut rules = self.rules();
        router.tc(&[line(self.port(direction), rule)])?;
        rules[direction as usize] = rule;
        Ok(())
    }

    pub(super) fn counters(&self, router: &Namespace, direction: Direction) -> Result<ImpairerCounters> {
        let Queues { netem, limit } = Queues::read(router, self.port(direction))?;
        let netem = netem.unwrap_or_default();
        let queue_drops = limit.map_or(0, |limit| limit.drops);
        Ok(ImpairerCounters {
            forwarded: netem.packets,
            forwarded_bytes: netem.bytes,
            // What its child drops it counts as well.
            lost: netem.drops.saturating_sub(queue_drops),
            queue_drops,
            overflowed: 0,
        })
    }
}

/// Whether the running kernel takes netem with all that we ask of it.
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

/// Puts netem on an interface, or changes what it does; its queue, its counters and its child stay.
fn line(interface: &str, rule: Impairment) -> String {
    let Impairment { delay, jitter, loss, .. } = rule;
    // netem draws from both sides of the delay, the lab's jitter only adds. tc takes no nanoseconds here, but fractions.
    let half = jitter.as_secs_f64() * 1e6 / 2.0;
    let middle = delay.as_secs_f64() * 1e6 + half;
    let percent = loss * 100.0;
    // Its usual limit of 1000 packets would drop unseen: 100 000 full frames are a second at 1.2 Gbit/s.
    // A rate, beyond any load of the lab, because without one netem lets packets overtake when it jitters.
    format!(
        "qdisc replace dev {interface} root handle 100: netem limit 100000 delay {middle:.3}us {half:.3}us loss {percent}% rate 10gbit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_adds_to_the_delay() {
        let rule = Impairment {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(4),
            loss: 0.01,
            seed: 1,
        };
        let line = line("far", rule);
        assert!(line.contains("delay 12000.000us 2000.000us loss 1% rate"), "{line}");
    }
}
