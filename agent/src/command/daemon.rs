// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch daemon` and `mpwatch config`: from the command line to the layers of the configuration.

use std::process::ExitCode;

use mpwatch_exporters::http::Access;

use super::{print, trace};
use crate::cli::{ConfigAction, DaemonOptions, Scope};
use crate::config::{ConfigError, Layers, schema};
use crate::daemon;

pub(super) fn run(options: &DaemonOptions, scope: &Scope) -> anyhow::Result<()> {
    follows_all(scope)?;
    let scope = scope.clone();
    daemon::run(layers(options, &scope), move |loaded, stop| {
        let config = &loaded.config;
        let traced = Scope { tcp: config.tcp, no_ledger: !config.ledger, ..scope };
        trace(config.interval, &traced, stop)
    })
}

/// What narrows the view is for who looks.
fn follows_all(scope: &Scope) -> Result<(), ConfigError> {
    if scope.netns.is_some() || scope.filter.is_some() { Err(ConfigError::KeepsAll) } else { Ok(()) }
}

pub(super) fn config(action: &ConfigAction, scope: &Scope) -> anyhow::Result<ExitCode> {
    match action {
        ConfigAction::Check { options } => {
            follows_all(scope)?;
            let loaded = layers(options, scope).load()?;
            loaded.config.web_config.as_deref().map(Access::from_file).transpose()?;
            print("the configuration is good")?;
        }
        ConfigAction::Show { origin, options } => {
            print(&layers(options, scope).load()?.show(*origin))?;
        }
        ConfigAction::Schema => print(&format!("{:#}", schema()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// On a command line a path may be relative; nothing stays nothing.
fn from_here(path: &str) -> String {
    let whole = std::path::absolute(path).map(|path| path.to_string_lossy().into_owned());
    whole.unwrap_or_else(|_| path.to_owned())
}

/// What the command line says, by the names of the keys.
fn layers(options: &DaemonOptions, scope: &Scope) -> Layers {
    let given = [
        ("interval", options.interval.clone()),
        ("socket", scope.socket.as_ref().map(|path| path.to_string_lossy().into_owned())),
        ("store.path", options.db.as_deref().map(from_here)),
        ("web.listen", options.listen.clone()),
        ("web.config", options.web_config.clone()),
        ("metrics.top_flows", options.top_flows.clone()),
        ("trace.tcp", scope.tcp.then(|| "true".to_owned())),
        ("trace.ledger", scope.no_ledger.then(|| "false".to_owned())),
        ("trace.method", scope.method.map(|method| method.as_str().to_owned())),
        ("log.level", options.log_level.clone()),
        ("log.format", options.log_format.clone()),
    ];
    let flags = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Layers { file: options.config.clone(), flags }
}
