// SPDX-License-Identifier: MIT OR Apache-2.0
//! When to search the open files of all processes for owners. The kernel side sees the process that connects a socket, and the one that
//! closes it; what was accepted and is open has to be searched for.

use std::time::Instant;

use mpwatch_ebpf::tracer::{Tracer, TracerError};
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::unit::Nanos;

/// Age up to which an owner is searched for: a socket without one for longer is orphaned, or the kernel's own.
const MAX_AGE: Nanos = Nanos(120_000_000_000);
/// A search that takes a millisecond is followed by this many milliseconds without one.
const PAUSE: u32 = 100;

#[derive(Default)]
pub(crate) struct OwnerSearch {
    is_needed: bool,
    /// `None`: nothing has been searched for.
    not_before: Option<Instant>,
}

impl OwnerSearch {
    /// Notes whether the flow of an event has no owner.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        self.is_needed |= lacks_owner(event);
    }

    /// Searches if a flow has no owner, which its next record then has.
    pub(crate) fn run(&mut self, tracer: &Tracer) -> Result<(), TracerError> {
        let begin = Instant::now();
        if !self.is_needed || self.not_before.is_some_and(|pause| begin < pause) {
            return Ok(());
        }
        self.is_needed = false;
        tracer.find_owners()?;
        let took = begin.elapsed();
        self.not_before = Some(begin + took + took.saturating_mul(PAUSE));
        Ok(())
    }
}

fn lacks_owner(event: &KernelEvent) -> bool {
    let (owner, is_over, age) = match event {
        KernelEvent::Connection(record) => {
            (record.owner, record.closed.is_some(), record.at.since(record.first_seen))
        }
        // Other subflows have the owner of their connection.
        KernelEvent::Subflow(record) if record.msk.is_none() => {
            (record.owner, record.closed.is_some(), record.at.since(record.first_seen))
        }
        _ => return false,
    };
    owner.is_none() && !is_over && age < MAX_AGE
}
