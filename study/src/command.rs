// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands. They run experiments of published papers in the lab, or a user's experiment between two machines, and write the results.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use mpwatch::shared::{Counters, Failure, print, print_table, stop_flag, suggest, table_width};
use mpwatch_model::host::energy::EnergySource;
use mpwatch_report::json::{self, Layout};

use crate::cli::{Command, RunOptions};
use crate::custom::file::CustomExperiment;
use crate::custom::message::Side;
use crate::custom::{drive, endpoint};
use crate::data::{ExperimentResults, Origin, RunRecord, SCHEMA, Study};
use crate::database::StudyFile;
use crate::experiment::{Cell, Experiment, Scale, Work};
use crate::experiments;
use crate::machine::Machine;
use crate::plan::{self, PlannedRun};
use crate::programs::SKIPPED;
use crate::{details, manual, measure, page, run, table};

const DATABASE: &str = "study.db";
/// Name of the copy of a user's experiment file.
const CUSTOM: &str = "experiment.toml";
/// Default number of runs of a cell.
const REPEAT: u32 = 5;
/// Default number of runs of a cell with `--quick`: the minimum for a confidence interval.
const QUICK_REPEAT: u32 = 2;
/// A study ends after this number of consecutive failed runs.
const MAX_FAILURES_IN_A_ROW: u32 = 5;

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List => print(&list()),
        Command::Run(options) => run_all(options),
        Command::Endpoint => endpoint::run(),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man => manual::page(),
        // `main` has already handled this command.
        Command::Mpwatch { .. } => Ok(()),
        Command::Report { folder } => {
            let (file, origin) = StudyFile::resume(&folder.join(DATABASE))?;
            let known = match custom_of(folder)? {
                Some(custom) => vec![custom.experiment],
                None => experiments::all(),
            };
            report(&file, &known, origin, folder)
        }
    }
}

fn list() -> String {
    experiments::all().iter().fold(String::new(), |mut text, experiment| {
        let (description, runs) = (&experiment.description, experiment.cells(Scale::Full).len());
        let _ = writeln!(
            text,
            "{:<14} {:<10} {:>3} cells  {}",
            description.name, description.paper, runs, description.title
        );
        text
    })
}

/// The experiments with these names, in the order of the list.
fn select(names: &[String]) -> Result<Vec<Experiment>, Failure> {
    let all = experiments::all();
    let known: Vec<&str> = all.iter().map(|experiment| experiment.description.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| *name != "all" && !known.contains(&name.as_str())) {
        let similar = suggest(unknown, &known).map(|hint| format!("{hint} ")).unwrap_or_default();
        let known = known.join(", ");
        return Err(Failure::usage(format!(
            "there is no experiment `{unknown}`: {similar}known: all, {known}"
        )));
    }
    let is_selected = |experiment: &Experiment| {
        names.iter().any(|name| name == "all" || *name == experiment.description.name)
    };
    Ok(all.into_iter().filter(is_selected).collect())
}

/// Reads a user's experiment, whose name must differ from the names of the papers' experiments.
fn read_custom(path: &Path) -> Result<CustomExperiment, Failure> {
    let all = experiments::all();
    let taken: Vec<&str> = all.iter().map(|experiment| experiment.description.name.as_str()).collect();
    CustomExperiment::read(path, &taken)
}

/// The user's experiment whose results are in a folder. `None`: the folder has results of papers' experiments.
fn custom_of(folder: &Path) -> Result<Option<CustomExperiment>, Failure> {
    let path = folder.join(CUSTOM);
    path.exists().then(|| read_custom(&path)).transpose()
}

