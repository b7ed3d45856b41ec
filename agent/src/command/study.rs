// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch study`: repeats experiments of published papers in the lab, and writes what was measured beside what the papers say.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{html, study};
use mpwatch_model::energy::EnergySource;
use mpwatch_model::host::Host;
use mpwatch_model::setup::Setup;
use mpwatch_model::study::{Experiment as Results, Origin, RunRecord, SCHEMA, Study};
use mpwatch_store::StudyFile;

use super::output::{on_a_terminal, print, print_table, terminal_width};
use crate::cli::{CounterOptions, StudyCommand, StudyRunOptions};
use crate::energy::discovery::discover;
use crate::error::Failure;
use crate::setup;
use crate::signals::stop_flag;
use crate::simulation::Simulation;
use crate::study::experiment::{Experiment, Scale};
use crate::study::experiments::ALL;
use crate::study::plan::{self, PlannedRun};
use crate::study::programs::SKIPPED;
use crate::study::{measure, run};

const DATABASE: &str = "study.db";
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
        StudyCommand::Report { folder } => {
            let (file, origin) = StudyFile::resume(&folder.join(DATABASE))?;
            report(&file, origin, folder)
        }
    }
}

fn list() -> String {
    ALL.iter().fold(String::new(), |mut text, Experiment { description, cells }| {
        let runs = cells(Scale::Full).len();
        let _ = writeln!(
            text,
            "{:<14} {:<10} {:>3} cells  {}",
            description.name, description.paper, runs, description.title
        );
        text
    })
}

/// The experiments with these names, in the order of the list.
fn select(names: &[String]) -> Result<Vec<&'static Experiment>, Failure> {
    if let Some(unknown) = names.iter().find(|name| *name != "all" && named(name).is_none()) {
        let known: Vec<&str> = ALL.iter().map(|one| one.description.name).collect();
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
        |one: &&Experiment| names.iter().any(|name| name == "all" || name == one.description.name);
    Ok(ALL.iter().filter(is_selected).collect())
}

fn named(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|one| one.description.name == name)
}

fn run_all(options: &StudyRunOptions) -> anyhow::Result<()> {
    let experiments = select(&options.names)?;
    let stop = stop_flag()?;
    mpwatch_lab::sweep_stale()?;
    let counters = CounterOptions::default();
    let hardware = counters.hardware();
    let has_counters = discover(&hardware).source != EnergySource::Model;
    let simulation = (!has_counters).then(|| Simulation::start(hardware.cpus)).transpose()?;
    let counters = simulation.as_ref().map_or(counters, Simulation::counters);
    let (mut file, origin) = open(options, simulation.is_some())?;
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let repeat = options.repeat.unwrap_or(scale.pick(REPEAT, QUICK_REPEAT));
    let planned = plan::all(&experiments, scale, repeat, origin.seed);
    let left = plan::left(planned, &file.runs()?);
    let mut progress = Progress { done: 0, total: left.len(), began: Instant::now() };
    let mut failures_in_a_row = 0;
    for planned in left {
        let Some(record) = one(&planned, &counters, &stop)? else { break };
        progress.show(&planned, &record);
        failures_in_a_row = if has_failed(&record) { failures_in_a_row + 1 } else { 0 };
        file.add(&record)?;
        if failures_in_a_row == MAX_FAILURES_IN_A_ROW {
            eprintln!("mpwatch: {MAX_FAILURES_IN_A_ROW} runs in a row failed, so the study ends here");
            break;
        }
    }
    if stop.load(Ordering::Relaxed) {
        let folder = options.out.display();
        eprintln!("mpwatch: interrupted; continue with: mpwatch study run NAME... --resume --out {folder}");
    }
    report(&file, origin, &options.out)
}

fn open(options: &StudyRunOptions, simulated_energy: bool) -> anyhow::Result<(StudyFile, Origin)> {
    let path = options.out.join(DATABASE);
    if options.resume {
        return Ok(StudyFile::resume(&path)?);
    }
    let folder = options.out.display();
    fs::create_dir_all(&options.out).with_context(|| format!("cannot create the folder {folder}"))?;
    let Setup { cpu_model, .. } = setup::read(Duration::ZERO);
    let kernel = nix::sys::utsname::uname()?;
    let [name, release] =
        [kernel.nodename(), kernel.release()].map(|text| text.to_string_lossy().into_owned());
    let origin = Origin {
        host: Host {
            name,
            kernel: release,
            mpwatch: env!("CARGO_PKG_VERSION").to_owned(),
            ..Host::default()
        },
        cpu: cpu_model.unwrap_or_default(),
        cpus: CounterOptions::default().hardware().cpus,
        seed: options.seed,
        quick: options.quick,
        simulated_energy,
    };
    Ok((StudyFile::create(&path, &origin)?, origin))
}

/// Runs a cell once. An error is part of the record. `None`: interrupted.
fn one(
    planned: &PlannedRun,
    counters: &CounterOptions,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<RunRecord>> {
    let (began, started) = (Timestamp::now(), Instant::now());
    let outcome = run::run(&planned.cell.scenario, planned.seed, counters, stop);
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // Without the permission to trace, no run can succeed.
    let outcome = match outcome {
        Err(error) if error.downcast_ref::<Failure>().is_some() => return Err(error),
        other => other,
    };
    let description = planned.experiment.description;
    let (energy, values, error) = match &outcome {
        Ok(evidence) => {
            let energy = evidence.report.energy.as_ref().map_or(EnergySource::Absent, |energy| energy.source);
            (energy, measure::values(evidence, description.quantities), None)
        }
        Err(error) => (EnergySource::Absent, Vec::new(), Some(format!("{error:#}"))),
    };
    Ok(Some(RunRecord {
        experiment: description.name.to_owned(),
        factors: planned.cell.factors.clone(),
        repetition: planned.repetition,
        seed: planned.seed,
        began,
        took_s: started.elapsed().as_secs_f64(),
        energy,
        values,
        error,
    }))
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
    fn show(&mut self, planned: &PlannedRun, record: &RunRecord) {
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
fn report(file: &StudyFile, origin: Origin, folder: &Path) -> anyhow::Result<()> {
    let study = results(&file.runs()?, origin);
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
fn results(runs: &[RunRecord], origin: Origin) -> Study {
    let scale = if origin.quick { Scale::Quick } else { Scale::Full };
    let with_runs = ALL.iter().filter(|one| runs.iter().any(|run| run.experiment == one.description.name));
    let of = |one: &Experiment| {
        let cells: Vec<_> = (one.cells)(scale).into_iter().map(|cell| cell.factors).collect();
        Results::of(one.description, &cells, runs)
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
