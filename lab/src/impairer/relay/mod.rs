// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwards frames between two interfaces of a namespace in user space and adds delay, jitter and loss, for kernels
//! without `netem`. One thread per direction receives from a packet socket, holds each frame until it is due, and
//! sends it. The kernel applies the rate limit on the outgoing interface.
//! Both interfaces and their peers must have segmentation and checksum offloads switched off (`offloads: false`).

mod corruption;
mod delay_line;
mod forward;
mod state;

use super::impairment::{Direction, ImpairerCounters, Impairment};
use crate::error::Result;
use crate::netns::{self, Namespace};
use state::DirectionState;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A running relay. When it is dropped, its threads stop and the delayed packets are lost.
#[derive(Debug)]
pub(super) struct Relay {
    directions: [Arc<DirectionState>; 2],
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Relay {
    /// Starts to forward packets between interfaces `first` and `second` of a namespace.
    ///
    /// # Errors
    /// If an interface is missing or a packet socket cannot be opened.
    pub(super) fn start(
        namespace: &Namespace,
        (first, second): (&str, &str),
        [forward, backward]: [Impairment; 2],
    ) -> Result<Self> {
        let directions = [Arc::new(DirectionState::new(forward)?), Arc::new(DirectionState::new(backward)?)];
        let (first_socket, second_socket) =
            namespace.enter(|| (forward::open(first), forward::open(second)))?;
        let (first_socket, second_socket) = (Arc::new(first_socket?), Arc::new(second_socket?));
        let mut relay = Self { directions, threads: Vec::new() };
        for (direction, from, to) in [
            (Direction::Forward, Arc::clone(&first_socket), Arc::clone(&second_socket)),
            (Direction::Backward, second_socket, first_socket),
        ] {
            let state = Arc::clone(&relay.directions[direction as usize]);
            let thread = namespace.spawn("lab-relay", move || forward::run(&state, &from, &to))?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    /// Changes the impairment of a direction for all later packets. The change does not reorder packets.
    pub(super) fn set(&self, direction: Direction, impairment: Impairment) {
        self.directions[direction as usize].set(impairment);
    }

    /// The current impairment of a direction.
    pub(super) fn impairment(&self, direction: Direction) -> Impairment {
        self.directions[direction as usize].impairment()
    }

    /// The counters of a direction.
    pub(super) fn counters(&self, direction: Direction) -> ImpairerCounters {
        self.directions[direction as usize].counters()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for direction in &self.directions {
            direction.stop();
        }
        for thread in self.threads.drain(..) {
            // The error of a thread that failed is ignored: its direction has already stopped forwarding.
            let _ = netns::join(thread);
        }
    }
}
