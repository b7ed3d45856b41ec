// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns snapshots into metrics for Prometheus. Sums are computed once per tick, on the tracker's thread; a scrape only formats them.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use mpwatch_exporters::http::{Pages, WebConfigError};
use mpwatch_exporters::prometheus::{MetricValues, Totals, expose};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_report::json::{self, Layout};

use super::sink::SnapshotSink;
use super::status::Status;
use crate::config::Config;
use crate::system::lock;

/// The values that are served until the next tick.
struct Published {
    snapshot: Arc<Snapshot>,
    values: MetricValues,
}

pub(super) struct Site {
    status: Arc<Status>,
    latest: Mutex<Option<Arc<Published>>>,
}

impl Site {
    pub(super) fn new(status: Arc<Status>) -> Self {
        Self { status, latest: Mutex::new(None) }
    }

    fn latest(&self) -> Result<Arc<Published>, String> {
        lock(&self.latest).clone().ok_or_else(|| "there is no snapshot yet".to_owned())
    }
}

impl Pages for Site {
    fn metrics(&self) -> Result<String, String> {
        let began = Instant::now();
        let Published { snapshot, values } = &*self.latest()?;
        let text = expose(snapshot, values, &self.status.service(values.merged));
        self.status.update(|service| {
            service.scrapes += 1;
            service.scrape_took = Some(began.elapsed().into());
        });
        Ok(text)
    }

    fn flows(&self) -> Result<String, String> {
        json::text(&*self.latest()?.snapshot.complete(), Layout::Line)
            .map_err(|error| format!("cannot format the flows: {error}"))
    }

    fn readiness(&self) -> Result<(), String> {
        self.status.readiness()
    }

    fn web_config_reloaded(&self, outcome: Result<(), WebConfigError>) {
        self.status.update(|service| service.web_config_ok = outcome.is_ok());
        match outcome {
            Ok(()) => tracing::info!("web-config file and certificates reloaded"),
            Err(error) => tracing::error!(%error, "cannot reload TLS and basic auth: they are unchanged"),
        }
    }
}

/// Updates the values that the web server serves.
pub(super) struct Metrics {
    totals: Totals,
    site: Arc<Site>,
}

impl Metrics {
    pub(super) fn new(config: &Config, site: Arc<Site>) -> Self {
        Self { totals: Totals::new(config.top_flows as usize), site }
    }
}

impl SnapshotSink for Metrics {
    fn consume(&mut self, snapshot: &Arc<Snapshot>) {
        self.totals.update(snapshot);
        let published = Published { snapshot: Arc::clone(snapshot), values: self.totals.values() };
        *lock(&self.site.latest) = Some(Arc::new(published));
    }

    fn configure(&mut self, config: &Config) {
        self.totals.set_top_flows(config.top_flows as usize);
    }
}
