// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the daemon itself, for its metrics and its readiness.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
#[cfg(feature = "http-client")]
use mpwatch_model::metric::service::ExportState;
use mpwatch_model::metric::service::Service;

use super::process;
use crate::config::Config;
use crate::system::lock;

/// A snapshot is current for three intervals plus this time, because the machine may be busy.
const GRACE: Duration = Duration::from_secs(1);

/// The state of the daemon, which all threads share.
#[derive(Default)]
pub(super) struct Status {
    interval: Duration,
    started_at: Timestamp,
    ticked_at: Mutex<Option<Instant>>,
    service: Mutex<Service>,
    pub(super) stopping: AtomicBool,
    pub(super) readers: AtomicU64,
    pub(super) frames_dropped: AtomicU64,
    pub(super) clients_refused: Arc<AtomicU64>,
}

impl Status {
    pub(super) fn new(config: &Config) -> Self {
        let started_at = Timestamp::now();
        let service = Service {
            interval: config.interval.into(),
            config_ok: true,
            web_config_ok: true,
            config_read_at: Some(started_at),
            ..Service::default()
        };
        Self { interval: config.interval, started_at, service: Mutex::new(service), ..Self::default() }
    }

    pub(super) fn ticked(&self, took: Duration) {
        let mut service = lock(&self.service);
        service.ticks += 1;
        service.tick_took = took.into();
        *lock(&self.ticked_at) = Some(Instant::now());
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Service)) {
        change(&mut lock(&self.service));
    }

    #[cfg(feature = "http-client")]
    pub(super) fn export_is(&self, state: ExportState) {
        let exports = &mut lock(&self.service).exports;
        match exports.iter_mut().find(|export| export.target == state.target) {
            Some(export) => *export = state,
            None => exports.push(state),
        }
    }

    /// Fails without a snapshot, or if the latest one is older than three intervals plus [`GRACE`].
    pub(super) fn readiness(&self) -> Result<(), String> {
        let latest = lock(&self.ticked_at).ok_or("there is no snapshot yet")?;
        let age = latest.elapsed();
        if age > self.interval * 3 + GRACE {
            return Err(format!("the latest snapshot is {:.1} s old", age.as_secs_f64()));
        }
        Ok(())
    }

    /// All values, for the metrics. `merged`: number of label values merged into `__other__`.
    pub(super) fn service(&self, merged: u64) -> Service {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Service {
            readers: Some(read(&self.readers)),
            frames_dropped: Some(read(&self.frames_dropped)),
            clients_refused: read(&self.clients_refused),
            process: process::read(self.started_at),
            series_merged: merged,
            ..lock(&self.service).clone()
        }
    }
}