fn run_all(options: &RunOptions) -> anyhow::Result<()> {
    let custom = options.file.as_deref().map(read_custom).transpose()?;
    let experiments = match &custom {
        Some(custom) => vec![custom.experiment.clone()],
        None => select(&options.names)?,
    };
    let stop = stop_flag()?;
    let counters = if custom.is_none() { prepare_lab()? } else { Counters::default() };
    let (mut file, origin) = if options.resume {
        resume(&options.out, custom.as_ref())?
    } else {
        let (machine, server) = machines(custom.as_ref(), &stop)?;
        create(options, custom.as_ref(), (machine, server), counters.are_simulated())?
    };
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let repeat = options.repeat.or(custom.as_ref().and_then(|custom| custom.repeat));
    let repeat = repeat.unwrap_or(scale.pick(REPEAT, QUICK_REPEAT));
    let planned = plan::all(&experiments, scale, repeat, origin.seed);
    let left = plan::left(planned, &file.runs()?);
    let mut progress = Progress { done: 0, total: left.len(), began: Instant::now() };
    let (mut failures_in_a_row, mut has_result) = (0, false);
    for planned in left {
        let Some(records) = run_once(&planned, &counters, &stop)? else { break };
        progress.show(&planned, &records);
        failures_in_a_row = if records.iter().any(has_failed) { failures_in_a_row + 1 } else { 0 };
        has_result |= records.iter().any(|record| !has_failed(record));
        for record in &records {
            file.add(record)?;
        }
        if failures_in_a_row == MAX_FAILURES_IN_A_ROW {
            eprintln!("mpwatch-study: {MAX_FAILURES_IN_A_ROW} runs in a row failed, so the study ends here");
            break;
        }
    }
    if stop.load(Ordering::Relaxed) {
        eprintln!("mpwatch-study: interrupted; continue with: {}", continuation(options));
    }
    let known = if custom.is_some() { experiments } else { experiments::all() };
    report(&file, &known, origin, &options.out)?;
    // The exit code reports this failure to scripts.
    ensure!(has_result || progress.done == 0, "every run failed; {} has the reasons", options.out.display());
    Ok(())
}

/// The command that continues an interrupted study.
fn continuation(options: &RunOptions) -> String {
    let what = options
        .file
        .as_ref()
        .map_or_else(|| options.names.join(" "), |file| format!("--file {}", file.display()));
    let repeat = options.repeat.map(|repeat| format!(" --repeat {repeat}")).unwrap_or_default();
    format!("mpwatch study run {what}{repeat} --resume --out {}", options.out.display())
}

/// Prepares the lab. Creates a namespace as a test: without the permission for this, the study fails before its first run.
fn prepare_lab() -> anyhow::Result<Counters> {
    mpwatch_lab::sweep_stale()?;
    drop(mpwatch_lab::Namespace::new("study")?);
    Counters::real_or_simulated()
}

/// The machine of the client, and the machine of the server. `None`: the server runs on the client's machine.
fn machines(
    custom: Option<&CustomExperiment>,
    stop: &AtomicBool,
) -> anyhow::Result<(Machine, Option<Machine>)> {
    let Some(custom) = custom else { return Ok((Machine::this()?, None)) };
    let client = drive::machine(Side::Client, &custom.client, stop)?;
    let server = drive::machine(Side::Server, &custom.server, stop)?;
    let is_other = client.host.boot_id != server.host.boot_id;
    Ok((client, is_other.then_some(server)))
}

/// Opens the results in a folder, to continue the study.
fn resume(folder: &Path, custom: Option<&CustomExperiment>) -> anyhow::Result<(StudyFile, Origin)> {
    let found = StudyFile::resume(&folder.join(DATABASE))?;
    if custom_of(folder)?.map(|custom| custom.text) != custom.map(|custom| custom.text.clone()) {
        let folder = folder.display();
        let advice = "resume with the unchanged file, or choose another folder with --out";
        return Err(Failure::usage(format!("{folder} has results of another experiment; {advice}")).into());
    }
    Ok(found)
}

