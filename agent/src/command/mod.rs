// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, one file each; here is only what several of them share.

mod calibrate;
mod daemon;
mod database;
mod demo;
mod files;
mod record;
mod replay_view;
mod report;
mod selftest;
mod show;
mod top;
mod verdicts;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use clap::CommandFactory;
use mpwatch_ebpf::tracer::Settings;
use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::store::Samples;
use mpwatch_exporters::{csv, html, links, markdown, text};
use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::cli::{Cli, Command, Format, ReportOptions, Scope, TopOptions};
use crate::doctor;
use crate::energy::meter;
use crate::live::{Live, Options};
use crate::session::Outlook;
use crate::tracker::Closed;

/// Runs the command that was asked for.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let scope = &cli.scope;
    match &cli.command {
        None => top::run(&TopOptions::default(), scope)?,
        Some(Command::Top(options)) => top::run(options, scope)?,
        Some(Command::Ls { json, csv }) => show::list(*json, *csv, scope)?,
        Some(Command::Show { id, json }) => show::one(id, *json, scope)?,
        Some(Command::Daemon(options)) => daemon::run(options, scope)?,
        Some(Command::Config { action }) => return daemon::config(action, scope),
        Some(Command::Record { file, seconds, interval, db, report }) => {
            let limits = record::Limits { seconds: *seconds, interval: *interval };
            record::record(file, limits, db.as_deref(), report, scope)?;
        }
        Some(Command::Replay { file, verdicts: true, rested, .. }) => verdicts::print(file, *rested, scope)?,
        Some(Command::Replay { file, screen: true, .. }) => replay_view::run(file, scope)?,
        Some(Command::Replay { file, snapshots, db, report, .. }) => {
            record::replay(file, *snapshots, db.as_deref(), report, scope)?;
        }
        Some(Command::Report(options)) => report::run(options, scope)?,
        Some(Command::Doctor { json, btf }) => {
            return doctor::run(*json, btf.as_deref(), scope.sysfs_root.as_deref(), &mut io::stdout().lock());
        }
        Some(Command::Calibrate(options)) => return calibrate::run(options, scope),
        Some(Command::Demo(options)) => demo::run(options, scope)?,
        Some(Command::Selftest { json }) => return selftest::run(*json),
        Some(Command::Completions { shell }) => {
            // It panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "mpwatch", &mut script);
            print(&String::from_utf8_lossy(&script))?;
        }
        Some(Command::Man) => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Traces this machine with the options of a command line.
fn trace(interval: Duration, scope: &Scope, stop: Arc<AtomicBool>) -> anyhow::Result<Live> {
    trace_with(interval, scope, scope.energy(), stop)
}

/// As [`trace`], with energy from elsewhere.
fn trace_with(
    interval: Duration,
    scope: &Scope,
    energy: meter::Options,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Live> {
    warn_of_unknown_namespace(scope);
    let defaults = Settings::default();
    let tracer = Settings {
        trace_tcp: scope.tcp,
        ledger: !scope.no_ledger,
        samples: !scope.no_bottlenecks,
        lone_samples: scope.across,
        ring_bytes: scope.ring_size.unwrap_or(defaults.ring_bytes),
        overflow_bytes: scope.overflow_size.unwrap_or(defaults.overflow_bytes),
        ..defaults
    };
    Live::start(&Options { interval, tracer, energy }, stop)
}

impl Scope {
    fn energy(&self) -> meter::Options {
        meter::Options {
            root: self.sysfs_root.clone(),
            calibration: self.power_file.clone(),
            simulated: false,
        }
    }

    /// What is made of events, by these options.
    fn outlook(&self, closed: Closed) -> Outlook {
        Outlook { closed, method: self.method.unwrap_or_default(), across: self.across }
    }

    /// Whether a connection is to be shown.
    fn shows(&self, connection: &Connection) -> bool {
        self.netns.as_ref().is_none_or(|netns| is_named(connection, netns))
            && self.filter.as_ref().is_none_or(|filter| filter.matches(connection))
    }

    fn narrow(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.connections.retain(|connection| self.shows(connection));
        if let (Some(across), Some(netns)) = (&mut snapshot.across, &self.netns) {
            across.destinations.retain(|destination| destination.netns == *netns);
        }
        snapshot
    }

    fn narrow_report(&self, mut report: Report) -> Report {
        report.connections.retain(|connection| self.shows(connection));
        report
    }
}

/// By its name, or by its inode as `net:[INODE]` where it has a name too.
fn is_named(connection: &Connection, netns: &str) -> bool {
    connection.netns == netns || netns == format!("net:[{}]", connection.netns_inode)
}

/// A namespace may still come, so an unknown name is no error; but it may as well be a typing error.
fn warn_of_unknown_namespace(scope: &Scope) {
    let Some(wanted) = &scope.netns else { return };
    let known = mpwatch_ebpf::namespace::all();
    let is_it = |found: &mpwatch_ebpf::namespace::Namespace| {
        found.name.as_ref() == Some(wanted) || format!("net:[{}]", found.inode) == *wanted
    };
    if !known.iter().any(is_it) {
        eprintln!("mpwatch: there is no network namespace `{wanted}` now; `ip netns` lists those with names");
    }
}

/// `samples`: counters over time, for the drawings; only a database has them.
fn print_report(report: &Report, samples: &Samples, options: &ReportOptions) -> anyhow::Result<()> {
    let text = match options.format {
        Format::Text => text::report(report),
        Format::Markdown => markdown::report(report),
        Format::Html => html::report(report, samples),
        Format::Json => json::report(report, Layout::Pretty)?,
        Format::Csv => csv::list(&report.connections)?,
        Format::Links => links::per_minute(report, samples)?,
    };
    match &options.output {
        None => print(&text),
        Some(file) => std::fs::write(file, text)
            .with_context(|| format!("cannot write the report to {}", file.display())),
    }
}

/// Prints; an error where the reader has gone away, instead of a panic.
fn print(text: &str) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

/// Prints a snapshot as a line of a stream.
fn print_line(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut output = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    json::line(snapshot, &mut output)?;
    Ok(output.flush()?)
}

/// Whether someone looks at the output as it comes.
fn on_a_terminal() -> bool {
    io::stdout().is_terminal()
}
