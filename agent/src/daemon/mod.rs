// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service. One thread traces and passes snapshots to the sinks; web server, socket and signals have threads of their own.

#[cfg(feature = "control")]
mod control;
#[cfg(feature = "http-client")]
pub(crate) mod export;
mod metrics;
mod notify;
mod reload;
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
use mpwatch_model::flow::elimination::EliminationMode;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::config::{Config, Layers};
use crate::error::Failure;
#[cfg(not(feature = "control"))]
use crate::error::KERNEL;
use crate::live::kernel::Live;
use crate::live::session::{self, TrackerSettings};
use crate::live::source::EventSource;
use crate::system::privilege::{drop_to_kept, without_any};
use crate::system::{companion, lock, stop_flag_for};
#[cfg(feature = "control")]
use control::Elimination;
use metrics::{Metrics, Site};
use reload::Reloaded;
use sink::SnapshotSink;
use socket::Socket;
use status::Status;
use store::StoreSink;

/// Runs until SIGTERM or SIGINT. `trace` attaches to the kernel.
pub(crate) fn run(
    layers: Layers,
    trace: impl FnOnce(&Config, Arc<AtomicBool>) -> anyhow::Result<Live>,
) -> anyhow::Result<()> {
    let config = &layers.load()?.config;
    companion::require(config.method)?;
    start_log(config);
    let stop = stop_flag_for(&[SIGTERM, SIGINT])?;
    let status = Arc::new(Status::new(config));
    // The following steps must succeed before anything is attached to the kernel.
    let listener = TcpListener::bind(config.listen).map_err(|error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let hint = "`web.listen` or --listen sets another address";
        Failure::at_start(is_denied, format!("cannot listen at {} ({hint}): {error}", config.listen))
    })?;
    let mut access =
        config.web_config.as_deref().map_or_else(|| Ok(Access::unrestricted()), Access::from_file)?;
    access.hosts.clone_from(&config.web_hosts);
    let socket = Socket::listen(config, Arc::clone(&status))?;
    let reloaded = without_any(|| reload::start(layers, config.clone(), Arc::clone(&status)))?;
    let database = without_any(|| StoreSink::open(config, Arc::clone(&status)))?;
    #[cfg(feature = "http-client")]
    without_any(|| export::start(config, &status))?;
    #[cfg(not(feature = "control"))]
    refuse_control(config)?;
    let mut live = trace(config, Arc::clone(&stop))?;
    if config.eliminate != EliminationMode::Off {
        live = live.without_backoff();
    }
    let mut sinks: Vec<Box<dyn SnapshotSink>> = Vec::new();
    #[cfg(feature = "control")]
    let registration = control::register(config)?;
    #[cfg(feature = "control")]
    if let Some(elimination) = Elimination::start(config, live.journal.clone(), Arc::clone(&status), stop)? {
        sinks.push(Box::new(elimination));
    }
    drop_to_kept()?;
    let site = Arc::new(Site::new(Arc::clone(&status)));
    let refused = Arc::clone(&status.clients_refused);
    let pages = Arc::clone(&site) as _;
    let server = without_any(|| {
        Server::start(listener, access, pages, refused).context("cannot start the web server")
    })?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %server.address(), socket = %config.socket.display(), interval = ?config.interval, "tracing");
    sinks.push(Box::new(Metrics::new(config, site)));
    sinks.push(Box::new(socket));
    if let Some(mut database) = database {
        database.began(live.start().began());
        sinks.push(Box::new(database));
    }
    let settings = TrackerSettings { closed: Closed::Forget, method: config.method, shares_idle: true };
    let outcome = serve(&mut live, settings, &mut sinks, &reloaded, &status);
    notify::send("STOPPING=1");
    tracing::info!("stopping");
    for sink in &mut sinks {
        sink.finish();
    }
    drop(server);
    #[cfg(feature = "control")]
    if let Some(registration) = registration {
        control::unregister(registration);
    }
    outcome
}

/// Starts the log on standard error: one line per change of state, none per traced event.
fn start_log(config: &Config) {
    let has_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // Reporting a failed write (full disk, closed pipe) would write to standard error too, fail again, and panic.
        .log_internal_errors(false)
        .with_max_level(config.log_level);
    // Fails only on a second start in one process.
    let _ = match (config.log_json, has_journal) {
        (true, _) => builder.json().flatten_event(true).try_init(),
        // systemd's journal adds the time itself.
        (false, true) => builder.without_time().try_init(),
        (false, false) => builder.try_init(),
    };
}

/// Refuses settings that this build cannot apply.
#[cfg(not(feature = "control"))]
fn refuse_control(config: &Config) -> Result<(), Failure> {
    if !config.congestion && config.eliminate == EliminationMode::Off {
        return Ok(());
    }
    let message = "control.congestion and control.eliminate need a build with the cargo feature `control`, which this one lacks: remove them";
    Err(Failure { code: KERNEL, message: message.to_owned() })
}

fn serve(
    source: &mut dyn EventSource,
    settings: TrackerSettings,
    sinks: &mut [Box<dyn SnapshotSink>],
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
        let snapshot = Arc::new(snapshot);
        for sink in sinks.iter_mut() {
            sink.consume(&snapshot);
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
