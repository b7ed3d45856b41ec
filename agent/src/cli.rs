// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: the one tree from which parsing, help, man page and completions follow.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::filter::{Filter, HELP};

use crate::moment::Moment;

/// Watches Multipath TCP: every connection and subflow of this machine, live and exact.
#[derive(Debug, Parser)]
#[command(name = "mpwatch", version, max_term_width = 100, subcommand_required = false, after_long_help = after_help())]
pub(crate) struct Cli {
    /// What to do; without a command: `top`.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// What to trace and show.
    #[command(flatten)]
    pub(crate) scope: Scope,
}

fn after_help() -> String {
    format!(
        "Filter expressions:\n{HELP}\n\n\
         Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 the kernel lacks something, 4 not permitted, 5 no such connection"
    )
}

/// Options of every command that shows flows.
#[derive(Args, Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Scope {
    /// Also trace plain TCP, as the baseline to compare with
    #[arg(long, global = true)]
    pub(crate) tcp: bool,

    /// Do not account for CPU time and energy: tracing costs traffic less (docs/performance.md)
    #[arg(long, global = true)]
    pub(crate) no_ledger: bool,

    /// Do not look for subflows that share a bottleneck: no samples are taken on the packet path
    #[arg(long, global = true)]
    pub(crate) no_bottlenecks: bool,

    /// How to find subflows that share a bottleneck; the published methods are there to compare with [default: concordance]
    #[arg(long, global = true, value_name = "NAME", value_parser = methods(), conflicts_with = "no_bottlenecks", hide_short_help = true)]
    pub(crate) method: Option<DetectionMethod>,

    /// Look for energy counters below this folder instead of /sys
    #[arg(long, global = true, value_name = "DIR", value_parser = parse_folder)]
    pub(crate) sysfs_root: Option<PathBuf>,

    /// File of the machine's power curve, as `mpwatch calibrate` writes it
    #[arg(long, global = true, value_name = "FILE", default_value = crate::energy::calibration::PATH, hide_short_help = true)]
    pub(crate) power_file: PathBuf,

    /// Show only connections in this network namespace (a name of `ip netns`, `host`, or `net:[INODE]`)
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) netns: Option<String>,

    /// Show only connections that match, for example 'peer:10.0/16 proc:nginx rate>1M rtt>20ms'
    #[arg(long, global = true, value_name = "EXPRESSION", value_parser = parse_filter)]
    pub(crate) filter: Option<Filter>,

    /// Unix socket of the daemon: where it listens, and where `top`, `ls` and `show` attach [default: /run/mpwatch/mpwatch.sock]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) socket: Option<PathBuf>,

    /// Size of the kernel's buffer for closed flows (power of two, for example 4K or 8M)
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_ring_size, hide_short_help = true)]
    pub(crate) ring_size: Option<u32>,

    /// Size of the buffer that takes what the first has no room for
    #[arg(long, global = true, value_name = "BYTES", value_parser = parse_ring_size, hide_short_help = true)]
    pub(crate) overflow_size: Option<u32>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show connections and subflows live; Ctrl-C ends it
    Top(TopOptions),
    /// List connections once
    Ls {
        /// As one JSON object
        #[arg(long, conflicts_with = "csv")]
        json: bool,
        /// As CSV, one row a subflow
        #[arg(long)]
        csv: bool,
    },
    /// Show one connection with its subflows and its timeline
    Show {
        /// Id of the connection, its token, or the beginning of either
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The service: traces until it is stopped, serves metrics to Prometheus and snapshots to `top`, `ls` and `show`
    Daemon(DaemonOptions),
    /// The daemon's configuration
    Config {
        /// What to do with it
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Record raw events to a file, until Ctrl-C; prints a report at the end
    Record {
        /// File to write
        file: PathBuf,
        /// Stop after this time
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        seconds: Option<u64>,
        /// Time between two snapshots
        #[arg(long, value_name = "DURATION", value_parser = parse_interval, default_value = "1s")]
        interval: Duration,
        /// Also write every connection to this database, for `mpwatch report`
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
        #[command(flatten)]
        report: ReportOptions,
    },
    /// Read a recording and print the same report
    Replay {
        /// File to read
        file: PathBuf,
        /// Print every snapshot instead, one JSON object a line
        #[arg(long)]
        snapshots: bool,
        /// Show it in the live view instead: Space stops it, the keys of brackets step through it
        #[arg(long, conflicts_with_all = ["snapshots", "output", "db"])]
        screen: bool,
        /// Also write every connection to this database, for `mpwatch report`
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
        #[command(flatten)]
        report: ReportOptions,
    },
    /// Report what a database holds of a period; on any machine, without root
    Report(PeriodOptions),
    /// Check whether this machine, or another kernel, can be traced
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Check the BTF of another kernel in this file instead of this machine
        #[arg(long, value_name = "FILE", conflicts_with = "sysfs_root")]
        btf: Option<PathBuf>,
    },
    /// Measure how the machine's power follows its load, for better joules; takes a minute or more on an idle machine
    Calibrate(CalibrateOptions),
    /// Build private namespaces, run real MPTCP traffic in them, show it; leaves nothing behind
    Demo(DemoOptions),
    /// Compare our numbers with the kernel's own on a known transfer
    Selftest {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page
    Man,
}

/// Options of `top`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TopOptions {
    /// Print snapshots one after the other instead of a screen
    #[arg(long, short)]
    pub(crate) batch: bool,
    /// Stop after this many snapshots
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Time between two snapshots: 100ms to 60s; traces by itself, also where a daemon runs [default: the daemon's, or 1s]
    #[arg(long, short, value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// With --batch: one JSON object a line
    #[arg(long, requires = "batch")]
    pub(crate) json: bool,
    /// With --batch: also write every connection to this database, for `mpwatch report`
    #[arg(long, value_name = "FILE", requires = "batch")]
    pub(crate) db: Option<PathBuf>,
}

/// Options of `daemon`. Each is also a key of its file and a variable of the environment: see `mpwatch config show`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DaemonOptions {
    /// Configuration file [default: /etc/mpwatch/mpwatch.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Database of every connection, for `mpwatch report`; empty: none [default: /var/lib/mpwatch/flows.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<String>,
    /// Address of the web server [default: 127.0.0.1:9917]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Web-config file of Prometheus exporters: TLS and basic auth [default: neither]
    #[arg(long = "web.config.file", alias = "web-config", value_name = "FILE")]
    pub(crate) web_config: Option<String>,
    /// Time between two snapshots: 100ms to 60s [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) interval: Option<String>,
    /// Give so many of the largest connections series of their own [default: 0]
    #[arg(long = "metrics.top-flows", value_name = "N")]
    pub(crate) top_flows: Option<String>,
    /// What is worth a line of log: error, warn, info, debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Format of the log: text, json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Read it and say what is wrong with it
    Check {
        /// The layers that are checked
        #[command(flatten)]
        options: DaemonOptions,
    },
    /// Print the values in force
    Show {
        /// With where each comes from
        #[arg(long)]
        origin: bool,
        /// The layers that are shown
        #[command(flatten)]
        options: DaemonOptions,
    },
    /// Print the JSON Schema of the file
    Schema,
}

