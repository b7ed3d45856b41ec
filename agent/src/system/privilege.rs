// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops capabilities: the daemon keeps those that it needs once it traces, threads that serve clients keep none. A new thread inherits the
//! capabilities of its creator.

use std::collections::HashSet;
use std::thread;

use anyhow::Context;
use caps::Capability::{CAP_BPF, CAP_PERFMON, CAP_SETPCAP, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use caps::{CapSet, Capability, CapsHashSet};

/// A capability that mpwatch needs, found by removing one capability at a time on Linux 6.18. `doctor` checks them; the daemon drops some.
pub(crate) struct UsedCapability {
    pub(crate) id: Capability,
    pub(crate) purpose: &'static str,
    /// Values that are unknown without the capability. `None`: mpwatch does not run without it.
    pub(crate) loss: Option<&'static str>,
    /// Whether the daemon still needs the capability once it traces.
    pub(crate) is_kept: bool,
}

const fn kept(id: Capability, purpose: &'static str, loss: Option<&'static str>) -> UsedCapability {
    UsedCapability { id, purpose, loss, is_kept: true }
}

pub(crate) static USED: [UsedCapability; 4] = [
    kept(CAP_BPF, "loading BPF programs and reading their maps", None),
    kept(CAP_PERFMON, "attaching BPF programs to tracepoints and reading energy counters", None),
    UsedCapability {
        // CAP_SYS_ADMIN includes everything that CAP_BPF and CAP_PERFMON allow.
        is_kept: false,
        ..kept(
            CAP_SYS_ADMIN,
            "entering network namespaces",
            Some("connections older than mpwatch stay unseen"),
        )
    },
    kept(
        CAP_SYS_PTRACE,
        "finding the network namespaces of other users' processes",
        Some("connections in them that are older than mpwatch stay unseen"),
    ),
];

/// Drops every capability that tracing no longer needs, for this thread and the threads that it will start.
pub(crate) fn drop_to_kept() -> anyhow::Result<()> {
    keep(&USED.iter().filter(|used| used.is_kept).map(|used| used.id).collect())
}

/// Drops every capability but these, for this thread and the threads that it will start.
#[cfg(feature = "control")]
pub(crate) fn drop_to(wanted: &[Capability]) -> anyhow::Result<()> {
    keep(&wanted.iter().copied().collect())
}

/// Runs `work` on a thread without capabilities. Threads started by `work` have none either.
pub(crate) fn without_any<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let unprivileged = || {
        keep(&HashSet::new())?;
        work()
    };
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("mpwatch-start".to_owned()).spawn_scoped(scope, unprivileged);
        let outcome = thread.context("cannot start a thread")?.join();
        outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked: this is a bug of mpwatch")))
    })
}

/// Gives up all capabilities of this thread but these.
fn keep(wanted: &CapsHashSet) -> anyhow::Result<()> {
    let failed = "cannot give up capabilities";
    let held = caps::read(None, CapSet::Permitted).context(failed)?;
    if held.contains(&CAP_SETPCAP) {
        // A program that this thread starts must not get other capabilities back, not even as root.
        for capability in caps::read(None, CapSet::Bounding).context(failed)?.difference(wanted) {
            caps::drop(None, CapSet::Bounding, *capability).context(failed)?;
        }
    }
    let left: CapsHashSet = held.intersection(wanted).copied().collect();
    // Ambient capabilities are a subset of the other sets, so they are cleared first.
    caps::clear(None, CapSet::Ambient).context(failed)?;
    caps::clear(None, CapSet::Inheritable).context(failed)?;
    caps::set(None, CapSet::Effective, &left).context(failed)?;
    caps::set(None, CapSet::Permitted, &left).context(failed)?;
    nix::sys::prctl::set_no_new_privs().context(failed)
}
