// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch daemon` and `mpwatch config`. Turns the command line into a layer of the configuration.

use std::path::Path;

use mpwatch_exporters::http::Access;

use super::output::print;
use crate::cli::{ConfigCommand, DaemonOptions, TraceOptions};
use crate::config::{Layers, schema};
use crate::daemon;
use crate::error::exit;
use crate::quantity::in_percent;

pub(super) fn run(options: &DaemonOptions) -> anyhow::Result<()> {
    let trace = options.trace.clone();
    let outcome = daemon::run(layers(options), move |config, stop| {
        let trace = TraceOptions {
            tcp: config.tcp,
            ledger: Some(config.ledger),
            budget: Some(config.budget),
            no_bottlenecks: !config.bottlenecks,
            ring_size: Some(config.ring_bytes),
            overflow_size: Some(config.overflow_bytes),
            ..trace
        };
        let mut live = trace.start(config.interval, stop)?;
        live.describe(|setup| setup.labels.clone_from(&config.labels));
        Ok(live)
    });
    outcome.map_err(exit::daemon_error)
}

pub(super) fn config(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check(options) => {
            let layers = layers(options);
            let loaded = layers.load()?;
            loaded.config.web_config.as_deref().map(Access::from_file).transpose()?;
            #[cfg(feature = "http-client")]
            daemon::export::from_config(&loaded.config)?;
            let (path, exists) = layers.file();
            let file = if exists {
                "read from"
            } else {
                "values come from options, environment and defaults, because there is no file"
            };
            print(&format!("the configuration is valid\n{file} {}", path.display()))
        }
        ConfigCommand::Show { origin, options } => print(&layers(options).load()?.show(*origin)),
        ConfigCommand::Schema => print(&format!("{:#}", schema())),
    }
}

/// Makes a path absolute: the configuration accepts absolute paths only. An empty path stays empty.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned());
    absolute.unwrap_or_else(|_| path.to_owned())
}

/// The values of the command line, by configuration key.
fn layers(options: &DaemonOptions) -> Layers {
    let trace = &options.trace;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let given = [
        ("interval", options.interval.clone()),
        ("socket", options.socket.as_deref().map(path)),
        ("store.path", options.db.as_deref().map(absolute)),
        ("web.listen", options.listen.clone()),
        ("web.config", options.web_config.clone()),
        ("metrics.top_flows", options.top_flows.clone()),
        ("trace.tcp", trace.tcp.then(|| "true".to_owned())),
        ("trace.ledger", trace.ledger.map(|mode| mode.as_str().to_owned())),
        ("trace.budget", trace.budget.map(in_percent)),
        ("trace.bottlenecks", trace.no_bottlenecks.then(|| "false".to_owned())),
        ("trace.ring_size", trace.ring_size.map(|bytes| bytes.to_string())),
        ("trace.overflow_size", trace.overflow_size.map(|bytes| bytes.to_string())),
        ("trace.method", trace.method.map(|method| method.as_str().to_owned())),
        ("store.sample_step", options.samples.clone()),
        ("labels", (!options.labels.is_empty()).then(|| options.labels.join(","))),
        ("log.level", options.log_level.clone()),
        ("log.format", options.log_format.clone()),
    ];
    let flags = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Layers { file: options.config.clone(), flags }
}
