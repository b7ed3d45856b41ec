// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch study`: repeats experiments of published papers in the lab, and writes what was measured beside what the papers say; or runs an own
//! experiment between two machines.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::study::{Experiment as Results, Origin, RunRecord, SCHEMA, Study};
use mpwatch_report::json::{self, Layout};
use mpwatch_report::{html, study};
use mpwatch_store::StudyFile;

use super::output::{on_a_terminal, print, print_table, terminal_width};
use crate::cli::{CounterOptions, StudyCommand, StudyRunOptions};
use crate::energy::discovery::discover;
use crate::error::Failure;
use crate::signals::stop_flag;
use crate::simulation::Simulation;
use crate::study::experiment::{Cell, Experiment, Scale, Work};
use crate::study::experiments;
use crate::study::machine::Machine;
use crate::study::own::file::OwnExperiment;
use crate::study::own::message::Role;
use crate::study::own::{drive, endpoint};
use crate::study::plan::{self, PlannedRun};
use crate::study::programs::SKIPPED;
use crate::study::{details, measure, run};

const DATABASE: &str = "study.db";
/// A copy of the file of an own experiment.
const OWN: &str = "experiment.toml";
/// Repetitions of a cell.
const REPEAT: u32 = 5;
/// With `--quick`: enough for an interval, however wide.
const QUICK_REPEAT: u32 = 2;
/// A study whose runs fail again and again ends.
const MAX_FAILURES_IN_A_ROW: u32 = 5;

