// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate limit of a link: which queueing discipline, how fast, how long a queue.
//! Pure text generation plus one call of `tc`. Delay, jitter and loss are not a link's but an impairer's.

use crate::error::Result;
use crate::netns::Namespace;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The kernel's queueing discipline that enforces a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Discipline {
    /// `tbf`, a token bucket with a queue counted in bytes.
    #[default]
    Tbf,
    /// `htb`, one class, with a queue counted in packets (derived from the bytes).
    Htb,
    /// `htb` with one class for each path of a topology that has IPv4 endpoints: each has a queue and a fair share of its own, and may
    /// use what others leave. Shares a rate, and no queue.
    Fair,
}

/// Paths that have a class of their own under [`Discipline::Fair`], and its queue: handle `1N:` (hexadecimal) of path N, from 1.
const CLASSES: u8 = 9;

/// Major number of the handle of path `number`'s queue under [`Discipline::Fair`].
#[must_use]
pub fn fair_handle(number: u8) -> u16 {
    0x10 + u16::from(number)
}

/// A rate limit with its queue, applied to what leaves by an interface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Bits per second, counted on Ethernet frames.
    pub rate: u64,
    /// The bucket in bytes: what may pass at once.
    pub burst: u32,
    /// The longest queue in bytes; more is dropped.
    pub queue: u32,
    /// How the kernel enforces it.
    pub discipline: Discipline,
}

/// Where in an interface's tree of disciplines the limit goes, in `tc`'s words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent(pub(crate) &'static str);

impl Parent {
    /// The limit is the interface's only discipline.
    pub(crate) const ROOT: Self = Self("root");
}

const FRAME: u32 = 1514;

impl Shape {
    /// Enforced in another way.
    #[must_use]
    pub fn by(self, discipline: Discipline) -> Self {
        Self { discipline, ..self }
    }

    /// A rate in Mbit/s and the longest queueing delay; the bucket holds 1 ms, and at least two frames.
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

    /// Puts the limit on an interface, in place of any earlier one.
    ///
    /// # Errors
    /// When the interface or the kernel's discipline is missing.
    pub(crate) fn apply(&self, namespace: &Namespace, interface: &str, parent: Parent) -> Result<()> {
        namespace.tc(&self.lines(interface, parent))
    }

    fn lines(&self, interface: &str, Parent(parent): Parent) -> Vec<String> {
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
        }
    }

    fn fair_lines(&self, interface: &str, parent: &str) -> Vec<String> {
        let Self { rate, burst, queue, .. } = *self;
        let (least, packets) = (rate / u64::from(CLASSES + 1), queue.div_ceil(FRAME));
        let top = format!(
            "dev {interface} parent 1: classid 1:1 htb rate {rate}bit burst {burst}b cburst {burst}b"
        );
        let mut lines = vec![
            format!("qdisc replace dev {interface} {parent} handle 1: htb default 10"),
            format!("class replace {top}"),
        ];
        // The last class takes what is of no path.
        for number in (1..=CLASSES).chain([0]) {
            let handle = format!("{:x}", fair_handle(number));
            lines.push(format!(
                "class replace dev {interface} parent 1:1 classid 1:{handle} htb rate {least}bit ceil {rate}bit quantum {FRAME}"
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
    fn a_queue_in_time_becomes_bytes_at_the_rate() {
        let shape = Shape::mbit(20.0, Duration::from_millis(50));
        assert_eq!(shape.rate, 20_000_000);
        assert_eq!(shape.queue, 125_000);
        assert_eq!(shape.burst, 3028);
    }
}