/// How a report is printed.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportOptions {
    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write it to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PeriodOptions {
    /// Database to read
    #[arg(long, value_name = "FILE", default_value = crate::config::DATABASE)]
    pub(crate) db: PathBuf,
    /// Leave out connections that closed before: so long ago (90s, 15m, 2h, 7d, 4w), or a time (2026-03-01, 2026-03-01T12:00, in UTC)
    #[arg(long, value_name = "TIME", value_parser = crate::moment::parse)]
    pub(crate) since: Option<Moment>,
    /// Leave out connections that were opened after
    #[arg(long, value_name = "TIME", value_parser = crate::moment::parse)]
    pub(crate) until: Option<Moment>,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For people, to be pasted into an issue.
    Markdown,
    /// For people, with drawings: one file that needs nothing else.
    Html,
    /// For scripts.
    Json,
    /// For spreadsheets: one row a subflow.
    Csv,
    /// As CSV: what each link carried in each minute, and in which ratio.
    Links,
}

/// Options of `calibrate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CalibrateOptions {
    /// Measure only rest and full load, and tell how far they have moved since the file was written
    #[arg(long)]
    pub(crate) verify: bool,
    /// How long a load runs before it is measured: clocks and fans follow slowly
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "3s", hide_short_help = true)]
    pub(crate) settle: Duration,
    /// How long it is measured
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "10s", hide_short_help = true)]
    pub(crate) measure: Duration,
}

/// Options of `demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoOptions {
    /// What to show
    #[arg(value_enum, default_value_t = Scenario::TwoPaths)]
    pub(crate) scenario: Scenario,
    /// No live view, only the report at the end
    #[arg(long)]
    pub(crate) headless: bool,
    /// How long the traffic runs
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write its connections to this database: `mpwatch report --db FILE --format html` draws them
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
    /// Make up energy counters that follow the CPU time of the demo, where the machine has none; marked as simulated everywhere
    #[arg(long, conflicts_with_all = ["sysfs_root", "no_ledger"])]
    pub(crate) simulate_rapl: bool,
}

fn methods() -> impl TypedValueParser<Value = DetectionMethod> {
    let words =
        DetectionMethod::ALL.iter().map(|one| PossibleValue::new(one.as_str()).help(one.description()));
    PossibleValuesParser::new(words).map(|word| DetectionMethod::of(&word).unwrap_or_default())
}

/// What the demo shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// One connection over two paths of different rate and delay
    TwoPaths,
    /// Subflows that share one bottleneck
    Shared,
    /// A path dies in mid-transfer
    Failover,
    /// Many small requests
    Requests,
}

fn parse_filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}

/// A folder with a typing error in it would look like a machine without counters.
fn parse_folder(text: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(text);
    if folder.is_dir() { Ok(folder) } else { Err("there is no such folder".to_owned()) }
}

pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval =
        parse_duration(text).ok_or("a duration is a number with ms or s, for example 500ms or 2s")?;
    if (Duration::from_millis(100)..=Duration::from_mins(1)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval lies between 100ms and 60s".to_owned())
    }
}

fn parse_step(text: &str) -> Result<Duration, String> {
    let step = parse_duration(text).ok_or("a duration is a number with ms or s, for example 500ms or 10s")?;
    if (Duration::from_millis(100)..=Duration::from_mins(10)).contains(&step) {
        Ok(step)
    } else {
        Err("a step lies between 100ms and 600s".to_owned())
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The kernel wants a power of two that is at least a page.
fn parse_ring_size(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    let size = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    size.filter(|size| size.is_power_of_two() && (4096..=1 << 30).contains(size))
        .ok_or_else(|| "a ring's size is a power of two between 4K and 1024M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_and_sizes_are_checked() {
        assert_eq!(parse_interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "x", "5m", "10ms", "61s", "-1s", "nan"] {
            assert!(parse_interval(wrong).is_err(), "{wrong} was taken");
        }
        assert_eq!(parse_ring_size("4K"), Ok(4096));
        for wrong in ["0", "4095", "3M", "1G", "99999999M"] {
            assert!(parse_ring_size(wrong).is_err(), "{wrong} was taken");
        }
    }
}
