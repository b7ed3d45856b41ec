// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of options that several commands share. A command includes only the groups that affect it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mpwatch_model::filter::{Filter, HELP};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::host::setup::Label;
use mpwatch_model::kernel::cpu::LedgerMode;

use crate::quantity::{parse_budget, parse_ring_size, parse_step};

/// Parser for the words of an enumeration, optionally with the help text of each word. clap suggests the nearest word.
macro_rules! word_parser {
    ($words:ident $(, $help:ident)?) => {{
        use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
        let words = $words::ALL.map(|value| PossibleValue::new(value.as_str())$(.help(value.$help()))?);
        PossibleValuesParser::new(words).map(|word| $words::from_word(&word).unwrap_or_default())
    }};
}
pub(super) use word_parser;

/// Options of commands that show snapshots.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ViewOptions {
    /// Read from the daemon at this Unix socket [default: /run/mpwatch/mpwatch.sock]
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

/// Options that select the connections to show.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filter options")]
pub(crate) struct FilterOptions {
    /// Show only connections in this network namespace: a name of `ip netns`, `host`, or `net:[INODE]`
    #[arg(long, value_name = "NAME")]
    pub(crate) netns: Option<String>,
    /// Show only matching connections, for example 'peer:10.0/16 proc:nginx rate>1M rtt>20ms'
    #[arg(long, value_name = "EXPRESSION", value_parser = Filter::parse)]
    pub(crate) filter: Option<Filter>,
}

/// Options for storing connections.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StoreOptions {
    /// Also write every connection to this database, for `mpwatch report`
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// With --db: store a sample of every connection at this interval, 100ms to 600s [default: an eighth of the connection's age, at most 10s]
    #[arg(long, value_name = "STEP", value_parser = parse_step, requires = "db")]
    pub(crate) samples: Option<Duration>,
}

/// Options that describe a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LabelOptions {
    /// Label this run, for example `scheduler=default`; once per label. Reports and the database show it
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<Label>,
}

/// Options that select what to trace, and how.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tracing options")]
pub(crate) struct TraceOptions {
    /// Also trace plain TCP connections, as a baseline for comparison
    #[arg(long)]
    pub(crate) tcp: bool,
    /// Account for CPU time and energy all the time (`exact`), in short windows (`sampled`), or not at all (`off`) [default: sampled]
    #[arg(long, value_name = "MODE", value_parser = word_parser!(LedgerMode))]
    pub(crate) ledger: Option<LedgerMode>,
    /// Reduce tracing while mpwatch would use more than this share of the machine's CPU time [default: no limit; 1% for the daemon]
    #[arg(long, value_name = "PERCENT", value_parser = parse_budget)]
    pub(crate) budget: Option<f64>,
    /// Disable detection of shared bottlenecks (no delay samples on the packet path)
    #[arg(long)]
    pub(crate) no_bottlenecks: bool,
    /// Detect shared bottlenecks with this method; other methods than the default need the package mpwatch-study [default: concordance]
    #[arg(long, value_name = "NAME", value_parser = word_parser!(DetectionMethod, description), conflicts_with = "no_bottlenecks")]
    pub(crate) method: Option<DetectionMethod>,
    /// Set the size of the ring buffer for the final records of flows, a power of two [default: 8M]
    #[arg(long, value_name = "BYTES", value_parser = parse_ring_size)]
    pub(crate) ring_size: Option<u32>,
    /// Set the size of the overflow buffer, used when the buffer of --ring-size is full [default: 4M]
    #[arg(long, value_name = "BYTES", value_parser = parse_ring_size)]
    pub(crate) overflow_size: Option<u32>,
    #[command(flatten)]
    pub(crate) counters: CounterOptions,
}

/// Options that locate the energy counters and the power curve.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CounterOptions {
    /// Read energy counters below this directory instead of /sys
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    pub(crate) sysfs_root: Option<PathBuf>,
    /// Use this file for the power curve that `mpwatch calibrate` measures [default: /var/lib/mpwatch/power.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) power_file: Option<PathBuf>,
    /// Whether the counters are simulated.
    #[arg(skip)]
    pub(crate) simulated: bool,
}

/// The end of the long help of a command with `--filter`.
pub(super) fn filter_help() -> String {
    format!("Filter expressions:\n{HELP}")
}

/// Rejects a missing directory, which would look like a machine without counters.
pub(super) fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let directory = PathBuf::from(text);
    if directory.is_dir() { Ok(directory) } else { Err("there is no such directory".to_owned()) }
}
