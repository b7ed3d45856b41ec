// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles SIGHUP and notifies systemd's watchdog, on a separate thread: the main loop may wait a minute for its next tick.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::notify;
use super::status::Status;
use crate::config::{Config, Layers};
use crate::system::clock::ClockPair;
use crate::system::lock;

/// Time between two checks for signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A reloaded configuration that is not yet applied. `None`: there is none.
pub(super) type Reloaded = Arc<Mutex<Option<Config>>>;

/// Starts the thread. From now on SIGHUP reloads the configuration.
pub(super) fn start(layers: Layers, config: Config, status: Arc<Status>) -> anyhow::Result<Reloaded> {
    let signals = Signals::new([SIGHUP]).context("cannot listen for SIGHUP")?;
    let changed = Reloaded::default();
    let reload = Reload { layers, at_start: config, changed: Arc::clone(&changed), status };
    let thread = thread::Builder::new().name("mpwatch-control".to_owned());
    thread.spawn(move || reload.watch(signals)).context("cannot start a thread")?;
    Ok(changed)
}

struct Reload {
    layers: Layers,
    at_start: Config,
    changed: Reloaded,
    status: Arc<Status>,
}

impl Reload {
    fn watch(&self, mut signals: Signals) {
        let watchdog = notify::watchdog_interval();
        let mut notified = Instant::now();
        while !self.status.stopping.load(Ordering::Relaxed) {
            if signals.pending().next().is_some() {
                self.run();
            }
            // Notify only while snapshots are current, so that systemd restarts a daemon whose tracker hangs.
            let is_due = watchdog.is_some_and(|interval| notified.elapsed() >= interval);
            if is_due && self.status.readiness().is_ok() {
                notify::send("WATCHDOG=1");
                notified = Instant::now();
            }
            thread::sleep(SIGNAL_CHECK_INTERVAL.min(watchdog.unwrap_or(SIGNAL_CHECK_INTERVAL)));
        }
    }

    fn run(&self) {
        let since_boot = ClockPair::now().monotonic.0 / 1_000;
        notify::send(&format!("RELOADING=1\nMONOTONIC_USEC={since_boot}"));
        let loaded = self.layers.load();
        self.status.update(|service| service.config_ok = loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                self.status.update(|service| service.config_read_at = Some(Timestamp::now()));
                match loaded.needs_restart(&self.at_start).join(", ") {
                    keys if keys.is_empty() => tracing::info!("configuration reloaded"),
                    keys => tracing::warn!(keys, "configuration reloaded; these keys need a restart"),
                }
                *lock(&self.changed) = Some(loaded.config);
            }
            Err(error) => tracing::error!(%error, "the configuration is unchanged"),
        }
        notify::send("READY=1");
    }
}
