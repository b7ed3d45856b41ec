// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts and times of the daemon's own work, for its metrics and its readiness.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_model::service::{Service, StoreState};
use mpwatch_model::unit::Nanos;

use super::process;
use crate::config::Config;
use crate::lock::lock;

/// A snapshot is current for three intervals and this long: the machine may be busy.
const GRACE: Duration = Duration::from_secs(1);

/// Shared by all threads. Each value is written by one of them.
pub(super) struct Status {
    interval: Duration,
    ticks: AtomicU64,
    /// Of the latest tick, nanoseconds.
    tick_took: AtomicU64,
    ticked_at: Mutex<Option<Instant>>,
    config_ok: AtomicBool,
    config_read_at_us: AtomicI64,
    pub(super) web_config_ok: AtomicBool,
    started_at: Timestamp,
    scrapes: AtomicU64,
    /// Of the latest scrape, nanoseconds.
    scrape_took: AtomicU64,
    pub(super) stopping: AtomicBool,
    pub(super) readers: AtomicU64,
    pub(super) frames_dropped: AtomicU64,
    pub(super) clients_refused: Arc<AtomicU64>,
    store: Mutex<Option<StoreState>>,
}

impl Status {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            interval: config.interval,
            ticks: AtomicU64::new(0),
            tick_took: AtomicU64::new(0),
            ticked_at: Mutex::new(None),
            config_ok: AtomicBool::new(true),
            config_read_at_us: AtomicI64::new(Timestamp::now().as_microsecond()),
            web_config_ok: AtomicBool::new(true),
            started_at: Timestamp::now(),
            scrapes: AtomicU64::new(0),
            scrape_took: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            readers: AtomicU64::new(0),
            frames_dropped: AtomicU64::new(0),
            clients_refused: Arc::default(),
            store: Mutex::default(),
        }
    }

    pub(super) fn ticked(&self, took: Nanos) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.tick_took.store(took.0, Ordering::Relaxed);
        *lock(&self.ticked_at) = Some(Instant::now());
    }

    pub(super) fn store_is(&self, state: StoreState) {
        *lock(&self.store) = Some(state);
    }

    pub(super) fn scraped(&self, took: Duration) {
        self.scrape_took.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.scrapes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn config_was_read(&self, succeeded: bool) {
        self.config_ok.store(succeeded, Ordering::Relaxed);
        if succeeded {
            self.config_read_at_us.store(Timestamp::now().as_microsecond(), Ordering::Relaxed);
        }
    }

    /// Fails if the latest snapshot is not current.
    pub(super) fn readiness(&self) -> Result<(), String> {
        let latest = lock(&self.ticked_at).ok_or("there is no snapshot yet")?;
        let age = latest.elapsed();
        if age > self.interval * 3 + GRACE {
            return Err(format!("the latest snapshot is {:.1} s old", age.as_secs_f64()));
        }
        Ok(())
    }

    /// All values, for the metrics. `merged`: number of series that were merged into the remainder.
    pub(super) fn service(&self, merged: u64) -> Service {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Service {
            ticks: read(&self.ticks),
            interval: Nanos(u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX)),
            tick_took: Nanos(read(&self.tick_took)),
            config_ok: self.config_ok.load(Ordering::Relaxed),
            web_config_ok: self.web_config_ok.load(Ordering::Relaxed),
            config_read_at: Timestamp::from_microsecond(self.config_read_at_us.load(Ordering::Relaxed)).ok(),
            readers: Some(read(&self.readers)),
            frames_dropped: Some(read(&self.frames_dropped)),
            clients_refused: read(&self.clients_refused),
            scrapes: read(&self.scrapes),
            scrape_took: (read(&self.scrapes) > 0).then(|| Nanos(read(&self.scrape_took))),
            process: process::read(self.started_at),
            series_merged: merged,
            store: *lock(&self.store),
        }
    }
}
