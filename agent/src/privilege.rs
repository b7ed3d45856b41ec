// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon may do, and gives up: it attaches with all that it was given, then keeps what looking takes; its threads that serve
//! others never have anything. Capabilities belong to threads, so each thread begins with what its creator has left.

use std::collections::HashSet;
use std::thread;

use anyhow::Context;
use caps::{CapSet, Capability, CapsHashSet};

use crate::doctor;

/// Gives up for this thread, and for those that it will start, whatever is not needed any more: `mpwatch doctor` has the list. For good.
pub(crate) fn drop_to_kept() -> anyhow::Result<()> {
    keep(&caps::all().into_iter().filter(|capability| doctor::is_kept(capability.index())).collect())
}

/// Runs this on a thread without any capability; so are all threads that it starts.
pub(crate) fn without_any<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let apart = || {
        keep(&HashSet::new())?;
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("mpwatch-start".to_owned()).spawn_scoped(scope, apart);
        let outcome = thread.context("starting a thread")?.join();
        outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread has failed, a bug of mpwatch")))
    })
}

/// Of those that this thread has, only these.
fn keep(wanted: &CapsHashSet) -> anyhow::Result<()> {
    let failed = "giving up capabilities";
    let held = caps::read(None, CapSet::Permitted).context(failed)?;
    if held.contains(&Capability::CAP_SETPCAP) {
        // So that no program started from here could get them back, root's id or not.
        for capability in caps::read(None, CapSet::Bounding).context(failed)?.difference(wanted) {
            caps::drop(None, CapSet::Bounding, *capability).context(failed)?;
        }
    }
    let left: CapsHashSet = held.intersection(wanted).copied().collect();
    // Ambient ones need the others to be there, so they go first.
    caps::clear(None, CapSet::Ambient).context(failed)?;
    caps::clear(None, CapSet::Inheritable).context(failed)?;
    caps::set(None, CapSet::Effective, &left).context(failed)?;
    caps::set(None, CapSet::Permitted, &left).context(failed)?;
    nix::sys::prctl::set_no_new_privs().context(failed)
}
