// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGHUP and the watchdog, on a thread of their own: a tick may be a minute away.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::notify;
use super::status::Status;
use crate::config::{Config, Layers};

/// How soon a signal is answered.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the thread has for the tracker.
pub(super) struct Control {
    changed: Arc<Mutex<Option<Config>>>,
}

impl Control {
    /// The configuration, if it has changed since the last call.
    pub(super) fn changed(&self) -> Option<Config> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Starts listening; from now on SIGHUP ends nothing.
pub(super) fn start(layers: Layers, config: Config, status: Arc<Status>) -> anyhow::Result<Control> {
    let signals = Signals::new([SIGHUP]).context("listening for SIGHUP")?;
    let changed = Arc::default();
    let control = Control { changed: Arc::clone(&changed) };
    let work = move || watch(signals, &Reload { layers, started_with: config, changed }, &status);
    thread::Builder::new().name("mpwatch-control".to_owned()).spawn(work).context("starting a thread")?;
    Ok(control)
}

struct Reload {
    layers: Layers,
    started_with: Config,
    changed: Arc<Mutex<Option<Config>>>,
}

fn watch(mut signals: Signals, reload: &Reload, status: &Status) {
    let pace = notify::watchdog();
    let mut told = Instant::now();
    while !status.stopping.load(Ordering::Relaxed) {
        if signals.pending().next().is_some() {
            reload.run(status);
        }
        // Only while snapshots come: a tracker that hangs is to be restarted.
        if pace.is_some_and(|pace| told.elapsed() >= pace) && status.readiness().is_ok() {
            notify::tell("WATCHDOG=1");
            told = Instant::now();
        }
        thread::sleep(PATIENCE.min(pace.unwrap_or(PATIENCE)));
    }
}

impl Reload {
    fn run(&self, status: &Status) {
        let since_boot = crate::clock::both().monotonic.0 / 1_000;
        notify::tell(&format!("RELOADING=1\nMONOTONIC_USEC={since_boot}"));
        let loaded = self.layers.load();
        status.config_was_read(loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                let later = loaded.needs_restart(&self.started_with);
                if later.is_empty() {
                    tracing::info!("configuration read again");
                } else {
                    tracing::warn!(keys = later.join(", "), "configuration read again; these need a restart");
                }
                *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(loaded.config);
            }
            Err(error) => tracing::error!(%error, "the configuration stays as it was"),
        }
        notify::tell("READY=1");
    }
}
