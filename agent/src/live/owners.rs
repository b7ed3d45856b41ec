// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides when to search the open files of all processes for owners. The BPF programs record the process that connects a socket, and the
//! process that closes it; the owner of an accepted, open socket must be searched for.

use std::time::Instant;

use mpwatch_ebpf::tracer::{Tracer, TracerError};
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_model::unit::Nanos;

/// Maximum age of a socket whose owner is searched for: an older socket without an owner is orphaned, or belongs to the kernel.
const MAX_AGE: Nanos = Nanos(120_000_000_000);
/// A search is followed by a pause of this many times its duration.
const PAUSE_FACTOR: u32 = 100;

#[derive(Default)]
pub(crate) struct OwnerSearch {
    is_needed: bool,
    /// When the next search may begin. `None`: at once.
    not_before: Option<Instant>,
}

impl OwnerSearch {
    /// Notes whether the flow of an event has no owner.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        self.is_needed |= lacks_owner(event);
    }

    /// Searches if a flow has no owner. The next record of the flow then has its owner.
    pub(crate) fn run(&mut self, tracer: &Tracer) -> Result<(), TracerError> {
        let begin = Instant::now();
        if !self.is_needed || self.not_before.is_some_and(|pause| begin < pause) {
            return Ok(());
        }
        self.is_needed = false;
        tracer.find_owners()?;
        let took = begin.elapsed();
        self.not_before = Some(begin + took + took.saturating_mul(PAUSE_FACTOR));
        Ok(())
    }
}

fn lacks_owner(event: &KernelEvent) -> bool {
    let (owner, closed, at, since) = match event {
        KernelEvent::Connection(flow) => (flow.owner, flow.closed.is_some(), flow.at, flow.first_seen),
        // Other subflows have the owner of their connection.
        KernelEvent::Subflow(flow) if flow.msk.is_none() => {
            (flow.owner, flow.closed.is_some(), flow.at, flow.first_seen)
        }
        _ => return false,
    };
    owner.is_none() && !closed && at.since(since) < MAX_AGE
}
