// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet-level simulation of FIFO queues and window-based senders. Of TCP they have only the sawtooth of the window and the queueing.
//! The same seed gives the same samples.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

use crate::delay_samples::SECOND;

const PACKET_BITS: u64 = 12_000;
const MS: u64 = 1_000_000;

/// A link with a queue.
#[derive(Clone, Copy)]
pub struct Link {
    /// Rate in Mbit/s.
    pub mbit: u64,
    /// Longest queueing delay in milliseconds.
    pub queue_ms: u64,
    /// Mean share of the rate that bursts of cross traffic take, in percent.
    pub cross: u64,
}

/// A subflow.
#[derive(Clone, Copy)]
pub struct Sender {
    /// Index of its link.
    pub link: usize,
    /// Round-trip time without queueing, in milliseconds.
    pub rtt_ms: u64,
    /// Time of the first packet, in milliseconds.
    pub start_ms: u64,
}

/// A link without cross traffic.
pub const QUIET: Link = Link { mbit: 20, queue_ms: 30, cross: 0 };
/// A link with cross traffic.
pub const BUSY: Link = Link { mbit: 20, queue_ms: 30, cross: 30 };

/// This number of senders on one link, each started 100 ms after the previous one.
pub fn on(link: usize, count: usize) -> Vec<Sender> {
    (0..count as u64).map(|n| Sender { link, rtt_ms: 10, start_ms: 100 * n }).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An acknowledgement arrives: index of the sender, time when the packet was sent.
    Ack(usize, u64),
    /// A loss is detected: index of the sender, time when the packet was sent.
    Loss(usize, u64),
    Start(usize),
    /// A burst of cross traffic on a link.
    Burst(usize),
}

struct Flow {
    sender: Sender,
    window: f64,
    threshold: f64,
    in_flight: u64,
    cut_at: u64,
    delivered: u32,
    lost: u32,
    samples: Vec<DelaySample>,
}

struct Simulator {
    links: Vec<Link>,
    free_at: Vec<u64>,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    random: u64,
}

/// The samples of each sender over this many seconds.
pub fn run(links: &[Link], senders: &[Sender], seconds: u64, seed: u64) -> Vec<Vec<DelaySample>> {
    let flow = |sender: &Sender| Flow {
        sender: *sender,
        window: 10.0,
        threshold: f64::INFINITY,
        in_flight: 0,
        cut_at: 0,
        delivered: 0,
        lost: 0,
        samples: Vec::new(),
    };
    let mut simulator = Simulator {
        links: links.to_vec(),
        free_at: vec![0; links.len()],
        flows: senders.iter().map(flow).collect(),
        events: BinaryHeap::new(),
        order: 0,
        random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
    };
    for (number, sender) in senders.iter().enumerate() {
        simulator.schedule(SECOND + sender.start_ms * MS, Event::Start(number));
    }
    for link in (0..links.len()).filter(|link| links[*link].cross > 0) {
        simulator.schedule(SECOND, Event::Burst(link));
    }
    while let Some(Reverse((now, _, event))) = simulator.events.pop() {
        if now > (seconds + 1) * SECOND {
            break;
        }
        simulator.process(now, event);
    }
    simulator.flows.into_iter().map(|flow| flow.samples).collect()
}

impl Simulator {
    /// xorshift64.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn process(&mut self, now: u64, event: Event) {
        match event {
            Event::Start(number) => self.send(number, now),
            Event::Ack(number, sent) => {
                let flow = &mut self.flows[number];
                flow.in_flight -= 1;
                flow.delivered += 1;
                flow.window += if flow.window < flow.threshold { 1.0 } else { 1.0 / flow.window };
                let (rtt, cut) = (Micros((now - sent) / 1_000), flow.cut_at > sent);
                let due = flow.samples.last().is_none_or(|last| now - last.at.0 >= MS);
                if due {
                    let (delivered, lost) = (flow.delivered, flow.lost);
                    flow.samples.push(DelaySample { at: Nanos(now), rtt, delivered, lost, cut });
                }
                self.send(number, now);
            }
            Event::Loss(number, sent) => {
                let flow = &mut self.flows[number];
                flow.in_flight -= 1;
                flow.lost += 1;
                if sent > flow.cut_at {
                    flow.window = (flow.window * 0.7).max(2.0);
                    flow.threshold = flow.window;
                    flow.cut_at = now;
                }
                self.send(number, now);
            }
            Event::Burst(link) => {
                let Link { mbit, cross, .. } = self.links[link];
                let packets = 1 + self.random(40);
                for _ in 0..packets {
                    self.enqueue(link, now);
                }
                let mean = 20 * PACKET_BITS * 1_000 / mbit * 100 / cross;
                let gap = self.random(2 * mean);
                self.schedule(now + gap, Event::Burst(link));
            }
        }
    }

    fn send(&mut self, number: usize, now: u64) {
        while (self.flows[number].in_flight as f64) < self.flows[number].window {
            self.flows[number].in_flight += 1;
            let Sender { link, rtt_ms, .. } = self.flows[number].sender;
            let noise = self.random(MS / 5);
            if let Some(out) = self.enqueue(link, now) {
                self.schedule(out + rtt_ms * MS + noise, Event::Ack(number, now));
            } else {
                let detected = self.free_at[link] + rtt_ms * MS + noise;
                self.schedule(detected, Event::Loss(number, now));
            }
        }
    }

    /// Time when the packet leaves the queue. `None`: the queue was full.
    fn enqueue(&mut self, link: usize, now: u64) -> Option<u64> {
        let Link { mbit, queue_ms, .. } = self.links[link];
        let begins = self.free_at[link].max(now);
        if begins - now > queue_ms * MS {
            return None;
        }
        self.free_at[link] = begins + PACKET_BITS * 1_000 / mbit;
        Some(self.free_at[link])
    }
}
