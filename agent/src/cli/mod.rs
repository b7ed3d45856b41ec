// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line as a tree of clap commands, from which parser, help, man pages and shell completions are derived.

mod compare;
#[cfg(feature = "control")]
mod control;
mod demo;
#[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
mod export;
mod hints;
mod options;
mod service;
#[cfg(feature = "http-client")]
mod target;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::host::setup::Label;

pub(crate) use compare::*;
#[cfg(feature = "control")]
pub(crate) use control::*;
pub(crate) use demo::*;
#[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
pub(crate) use export::*;
pub(crate) use options::*;
pub(crate) use service::*;
pub(crate) use why::WhyOptions;

use crate::quantity::{parse_count, parse_interval, parse_step};
use crate::system::paths;
use crate::time_spec::TimeSpec;

/// Observe Multipath TCP: connections, subflows, bottlenecks and energy of this machine
///
/// Without a command, mpwatch runs `top`.
#[derive(Debug, Parser)]
#[command(
    name = "mpwatch",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "COMMAND",
    after_long_help = format!("{}\n\nExit codes:\n{EXIT_CODES}", filter_help())
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Without a command, mpwatch runs `top`.
    #[command(flatten)]
    pub(crate) top: TopOptions,
}

impl Cli {
    /// Parses arguments. Prints a message and exits if they are wrong.
    pub(crate) fn from_words(words: Vec<OsString>) -> Self {
        let all = std::iter::once(OsString::from("mpwatch")).chain(words.iter().cloned());
        Self::try_parse_from(all).unwrap_or_else(|error| {
            let words = words.into_iter().filter_map(|word| word.into_string().ok());
            hints::with_hint(error, Self::command(), &words.collect::<Vec<_>>()).exit()
        })
    }

    /// The value of `--method`. `None`: the option is not given, or the command has no such option.
    pub(crate) fn method(&self) -> Option<DetectionMethod> {
        match &self.command {
            None => self.top.view.trace.method,
            Some(Command::Top(options)) => options.view.trace.method,
            Some(Command::Ls(options)) => options.view.trace.method,
            Some(Command::Show(options)) => options.view.trace.method,
            Some(Command::Record(options)) => options.trace.method,
            Some(Command::Replay(options)) => options.method,
            Some(Command::Demo(options)) => options.trace.method,
            #[cfg(feature = "control")]
            Some(Command::Control(ControlCommand::Eliminate(options))) => options.trace.method,
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show connections and subflows in a live view; q quits
    #[command(after_long_help = filter_help())]
    Top(TopOptions),
    /// List open connections and exit
    #[command(after_long_help = filter_help())]
    Ls(ListOptions),
    /// Show one connection with its subflows and its timeline
    #[command(after_long_help = filter_help())]
    Show(ShowOptions),
    /// Explain why connections do not use MPTCP or have no second path, with a command that fixes it
    #[command(after_long_help = why::WHY_HELP)]
    Why(WhyOptions),
    /// Run as a service: trace, serve metrics to Prometheus and snapshots to `top`, `ls` and `show`
    Daemon(DaemonOptions),
    /// Check or print the configuration of the daemon
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Record raw events to a file until Ctrl-C, then print a report
    #[command(after_long_help = filter_help())]
    Record(RecordOptions),
    /// Read a recording and print its report
    #[command(after_long_help = filter_help())]
    Replay(ReplayOptions),
    /// Print a report from a database. Works offline and unprivileged
    #[command(after_long_help = filter_help())]
    Report(PeriodOptions),
    /// Compare the connections of two databases or recordings, with confidence intervals
    #[command(after_long_help = filter_help())]
    Compare(CompareOptions),
    /// Export the connections of a database to ClickHouse, an OpenTelemetry Collector or Parquet files
    #[cfg(any(feature = "clickhouse", feature = "otlp", feature = "parquet"))]
    #[command(subcommand)]
    Export(ExportCommand),
    /// Check whether this machine, or another kernel, can be traced
    Doctor(DoctorOptions),
    /// Measure the machine's power curve, for more accurate energy figures (takes at least a minute; keep the machine idle)
    Calibrate(CalibrateOptions),
    /// Run MPTCP traffic in private namespaces and show its connections; the namespaces are removed at the end
    #[command(after_long_help = filter_help())]
    Demo(DemoOptions),
    /// Compare the counters of mpwatch with the kernel's own counters, for a known transfer
    Selftest {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Repeat experiments of published papers in private namespaces, and compare the results with the papers (package mpwatch-study)
    #[command(disable_help_flag = true)]
    Study {
        /// Arguments of the program mpwatch-study
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Change connections of this machine; all other commands only observe
    #[cfg(feature = "control")]
    #[command(subcommand)]
    Control(ControlCommand),
    /// Print the completion script of a shell
    Completions {
        /// Name of the shell
        shell: Shell,
    },
    /// Print the man page of mpwatch, or of a command
    Man(ManOptions),
}

/// The exit codes for help and man pages, one per line.
pub(crate) const EXIT_CODES: &str = "  0  success
  1  failure
  2  wrong usage
  3  the kernel lacks something
  4  not permitted
  5  no such connection";

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TopOptions {
    /// Print snapshots as text instead of opening the live view
    #[arg(long, short)]
    pub(crate) batch: bool,
    /// Exit after this many snapshots
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count::<u64>)]
    pub(crate) count: Option<u64>,
    /// Set the time between two snapshots, 100ms to 60s, and trace without the daemon [default: 1s, or the daemon's]
    #[arg(long, short, value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// With --batch: print one JSON object per line
    #[arg(long, requires = "batch")]
    pub(crate) json: bool,
    /// With --batch: also write every connection to this database, for `mpwatch report`
    #[arg(long, value_name = "FILE", requires = "batch")]
    pub(crate) db: Option<PathBuf>,
    /// With --db: store a sample of every connection at this interval, 100ms to 600s [default: an eighth of the connection's age, at most 10s]
    #[arg(long, value_name = "STEP", value_parser = parse_step, requires = "db")]
    pub(crate) samples: Option<Duration>,
    /// With --db: label this run, for example `scheduler=default`; once per label
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "db")]
    pub(crate) labels: Vec<Label>,
    #[command(flatten)]
    pub(crate) view: ViewOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListOptions {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV, one row per subflow
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) view: ViewOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ShowOptions {
    /// Id or token of the connection, or a prefix of either
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) view: ViewOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RecordOptions {
    /// File to write; only the owner can read a new file
    pub(crate) file: PathBuf,
    /// Replace an existing recording
    #[arg(long)]
    pub(crate) force: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_count::<u64>)]
    pub(crate) seconds: Option<u64>,
    /// Set the time between two snapshots, 100ms to 60s [default: 1s, or the step of --samples if that is less]
    #[arg(long, short, value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    #[command(flatten)]
    pub(crate) label: LabelOptions,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ReplayOptions {
    /// Recording to read
    pub(crate) file: PathBuf,
    /// Print every snapshot instead of a report, one JSON object per line
    #[arg(long)]
    pub(crate) snapshots: bool,
    /// Open the live view instead of printing a report; Space pauses, the bracket keys step
    #[arg(long, conflicts_with_all = ["snapshots", "output", "db"])]
    pub(crate) screen: bool,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Detect shared bottlenecks with this method; other methods than the default need the package mpwatch-study [default: concordance]
    #[arg(long, value_name = "NAME", value_parser = word_parser!(DetectionMethod, description))]
    pub(crate) method: Option<DetectionMethod>,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
}

