// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `./dev corpus`: records the runs of a seed, or scores methods on a folder of runs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_lab::corpus::{Condition, Network, Queue, Run, Split, all, plan};

use crate::corpus::judge::{Judge, judge};
use crate::corpus::methods::{method, methods};
use crate::corpus::program::Program;
use crate::corpus::record::{Truth, record};
use crate::corpus::recording::Recording;
use crate::corpus::score::{Score, score};
use crate::corpus::tables::{self, Rows};

const USAGE: &str =
    "Usage: ./dev corpus [--seed N] [--runs N] [--out FOLDER] [--only WORDS] [--queue NAMES] [--seconds N]
       ./dev corpus score FOLDER [--method NAME]... [--program PATH] [--only WORD]";
/// The file with the SHA-256 checksums of all other files.
pub(crate) const CHECKSUMS: &str = "SHA256SUMS";
/// Default number of runs.
const RUNS: usize = 320;

/// Options of a command as pairs of name and value.
fn options(arguments: impl Iterator<Item = String>, known: &[&str]) -> Result<Vec<(String, String)>, String> {
    let (mut options, mut arguments) = (Vec::new(), arguments);
    while let Some(name) = arguments.next() {
        if !known.contains(&name.as_str()) {
            return Err(format!("no option `{name}`\n{USAGE}"));
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        options.push((name, value));
    }
    Ok(options)
}

/// Runs the command.
pub(crate) fn run(arguments: impl Iterator<Item = String>, print: impl FnMut(&str)) -> Result<(), String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "score").is_some() {
        let folder = arguments.next().ok_or(USAGE)?;
        return score_all(
            Path::new(&folder),
            &options(arguments, &["--method", "--program", "--only"])?,
            print,
        );
    }
    record_all(&options(arguments, &["--seed", "--runs", "--out", "--only", "--queue", "--seconds"])?, print)
}

fn record_all(options: &[(String, String)], mut print: impl FnMut(&str)) -> Result<(), String> {
    let (mut seed, mut count, mut only) = (1, RUNS, String::new());
    let (mut folder, mut seconds) = (std::env::temp_dir().join("mpwatch-corpus"), None);
    let mut queues: Vec<Queue> = Vec::new();
    for (name, value) in options {
        let wrong = |_| format!("{name} needs a number");
        match name.as_str() {
            "--seed" => seed = value.parse().map_err(wrong)?,
            "--runs" => count = value.parse().map_err(wrong)?,
            "--seconds" => seconds = Some(value.parse::<u64>().map_err(wrong)?),
            "--out" => folder = PathBuf::from(value),
            "--queue" => queues = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => only.clone_from(value),
        }
    }
    let conditions = all()?;
    mpwatch_lab::install_signal_cleanup().map_err(|error| error.to_string())?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut possible = conditions.clone();
    possible.retain(|condition| queues.is_empty() || queues.contains(&condition.queue));
    possible.retain(|condition| !plan(std::slice::from_ref(condition), seed, 1, &only).is_empty());
    possible.retain(|condition| check(condition).map_err(|lack| print(&lack)).is_ok());
    let mut runs = plan(&possible, seed, count, &only);
    if let Some(seconds) = seconds {
        for run in &mut runs {
            run.length_ms = seconds * 1_000;
        }
    }
    let mut failed = 0;
    for (index, run) in runs.iter().enumerate() {
        if folder.join(format!("{run}.json")).exists() {
            continue;
        }
        let outcome = match record(run, &folder) {
            Ok(truth) => {
                let flaw = truth.flaw().map_or(String::new(), |flaw| format!(", NOT USABLE: {flaw}"));
                format!("CPUs busy {:.2}{flaw}", truth.busy)
            }
            Err(error) => {
                failed += 1;
                format!("FAILED: {error}")
            }
        };
        print(&format!("{}/{} {run}: {outcome}\n", index + 1, runs.len()));
    }
    fs::write(folder.join("conditions.csv"), table(&conditions)).map_err(|error| error.to_string())?;
    fs::write(folder.join(CHECKSUMS), checksums(&folder)?).map_err(|error| error.to_string())?;
    if failed > 0 { Err(format!("{failed} runs failed")) } else { Ok(()) }
}

/// Fails with a message if the kernel lacks the queue of a condition.
fn check(condition: &Condition) -> Result<(), String> {
    // The lab always needs tbf.
    if condition.queue == Queue::Fifo {
        return Ok(());
    }
    let needs = condition.queue.module().map_or(String::new(), |module| {
        format!(" needs the kernel module {module}; the guests of `./dev vm --corpus` have it")
    });
    Network::check(condition).map_err(|error| format!("SKIPPED {}:{needs}: {error}\n", condition.name))
}