/// Creates the folder and the database of a new study.
fn create(
    options: &RunOptions,
    custom: Option<&CustomExperiment>,
    (Machine { host, cpu, cpus }, server): (Machine, Option<Machine>),
    simulated_energy: bool,
) -> anyhow::Result<(StudyFile, Origin)> {
    let folder = options.out.display();
    fs::create_dir_all(&options.out).with_context(|| format!("cannot create the folder {folder}"))?;
    let server = server.map(|server| server.host);
    let (seed, quick) = (options.seed, options.quick);
    let origin = Origin { host, server, cpu, cpus, seed, quick, simulated_energy };
    let file = StudyFile::create(&options.out.join(DATABASE), &origin)?;
    if let Some(custom) = custom {
        let path = options.out.join(CUSTOM);
        fs::write(&path, &custom.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok((file, origin))
}

/// Performs a run and returns a record for each cell. An error of the run is part of the record. `None`: the user interrupted the run.
fn run_once(
    planned: &PlannedRun<'_>,
    counters: &Counters,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<Vec<RunRecord>>> {
    let (began, started) = (Timestamp::now(), Instant::now());
    let methods: Vec<_> = planned.cells.iter().map(|cell| cell.method).collect();
    let outcome = match planned.work() {
        Work::Lab(scenario) => run::run(scenario, &methods, planned.seed, counters, stop),
        Work::Between(between) => drive::run(between, planned.seed, stop),
    };
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // A `Failure`, such as a missing permission to trace, would also affect all later runs, so it ends the study.
    let outcome = match outcome {
        Err(error) if error.downcast_ref::<Failure>().is_some() => return Err(error),
        other => other,
    };
    let description = &planned.experiment.description;
    let took_s = started.elapsed().as_secs_f64();
    let record = |(method, cell): (usize, &Cell)| {
        let run = RunRecord {
            experiment: description.name.clone(),
            factors: cell.factors.clone(),
            repetition: planned.repetition,
            seed: planned.seed,
            began,
            took_s,
            energy: EnergySource::Absent,
            values: Vec::new(),
            details: Vec::new(),
            error: None,
        };
        match &outcome {
            Ok(data) => RunRecord {
                energy: data.energy,
                values: measure::values(data, method, &description.quantities),
                details: details::details(data),
                ..run
            },
            Err(error) => RunRecord { error: Some(format!("{error:#}")), ..run },
        }
    };
    Ok(Some(planned.cells.iter().enumerate().map(record).collect()))
}

/// Whether a run failed. A run that is not possible on this machine counts as skipped, not as failed.
fn has_failed(record: &RunRecord) -> bool {
    record.error.as_ref().is_some_and(|error| !error.starts_with(SKIPPED))
}

/// Prints a line after each run.
struct Progress {
    done: u32,
    total: usize,
    began: Instant,
}

impl Progress {
    /// Prints the first measured quantity of a run, or its error.
    fn show(&mut self, planned: &PlannedRun<'_>, records: &[RunRecord]) {
        let Some(record) = records.first() else { return };
        self.done += 1;
        let left = self.total.saturating_sub(self.done as usize);
        let remaining = self.began.elapsed() / self.done * u32::try_from(left).unwrap_or(u32::MAX);
        let first = record
            .values
            .iter()
            .find(|(quantity, _)| planned.experiment.description.quantities.contains(quantity));
        let result = match (&record.error, first) {
            (Some(error), _) if !has_failed(record) => error.clone(),
            (Some(error), _) => format!("failed: {error}"),
            (None, Some((quantity, value))) => format!("{} {}", quantity.title(), quantity.display(*value)),
            (None, None) => "nothing measured".to_owned(),
        };
        eprintln!(
            "[{}/{}] {}: {result}; {} left",
            self.done,
            self.total,
            planned.title(),
            minutes(remaining)
        );
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

/// Writes all results so far to files, and prints them.
fn report(file: &StudyFile, known: &[Experiment], origin: Origin, folder: &Path) -> anyhow::Result<()> {
    let study = results(known, &file.runs()?, origin);
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("study.html", page::study(&study))?;
    write("study.json", json::text(&study, Layout::Pretty)?)?;
    write("study.csv", table::csv(&study)?)?;
    print_table(&table::text(&study, table_width()))?;
    eprintln!(
        "mpwatch-study: wrote study.html, study.json, study.csv and {DATABASE} to {}",
        folder.display()
    );
    Ok(())
}

/// The results of all experiments that have runs.
fn results(known: &[Experiment], runs: &[RunRecord], origin: Origin) -> Study {
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let has_runs =
        |experiment: &&Experiment| runs.iter().any(|run| run.experiment == experiment.description.name);
    let results = |experiment: &Experiment| {
        let cells: Vec<_> = experiment.cells(scale).into_iter().map(|cell| cell.factors).collect();
        ExperimentResults::from_runs(&experiment.description, &cells, runs)
    };
    let end = |run: &RunRecord| run.began + jiff::SignedDuration::from_secs_f64(run.took_s);
    Study {
        schema: SCHEMA,
        origin,
        from: runs.iter().map(|run| run.began).min(),
        to: runs.iter().map(end).max(),
        experiments: known.iter().filter(has_runs).map(results).collect(),
    }
}
