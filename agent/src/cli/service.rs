// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of the service and of its configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::options::TraceOptions;

/// Options of `daemon`. Most are also keys of the configuration file and environment variables: see `mpwatch config show`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Daemon options")]
pub(crate) struct DaemonOptions {
    /// Read this configuration file [default: /etc/mpwatch/mpwatch.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen for `top`, `ls` and `show` at this Unix socket [default: /run/mpwatch/mpwatch.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Write every connection to this database, for `mpwatch report`; empty: no database [default: /var/lib/mpwatch/flows.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<String>,
    /// Serve /metrics at this address [default: 127.0.0.1:9917]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Read the web server's TLS and basic auth from this web-config file (Prometheus format) [default: neither]
    #[arg(long = "web.config.file", alias = "web-config", value_name = "FILE")]
    pub(crate) web_config: Option<String>,
    /// Set the time between two snapshots, 100ms to 60s [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) interval: Option<String>,
    /// Export per-connection series for the N largest connections [default: 0]
    #[arg(long = "metrics.top-flows", value_name = "N")]
    pub(crate) top_flows: Option<String>,
    /// Store a sample of every connection at this interval, 100ms to 600s [default: an eighth of the connection's age, at most 10s]
    #[arg(long, value_name = "STEP")]
    pub(crate) samples: Option<String>,
    /// Label the runs of this daemon, for example `site=berlin`; once per label
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Set the log level: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Set the log format: text, json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and report its errors
    Check(DaemonOptions),
    /// Print the values in effect
    Show {
        /// Print where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        options: DaemonOptions,
    },
    /// Print the JSON Schema of the configuration file
    Schema,
}