/// Options for the output of a report.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportOptions {
    /// Set the format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write the report to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print all of a long report on a terminal, through a pager (PAGER, or less), instead of a summary
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PeriodOptions {
    /// Read this database
    #[arg(long, value_name = "FILE", default_value = paths::DATABASE)]
    pub(crate) db: PathBuf,
    /// Omit connections that closed before this time: a duration before now (90s, 15m, 2h, 7d, 4w), a time of the day (14:05), today, yesterday or a date (2026-03-01, 2026-03-01T12:00). Local time unless it ends in Z (UTC)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<TimeSpec>,
    /// Omit connections that opened after this time. A time of the day (14:05) means its first occurrence after --since
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<TimeSpec>,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Plain text
    Text,
    /// Markdown, for example to paste into an issue
    Markdown,
    /// HTML page with drawings, in a single file
    Html,
    /// JSON
    Json,
    /// CSV: one row per subflow, with the columns of its connection
    Csv,
    /// CSV: one row per connection
    CsvConnections,
    /// CSV: one row per sample of a subflow; needs a database
    CsvSamples,
    /// CSV: bytes and share of traffic per link and minute
    Links,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ManOptions {
    /// Command whose page is printed [default: the page of mpwatch]
    pub(crate) command: Option<String>,
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Check the kernel with the BTF in this file instead of this machine
    #[arg(long, value_name = "FILE", conflicts_with = "sysfs_root")]
    pub(crate) btf: Option<PathBuf>,
    /// Read energy counters below this directory instead of /sys
    #[arg(long, value_name = "DIR", value_parser = parse_directory)]
    pub(crate) sysfs_root: Option<PathBuf>,
    /// Check instead whether the configuration allows a second path, in each network namespace: endpoints, limits, routes, listeners. PEER: ADDRESS or HOST, to check the routes to it [default: any]
    #[arg(long, value_name = "PEER", num_args = 0..=1, default_missing_value = ANY_PEER, conflicts_with_all = ["btf", "sysfs_root"])]
    pub(crate) paths: Option<String>,
}

/// The value of `doctor --paths` without a peer.
pub(crate) const ANY_PEER: &str = "any";

#[derive(Args, Clone, Debug)]
pub(crate) struct CalibrateOptions {
    /// Measure only idle power and full load, and report the difference from the power file
    #[arg(long)]
    pub(crate) verify: bool,
    /// Run each load this long before measuring its power: clock rates and fans adapt slowly
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "3s")]
    pub(crate) settle: Duration,
    /// Measure each load this long
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "10s")]
    pub(crate) measure: Duration,
    #[command(flatten)]
    pub(crate) counters: CounterOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_tree_is_valid() {
        Cli::command().debug_assert();
    }
}
