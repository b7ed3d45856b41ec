// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate limit of an interface: queueing discipline, rate and queue length. Delay, jitter and loss are in `impairer/`.

use crate::error::Result;
use crate::netns::Namespace;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The queueing discipline that enforces a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discipline {
    /// `tbf`: a token bucket; the queue length is in bytes.
    #[default]
    Tbf,
    /// `htb` with one class; the queue length is in full packets, computed from the bytes.
    Htb,
    /// `htb` with a class per path of a topology with IPv4 endpoints. The classes share the rate and borrow from each other,
    /// but each has its own queue.
    Fair,
    /// `tbf` over `red`, which marks packets of connections with ECN from a fifth of the queue length on.
    Marking,
}

/// Number of path classes of [`Discipline::Fair`]. Paths are numbered from 1; the queue of path N has the handle `1N:` (hexadecimal).
const FAIR_CLASSES: u8 = 9;

/// Major number of the handle of the queue of path `number` (from 1) in [`Discipline::Fair`].
#[must_use]
pub fn fair_handle(number: u8) -> u16 {
    0x10 + u16::from(number)
}

/// A rate limit with its queue, for the packets that an interface sends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Rate in bits per second, including Ethernet headers.
    pub rate: u64,
    /// Size of the token bucket in bytes.
    pub burst: u32,
    /// Maximum queue length in bytes.
    pub queue: u32,
    /// The queueing discipline that enforces the rate.
    pub discipline: Discipline,
}

/// The parent of a queueing discipline, as an argument of `tc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcParent(pub(crate) &'static str);

impl TcParent {
    /// The interface itself.
    pub(crate) const ROOT: Self = Self("root");
}

/// Size of a full Ethernet frame in bytes.
const FRAME: u32 = 1514;

impl RateLimit {
    /// The same limit with another queueing discipline.
    #[must_use]
    pub fn with_discipline(self, discipline: Discipline) -> Self {
        Self { discipline, ..self }
    }

    /// A limit with this rate in Mbit/s and this maximum queueing delay. The bucket holds the bytes of 1 ms, at least two frames.
    #[must_use]
    pub fn mbit(rate: f64, queue: Duration) -> Self {
        let bits = rate * 1e6;
        let bytes = |seconds: f64| (bits / 8.0 * seconds) as u32;
        Self {
            rate: bits as u64,
            burst: bytes(0.001).max(2 * FRAME),
            queue: bytes(queue.as_secs_f64()).max(4 * FRAME),
            discipline: Discipline::Tbf,
        }
    }

    /// Sets this limit on an interface. Replaces an earlier limit.
    ///
    /// # Errors
    /// If the interface is missing, or the kernel lacks the queueing discipline.
    pub(crate) fn apply(&self, namespace: &Namespace, interface: &str, parent: TcParent) -> Result<()> {
        namespace.tc(&self.lines(interface, parent))
    }

    fn lines(&self, interface: &str, TcParent(parent): TcParent) -> Vec<String> {
        let Self { rate, burst, queue, .. } = *self;
        match self.discipline {
            Discipline::Tbf => vec![format!(
                "qdisc replace dev {interface} {parent} handle 1: tbf rate {rate}bit burst {burst}b limit {queue}b"
            )],
            Discipline::Htb => vec![
                format!("qdisc replace dev {interface} {parent} handle 1: htb default 1"),
                format!(
                    "class replace dev {interface} parent 1: classid 1:1 htb rate {rate}bit burst {burst}b cburst {burst}b"
                ),
                format!(
                    "qdisc replace dev {interface} parent 1:1 handle 10: pfifo limit {}",
                    queue.div_ceil(FRAME)
                ),
            ],
            Discipline::Fair => self.fair_lines(interface, parent),
            Discipline::Marking => {
                let threshold = (queue / 5).max(2 * FRAME);
                let (limit, packets) = (queue.max(3 * threshold), threshold / FRAME + 1);
                vec![
                    format!(
                        "qdisc replace dev {interface} {parent} handle 1: tbf rate {rate}bit burst {burst}b limit {queue}b"
                    ),
                    // Both thresholds are close together: marking is a step function, as DCTCP requires.
                    format!(
                        "qdisc replace dev {interface} parent 1:1 handle 10: red limit {limit} min {threshold} max {} avpkt {FRAME} burst {packets} probability 1 ecn",
                        threshold + FRAME
                    ),
                ]
            }
        }
    }

    fn fair_lines(&self, interface: &str, parent: &str) -> Vec<String> {
        let Self { rate, burst, queue, .. } = *self;
        let (min_rate, packets) = (rate / u64::from(FAIR_CLASSES + 1), queue.div_ceil(FRAME));
        let top = format!(
            "dev {interface} parent 1: classid 1:1 htb rate {rate}bit burst {burst}b cburst {burst}b"
        );
        let mut lines = vec![
            format!("qdisc replace dev {interface} {parent} handle 1: htb default 10"),
            format!("class replace {top}"),
        ];
        // The last class is for packets that belong to no path.
        for number in (1..=FAIR_CLASSES).chain([0]) {
            let handle = format!("{:x}", fair_handle(number));
            lines.push(format!(
                "class replace dev {interface} parent 1:1 classid 1:{handle} htb rate {min_rate}bit ceil {rate}bit quantum {FRAME}"
            ));
            lines.push(format!(
                "qdisc replace dev {interface} parent 1:{handle} handle {handle}: pfifo limit {packets}"
            ));
            if number > 0 {
                // The address plan of topologies: 10.<path>.<side>.<host>.
                lines.push(format!(
                    "filter replace dev {interface} parent 1: protocol ip prio {number} u32 match ip src 10.{number}.0.0/16 classid 1:{handle}"
                ));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queueing_delay_becomes_bytes_at_the_rate() {
        let limit = RateLimit::mbit(20.0, Duration::from_millis(50));
        assert_eq!(limit.rate, 20_000_000);
        assert_eq!(limit.queue, 125_000);
        assert_eq!(limit.burst, 3028);
    }
}
