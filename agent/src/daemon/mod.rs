// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service: traces, and hands every snapshot to those who serve or keep it. The tracker and all outlets are fed by one thread;
//! whatever may wait (web server, socket, signals) has threads of its own and sees only finished snapshots.

mod control;
mod log;
mod metrics;
mod notify;
mod outlet;
mod process;
mod socket;
mod status;
mod store;

use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use mpwatch_exporters::http::{Access, Server};
use mpwatch_model::unit::Nanos;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::config::{Layers, Loaded};
use crate::live::Live;
use crate::privilege::{drop_to_kept, without_any};
use crate::session::{self, Outlook};
use crate::source::EventSource as _;
use metrics::{Metrics, Site};
use mpwatch_engine::tracker::Closed;
use outlet::Outlet;
pub(crate) use socket::PROTOCOL;
use socket::Socket;
use status::Status;
use store::Database;

/// Runs until SIGTERM or SIGINT. `trace` attaches to the kernel, with what is configured.
pub(crate) fn run(
    layers: Layers,
    trace: impl FnOnce(&Loaded, Arc<AtomicBool>) -> anyhow::Result<Live>,
) -> anyhow::Result<()> {
    let loaded = layers.load()?;
    let config = &loaded.config;
    log::start(config);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listening for signals")?;
    }
    let status = Arc::new(Status::new(config));
    // Before anything is attached: who cannot serve need not trace.
    let listener = TcpListener::bind(config.listen).with_context(|| {
        format!("cannot listen at {}; another program may, or set `web.listen` (--listen)", config.listen)
    })?;
    let access =
        config.web_config.as_deref().map_or_else(|| Ok(Access::unrestricted()), Access::from_file)?;
    let socket = Socket::listen(config, Arc::clone(&status))?;
    let control = without_any(|| control::start(layers, config.clone(), Arc::clone(&status)))?;
    let database = without_any(|| Database::open(config, Arc::clone(&status)))?;
    let mut live = trace(&loaded, stop)?;
    drop_to_kept()?;
    let site = Arc::new(Site::new(Arc::clone(&status)));
    let refused = Arc::clone(&status.clients_refused);
    let server = Server::start(listener, access, Arc::clone(&site) as _, refused)
        .context("starting the web server")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %server.address(), socket = %config.socket.display(), interval = ?config.interval, "tracing");
    let mut outlets: Vec<Box<dyn Outlet>> = vec![Box::new(Metrics::new(config, site)), Box::new(socket)];
    if let Some(mut database) = database {
        database.began(live.start().began());
        outlets.push(Box::new(database));
    }
    let outlook = Outlook { closed: Closed::Forget, method: config.method };
    let outcome = serve(&mut live, &mut outlets, &control, &status, outlook);
    notify::tell("STOPPING=1");
    tracing::info!("stopping");
    for outlet in &mut outlets {
        outlet.finish();
    }
    drop(server);
    outcome
}

fn serve(
    live: &mut Live,
    outlets: &mut [Box<dyn Outlet>],
    control: &control::Control,
    status: &Status,
    outlook: Outlook,
) -> anyhow::Result<()> {
    let mut is_ready = false;
    session::run(live, outlook, None, |snapshot| {
        let began = Instant::now();
        if let Some(config) = control.changed() {
            for outlet in outlets.iter_mut() {
                outlet.configure(&config);
            }
        }
        let mut snapshot = snapshot;
        for outlet in outlets.iter() {
            outlet.add_losses(&mut snapshot.losses);
        }
        let snapshot = Arc::new(snapshot);
        for outlet in outlets.iter_mut() {
            outlet.take(&snapshot);
        }
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        status.ticked(Nanos(took));
        if !is_ready {
            is_ready = true;
            notify::tell("READY=1");
        }
        Ok(ControlFlow::Continue(()))
    })?;
    status.stopping.store(true, Ordering::Relaxed);
    Ok(())
}
