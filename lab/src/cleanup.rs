// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of live namespaces, and their removal: on drop, on a signal, and after a crash.
//! Owns the process-wide register; knows nothing of what is inside a namespace, because
//! links, rules, queues and endpoints die with it.

use crate::error::{Error, Result};
use crate::netns::FOLDER;
use nix::mount::{MntFlags, umount2};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

const PREFIX: &str = "mpw-";
const LABEL_LENGTH: usize = 16;

static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static NEXT: AtomicU32 = AtomicU32::new(0);
static SIGNALS: OnceLock<()> = OnceLock::new();

/// Chooses a fresh name and remembers it until [`remove`].
pub(crate) fn register(label: &str) -> String {
    let label: String =
        label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(LABEL_LENGTH).collect();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
    live().insert(name.clone());
    name
}

/// Removes a namespace's file. Whatever still runs inside keeps the namespace itself alive until it ends.
pub(crate) fn remove(name: &str) {
    unmount(name);
    live().remove(name);
}

/// Removes every namespace of this process now.
pub fn remove_all() {
    let names: Vec<String> = live().iter().cloned().collect();
    for name in names {
        remove(&name);
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP remove this process's namespaces before they take their usual effect.
/// Calling it again does nothing.
///
/// # Errors
/// When the handler cannot be installed.
pub fn install_signal_cleanup() -> Result<()> {
    if SIGNALS.set(()).is_err() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::os("watch", "signals"))?;
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

/// Removes what earlier lab processes left that died without cleaning up (`kill -9`), and returns the names.
/// Namespaces of living processes are left alone.
///
/// # Errors
/// When `/run/netns` cannot be read.
pub fn sweep_stale() -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return Ok(Vec::new());
    };
    let mut swept = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::os("read", FOLDER))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !alive(pid)) {
            unmount(&name);
            swept.push(name);
        }
    }
    Ok(swept)
}

fn live() -> MutexGuard<'static, BTreeSet<String>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unmount(name: &str) {
    let path = Path::new(FOLDER).join(name);
    // Both fail when the namespace is already gone, which is what we want.
    let _ = umount2(&path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(&path);
}

/// The process that made a namespace of this name, or `None` when it is not one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

/// Whether the process lives. A number that was reused by another program would keep the leftover:
/// better one stale file than somebody's running lab.
fn alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_an_owner() {
        assert_eq!(owner("mpw-12-3-client"), Some(12));
        assert_eq!(owner("mpw-x-3-client"), None);
        assert_eq!(owner("other"), None);
    }
}