/// The table of conditions as CSV.
fn table(conditions: &[Condition]) -> String {
    let mut text = "name,split,layout,addresses,rate_even_mbit,rate_odd_mbit,buffer_ms,congestion,app,cross,connections,queue,route\n".to_owned();
    for condition in conditions {
        let Condition { name, addresses, rates: [even, odd], buffer_ms, congestion, .. } = condition;
        let word = |value: serde_json::Result<serde_json::Value>| {
            value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        let [split, layout, app, cross, queue, route] = [
            serde_json::to_value(condition.split),
            serde_json::to_value(condition.layout),
            serde_json::to_value(condition.app),
            serde_json::to_value(condition.cross),
            serde_json::to_value(condition.queue),
            serde_json::to_value(condition.route),
        ]
        .map(word);
        let connections: Vec<String> = condition.connections.iter().map(ToString::to_string).collect();
        let connections = connections.join(" ");
        let _ = writeln!(
            text,
            "{name},{split},{layout},{addresses},{even},{odd},{buffer_ms},{congestion},{app},{cross},{connections},{queue},{route}"
        );
    }
    text
}

/// The checksums of all files of a folder, in the format of `sha256sum`.
pub(crate) fn checksums(folder: &Path) -> Result<String, String> {
    let mut text = String::new();
    for name in files(folder, "")? {
        let bytes = fs::read(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let hex = digest.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let _ = writeln!(text, "{hex}  {name}");
    }
    Ok(text)
}

/// Sorted names of the files in a folder, without the file of checksums. Only names that end in `end`.
fn files(folder: &Path, end: &str) -> Result<Vec<String>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(end) && name != CHECKSUMS {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The runs of a folder whose name contains `only`, after a check of the checksums.
pub fn read_runs(folder: &Path, only: &str) -> Result<Vec<(Truth, Recording)>, String> {
    let expected = fs::read_to_string(folder.join(CHECKSUMS))
        .map_err(|error| format!("{}: {error}", folder.join(CHECKSUMS).display()))?;
    let found = checksums(folder)?;
    if let Some(line) = expected.lines().find(|line| !found.lines().any(|found| found == *line)) {
        return Err(format!("missing or changed file: {line}"));
    }
    let mut runs = Vec::new();
    for name in files(folder, ".json")?.into_iter().filter(|name| name.contains(only)) {
        let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let text = fs::read(folder.join(&name)).map_err(|error| failed(&error))?;
        let truth: Truth = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        let recording = Recording::read(&folder.join(&name).with_extension("mpw"));
        runs.push((truth, recording.map_err(|error| failed(&error))?));
    }
    Ok(runs)
}

/// The scores of a method: on all runs of a split, by number of connections and by condition.
#[derive(Default)]
struct Scores {
    splits: Rows,
    connections: Rows,
    conditions: Rows,
    all: Score,
}

impl Scores {
    fn add(&mut self, Run { condition, connections, .. }: &Run, score: &Score) {
        let split = if condition.split == Split::Training { "training" } else { "evaluation" };
        *self.splits.entry(split.to_owned()).or_default() += score;
        *self.connections.entry(format!("{connections:>2} ({split})")).or_default() += score;
        *self.conditions.entry(format!("{} ({split})", condition.name)).or_default() += score;
        self.all += score;
    }
}

fn score_all(folder: &Path, options: &[(String, String)], mut print: impl FnMut(&str)) -> Result<(), String> {
    let given = |wanted: &str| -> Vec<&str> {
        options.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect()
    };
    let only = given("--only").first().copied().unwrap_or("");
    let programs = given("--program");
    let mut names: Vec<String> = given("--method").iter().map(|name| (*name).to_owned()).collect();
    if names.is_empty() && programs.is_empty() {
        names = methods();
    }
    names.extend(programs.iter().map(|program| (*program).to_owned()));
    let new = |name: &str, recording: &Recording| -> Result<Box<dyn Judge>, String> {
        if programs.contains(&name) {
            return Ok(Box::new(Program::start(Path::new(name))?));
        }
        method(name, recording)
            .ok_or_else(|| format!("no method `{name}`; there are {}", methods().join(", ")))
    };
    let runs = read_runs(folder, only)?;
    let (flawed, usable): (Vec<_>, Vec<_>) = runs.iter().partition(|(truth, _)| truth.flaw().is_some());
    print(&format!("{} runs, {} of them not scored:\n", runs.len(), flawed.len()));
    for (truth, _) in flawed {
        print(&format!("NOT USABLE {}: {}\n", truth.run, truth.flaw().unwrap_or_default()));
    }
    for name in names {
        let mut scores = Scores::default();
        for (truth, recording) in &usable {
            let verdicts = judge(recording, new(&name, recording)?.as_mut())?;
            scores.add(&truth.run, &score(recording, truth, &verdicts));
        }
        print(&format!("\n## {name}\n\n{}", tables::scores("split", &scores.splits)));
        print(&format!("\n{}", tables::scores("connections", &scores.connections)));
        print(&format!("\n{}", tables::scores("condition", &scores.conditions)));
        print(&format!("\n{}", tables::closing("connections", &scores.connections)));
        print(&format!("\nRate caps:\n\n{}", tables::caps("condition", &scores.conditions)));
        print(&format!("\n{}", tables::reliability(&scores.all)));
    }
    Ok(())
}