pub(super) fn run(command: &StudyCommand) -> anyhow::Result<()> {
    match command {
        StudyCommand::List => print(&list()),
        StudyCommand::Run(options) => run_all(options),
        StudyCommand::Endpoint => endpoint::run(),
        StudyCommand::Report { folder } => {
            let (file, origin) = StudyFile::resume(&folder.join(DATABASE))?;
            let known = match own_of(folder)? {
                Some(own) => vec![own.experiment],
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
    let known: Vec<&str> = all.iter().map(|one| one.description.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| *name != "all" && !known.contains(&name.as_str())) {
        let similar = known
            .iter()
            .max_by(|a, b| strsim::jaro_winkler(a, unknown).total_cmp(&strsim::jaro_winkler(b, unknown)));
        let similar = similar.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        let known = known.join(", ");
        return Err(Failure::usage(format!(
            "there is no experiment `{unknown}`: {similar}known: all, {known}"
        )));
    }
    let is_selected =
        |one: &Experiment| names.iter().any(|name| name == "all" || *name == one.description.name);
    Ok(all.into_iter().filter(is_selected).collect())
}

/// The own experiment of a file.
fn read_own(path: &Path) -> Result<OwnExperiment, Failure> {
    let all = experiments::all();
    let taken: Vec<&str> = all.iter().map(|one| one.description.name.as_str()).collect();
    OwnExperiment::read(path, &taken)
}

/// The own experiment whose results are in a folder. `None`: they are of others.
fn own_of(folder: &Path) -> Result<Option<OwnExperiment>, Failure> {
    let path = folder.join(OWN);
    path.exists().then(|| read_own(&path)).transpose()
}

fn run_all(options: &StudyRunOptions) -> anyhow::Result<()> {
    let own = options.file.as_deref().map(read_own).transpose()?;
    let experiments = match &own {
        Some(own) => vec![own.experiment.clone()],
        None => select(&options.names)?,
    };
    let stop = stop_flag()?;
    let simulation = if own.is_none() { simulated_counters()? } else { None };
    let counters = simulation.as_ref().map_or_else(CounterOptions::default, Simulation::counters);
    let (mut file, origin) = if options.resume {
        resume(&options.out, own.as_ref())?
    } else {
        let (machine, server) = machines(own.as_ref(), &stop)?;
        create(options, own.as_ref(), (machine, server), simulation.is_some())?
    };
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let repeat = options.repeat.or(own.as_ref().and_then(|own| own.repeat));
    let repeat = repeat.unwrap_or(scale.pick(REPEAT, QUICK_REPEAT));
    let planned = plan::all(&experiments, scale, repeat, origin.seed);
    let left = plan::left(planned, &file.runs()?);
    let mut progress = Progress { done: 0, total: left.len(), began: Instant::now() };
    let mut failures_in_a_row = 0;
    for planned in left {
        let Some(records) = one(&planned, &counters, &stop)? else { break };
        progress.show(&planned, &records);
        failures_in_a_row = if records.iter().any(has_failed) { failures_in_a_row + 1 } else { 0 };
        for record in &records {
            file.add(record)?;
        }
        if failures_in_a_row == MAX_FAILURES_IN_A_ROW {
            eprintln!("mpwatch: {MAX_FAILURES_IN_A_ROW} runs in a row failed, so the study ends here");
            break;
        }
    }
    if stop.load(Ordering::Relaxed) {
        eprintln!("mpwatch: interrupted; continue with: {}", continuation(options));
    }
    let known = if own.is_some() { experiments } else { experiments::all() };
    report(&file, &known, origin, &options.out)
}

/// The command that continues an interrupted study.
fn continuation(options: &StudyRunOptions) -> String {
    let what = options
        .file
        .as_ref()
        .map_or_else(|| options.names.join(" "), |file| format!("--file {}", file.display()));
    let repeat = options.repeat.map(|repeat| format!(" --repeat {repeat}")).unwrap_or_default();
    format!("mpwatch study run {what}{repeat} --resume --out {}", options.out.display())
}

/// Prepares the lab. `None`: this machine has energy counters, so none are simulated. Fails before there are results if this user may not
/// make namespaces.
fn simulated_counters() -> anyhow::Result<Option<Simulation>> {
    mpwatch_lab::sweep_stale()?;
    drop(mpwatch_lab::Namespace::new("study")?);
    let hardware = CounterOptions::default().hardware();
    let has_counters = discover(&hardware).source != EnergySource::Model;
    (!has_counters).then(|| Simulation::start(hardware.cpus)).transpose()
}

/// The machine of the client and, if it is another one, that of the server.
fn machines(own: Option<&OwnExperiment>, stop: &AtomicBool) -> anyhow::Result<(Machine, Option<Machine>)> {
    let Some(own) = own else { return Ok((Machine::this()?, None)) };
    let client = drive::machine(Role::Client, &own.client, stop)?;
    let server = drive::machine(Role::Server, &own.server, stop)?;
    let is_other = client.host.boot_id != server.host.boot_id;
    Ok((client, is_other.then_some(server)))
}

/// Continues with the results of a folder.
fn resume(folder: &Path, own: Option<&OwnExperiment>) -> anyhow::Result<(StudyFile, Origin)> {
    let found = StudyFile::resume(&folder.join(DATABASE))?;
    if own_of(folder)?.map(|own| own.text) != own.map(|own| own.text.clone()) {
        let folder = folder.display();
        let advice = "resume with the unchanged file, or choose another folder with --out";
        return Err(Failure::usage(format!("{folder} has results of another experiment; {advice}")).into());
    }
    Ok(found)
}

/// Begins in an empty folder.
fn create(
    options: &StudyRunOptions,
    own: Option<&OwnExperiment>,
    (Machine { host, cpu, cpus }, server): (Machine, Option<Machine>),
    simulated_energy: bool,
) -> anyhow::Result<(StudyFile, Origin)> {
    let folder = options.out.display();
    fs::create_dir_all(&options.out).with_context(|| format!("cannot create the folder {folder}"))?;
    let server = server.map(|server| server.host);
    let (seed, quick) = (options.seed, options.quick);
    let origin = Origin { host, server, cpu, cpus, seed, quick, simulated_energy };
    let file = StudyFile::create(&options.out.join(DATABASE), &origin)?;
    if let Some(own) = own {
        let path = options.out.join(OWN);
        fs::write(&path, &own.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok((file, origin))
}

/// Runs once; returns a record for each cell. An error is part of the record. `None`: interrupted.
fn one(
    planned: &PlannedRun<'_>,
    counters: &CounterOptions,
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
    // Without the permission to trace, no run can succeed.
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
            Ok(evidence) => RunRecord {
                energy: evidence.energy,
                values: measure::values(evidence, method, &description.quantities),
                details: details::details(evidence),
                ..run
            },
            Err(error) => RunRecord { error: Some(format!("{error:#}")), ..run },
        }
    };
    Ok(Some(planned.cells.iter().enumerate().map(record).collect()))
}

/// Whether it should have succeeded: a run that this machine cannot do is skipped.
fn has_failed(record: &RunRecord) -> bool {
    record.error.as_ref().is_some_and(|error| !error.starts_with(SKIPPED))
}

/// What is printed after each run.
struct Progress {
    done: u32,
    total: usize,
    began: Instant,
}

impl Progress {
    /// Shows the first quantity of a run, or what went wrong.
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

/// Writes the results so far, and prints them.
fn report(file: &StudyFile, known: &[Experiment], origin: Origin, folder: &Path) -> anyhow::Result<()> {
    let study = results(known, &file.runs()?, origin);
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("study.html", html::study(&study))?;
    write("study.json", json::text(&study, Layout::Pretty)?)?;
    write("study.csv", study::csv(&study)?)?;
    let width = if on_a_terminal() { terminal_width() } else { usize::MAX };
    print_table(&study::text(&study, width))?;
    eprintln!("mpwatch: wrote study.html, study.json, study.csv and {DATABASE} to {}", folder.display());
    Ok(())
}

/// The results of all experiments that have runs.
fn results(known: &[Experiment], runs: &[RunRecord], origin: Origin) -> Study {
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let with_runs = known.iter().filter(|one| runs.iter().any(|run| run.experiment == one.description.name));
    let of = |one: &Experiment| {
        let cells: Vec<_> = one.cells(scale).into_iter().map(|cell| cell.factors).collect();
        Results::of(&one.description, &cells, runs)
    };
    let end = |run: &RunRecord| run.began + jiff::SignedDuration::from_secs_f64(run.took_s);
    Study {
        schema: SCHEMA,
        origin,
        from: runs.iter().map(|run| run.began).min(),
        to: runs.iter().map(end).max(),
        experiments: with_runs.map(of).collect(),
    }
}
