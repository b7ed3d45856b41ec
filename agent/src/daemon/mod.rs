// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service. One thread traces and passes snapshots to the sinks; web server, socket and signals have threads of their own.

mod control;
mod elimination;
#[cfg(feature = "http-client")]
pub(crate) mod export;
mod log;
mod metrics;
mod notify;
mod process;
mod sink;
mod socket;
mod status;
mod store;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use mpwatch_engine::tracker::Closed;
use mpwatch_exporters::http::{Access, Server};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::companion;
use crate::config::{Config, Layers};
use crate::congestion;
use crate::control::journal::Journal;
use crate::error::Failure;
use crate::live::Live;
use crate::lock::lock;
use crate::privilege::{drop_to_kept, without_any};
use crate::session::{self, TrackerSettings};
use crate::signals::stop_flag_for;
use crate::source::EventSource;
use control::Reloaded;
use elimination::Elimination;
use metrics::{Metrics, Site};
use sink::SnapshotSink;
use socket::Socket;
use status::Status;
use store::Database;

/// Runs until SIGTERM or SIGINT. `trace` attaches to the kernel.
pub(crate) fn run(
    layers: Layers,
    trace: impl FnOnce(&Config, Arc<AtomicBool>) -> anyhow::Result<Live>,
) -> anyhow::Result<()> {
    let config = &layers.load()?.config;
    companion::require(config.method)?;
    log::start(config);
    let stop = stop_flag_for(&[SIGTERM, SIGINT])?;
    let status = Arc::new(Status::new(config));
    // Nothing is attached to the kernel until all of this works.
    let listener = TcpListener::bind(config.listen).map_err(|error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let hint = "`web.listen` or --listen sets another address";
        Failure::at_start(is_denied, format!("cannot listen at {} ({hint}): {error}", config.listen))
    })?;
    let access =
        config.web_config.as_deref().map_or_else(|| Ok(Access::unrestricted()), Access::from_file)?;
    let socket = Socket::listen(config, Arc::clone(&status))?;
    let reloaded = without_any(|| control::start(layers, config.clone(), Arc::clone(&status)))?;
    let database = without_any(|| Database::open(config, Arc::clone(&status)))?;
    #[cfg(feature = "http-client")]
    without_any(|| export::start(config, &status))?;
    let mut live = trace(config, Arc::clone(&stop))?;
    let congestion = config.congestion.then(congestion::register).transpose()?;
    let journal = Journal::default();
    let elimination = Elimination::start(config, journal.clone(), Arc::clone(&status))?;
    if elimination.is_some() {
        live = live.without_backoff();
    }
    drop_to_kept()?;
    let site = Arc::new(Site::new(Arc::clone(&status)));
    let refused = Arc::clone(&status.clients_refused);
    let server = Server::start(listener, access, Arc::clone(&site) as _, refused)
        .context("cannot start the web server")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %server.address(), socket = %config.socket.display(), interval = ?config.interval, "tracing");
    if congestion.is_some() {
        tracing::info!("the congestion control mptcpd is registered: sockets may select it");
    }
    let mut sinks: Vec<Box<dyn SnapshotSink>> = vec![Box::new(Metrics::new(config, site)), Box::new(socket)];
    if let Some(mut database) = database {
        database.began(live.start().began());
        sinks.push(Box::new(database));
    }
    let settings = TrackerSettings { closed: Closed::Forget, method: config.method, shares_idle: true };
    let mut outputs = Outputs { sinks, elimination, stop };
    let mut source = journal.around(&mut live);
    let outcome = serve(&mut source, settings, &mut outputs, &reloaded, &status);
    notify::send("STOPPING=1");
    tracing::info!("stopping");
    for sink in &mut outputs.sinks {
        sink.finish();
    }
    drop(server);
    if let Some(registration) = congestion {
        registration.end();
        tracing::info!("mptcpd is unregistered; sockets that use it keep it until they close");
    }
    outcome
}

/// What takes the snapshots.
struct Outputs {
    sinks: Vec<Box<dyn SnapshotSink>>,
    elimination: Option<Elimination>,
    /// Whether this snapshot is the last one.
    stop: Arc<AtomicBool>,
}

fn serve(
    source: &mut dyn EventSource,
    settings: TrackerSettings,
    Outputs { sinks, elimination, stop }: &mut Outputs,
    reloaded: &Reloaded,
    status: &Status,
) -> anyhow::Result<()> {
    let mut is_ready = false;
    session::run(source, settings, None, |mut snapshot| {
        let began = Instant::now();
        let config = lock(reloaded).take();
        if let Some(config) = config {
            for sink in sinks.iter_mut() {
                sink.configure(&config);
            }
        }
        for sink in sinks.iter() {
            sink.add_losses(&mut snapshot.losses);
        }
        // What happened at the last snapshot would be in no later one, so not in the database either.
        if let Some(elimination) = elimination
            && !stop.load(Ordering::Relaxed)
        {
            elimination.take(&snapshot);
        }
        let snapshot = Arc::new(snapshot);
        for sink in sinks.iter_mut() {
            sink.take(&snapshot);
        }
        status.ticked(began.elapsed());
        if !is_ready {
            is_ready = true;
            notify::send("READY=1");
        }
        Ok(true)
    })?;
    status.stopping.store(true, Ordering::Relaxed);
    Ok(())
}
