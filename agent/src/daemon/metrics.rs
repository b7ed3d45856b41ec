// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots for Prometheus: sums are taken on the tracker's thread, once a tick; a scrape only writes down what is there.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use mpwatch_exporters::http::{Pages, WebConfigError};
use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::prometheus::{MetricValues, Settings, Totals, expose};
use mpwatch_model::snapshot::Snapshot;

use super::outlet::Outlet;
use super::status::Status;
use crate::config::Config;

/// What is scraped: replaced as a whole, never changed.
struct Published {
    snapshot: Arc<Snapshot>,
    values: MetricValues,
}

/// What the web server serves.
pub(super) struct Site {
    status: Arc<Status>,
    latest: RwLock<Option<Arc<Published>>>,
}

impl Site {
    pub(super) fn new(status: Arc<Status>) -> Self {
        Self { status, latest: RwLock::new(None) }
    }
}

impl Pages for Site {
    fn metrics(&self) -> Result<String, String> {
        let began = Instant::now();
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Published { snapshot, values } = &*latest.ok_or("there is no snapshot yet")?;
        let service = self.status.service(values.merged);
        let text = expose(snapshot, values, &service);
        self.status.scraped(began.elapsed());
        text.map_err(|error| format!("cannot write the metrics: {error}"))
    }

    fn flows(&self) -> Result<String, String> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner).clone();
        let latest = latest.ok_or("there is no snapshot yet")?;
        json::snapshot(&latest.snapshot, Layout::Line)
            .map_err(|error| format!("cannot write the flows: {error}"))
    }

    fn readiness(&self) -> Result<(), String> {
        self.status.readiness()
    }

    fn web_config_reloaded(&self, outcome: Result<(), WebConfigError>) {
        self.status.web_config_ok.store(outcome.is_ok(), Ordering::Relaxed);
        match outcome {
            Ok(()) => tracing::info!("web-config file and certificates read again"),
            Err(error) => tracing::error!(%error, "TLS and basic auth stay as they were"),
        }
    }
}

/// The way out to Prometheus.
pub(super) struct Metrics {
    totals: Totals,
    site: Arc<Site>,
}

fn settings(config: &Config) -> Settings {
    Settings { top_flows: config.top_flows }
}

impl Metrics {
    pub(super) fn new(config: &Config, site: Arc<Site>) -> Self {
        Self { totals: Totals::new(settings(config)), site }
    }
}

impl Outlet for Metrics {
    fn take(&mut self, snapshot: &Arc<Snapshot>) {
        self.totals.update(snapshot);
        let published = Published { snapshot: Arc::clone(snapshot), values: self.totals.values() };
        *self.site.latest.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(published));
    }

    fn configure(&mut self, config: &Config) {
        self.totals.configure(settings(config));
    }
}
