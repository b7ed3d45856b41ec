// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes network namespaces: on drop, on a signal, and after a crash of an earlier process.
//! Keeps a list of the namespaces that this process created. The kernel removes links, rules, queues and
//! endpoints together with their namespace.

use crate::error::{Error, Result};
use nix::mount::{MntFlags, umount2};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Directory in which `ip netns` creates a file for each named namespace.
pub(crate) const NETNS_DIR: &str = "/run/netns";
const PREFIX: &str = "mpw-";
const MAX_LABEL_LENGTH: usize = 16;

static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static NEXT: AtomicU32 = AtomicU32::new(0);
static SIGNALS: OnceLock<()> = OnceLock::new();

/// Chooses an unused name and lists it as in use until [`remove`].
pub(crate) fn register(label: &str) -> String {
    let label: String =
        label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(MAX_LABEL_LENGTH).collect();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
    live().insert(name.clone());
    name
}

/// Removes a namespace's file. The namespace itself exists until the last process inside ends.
pub(crate) fn remove(name: &str) {
    unmount(name);
    live().remove(name);
}

/// Removes every namespace that this process created.
pub fn remove_all() {
    let names: Vec<String> = live().iter().cloned().collect();
    for name in names {
        remove(&name);
    }
}

/// On SIGINT, SIGTERM and SIGHUP, removes the namespaces that this process created and then performs the
/// default action of the signal. A second call does nothing.
///
/// # Errors
/// When the handler cannot be installed.
pub fn install_signal_cleanup() -> Result<()> {
    if SIGNALS.set(()).is_err() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::os("handle", "signals"))?;
    thread::Builder::new()
        .name("lab-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                remove_all();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        })
        .map_err(Error::os("start", "the signal thread"))?;
    Ok(())
}

/// Removes the namespaces of processes that ended without cleaning up (`kill -9`), and returns their names.
/// Namespaces of running processes stay.
///
/// # Errors
/// If an entry of `/run/netns` cannot be read. A missing `/run/netns` is not an error.
pub fn sweep_stale() -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(NETNS_DIR) else {
        return Ok(Vec::new());
    };
    let mut removed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::os("read", NETNS_DIR))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !is_running(pid)) {
            unmount(&name);
            removed.push(name);
        }
    }
    Ok(removed)
}

fn live() -> MutexGuard<'static, BTreeSet<String>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unmount(name: &str) {
    let path = Path::new(NETNS_DIR).join(name);
    // Errors are ignored: both calls fail if the namespace is already gone.
    let _ = umount2(&path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(&path);
}

/// The process that created the namespace of this name. `None`: the lab did not create it.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

/// Whether a process with this id runs. If another program reuses the id, a stale file stays. This is better
/// than removing the namespaces of a running lab.
fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_lab_have_an_owner() {
        assert_eq!(owner("mpw-12-3-client"), Some(12));
        assert_eq!(owner("mpw-x-3-client"), None);
        assert_eq!(owner("other"), None);
    }
}
