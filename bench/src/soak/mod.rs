// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev bench soak`: runs a daemon with a store (and optionally a recording) during steady churn of connections, network namespaces and
//! control groups. Samples the resources of these processes over time, writes a CSV file and a chart, and prints a table.

mod chart;
pub(crate) mod churn;
mod job;
mod options;
mod outcome;
mod results;
pub(crate) mod sample;
mod wait;
pub(crate) mod watched;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::machine;
use churn::Churn;
use options::Options;
use outcome::Outcome;
use results::Results;
use wait::wait_until;
use watched::Watched;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a soak for its duration or until a signal arrives. Writes the measurements in both cases.
pub(crate) fn run(
    mut arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let options = match Options::parse(&mut arguments)? {
        options::Request::Soak(options) => options,
        options::Request::Job(group) => return job::run(&group).map_err(|error| error.to_string()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(&options.output).map_err(|error| format!("{}: {error}", options.output.display()))?;
    print(&format!("{}\nLoad average before: {}.\n", machine::description(), machine::load_average()));
    let results = measure(&options, &stop).map_err(|error| error.to_string())?;
    write(&results, &options.output).map_err(|error| format!("{}: {error}", options.output.display()))?;
    print(&format!("Load average after: {}.\n\n{}", machine::load_average(), results.text()));
    Ok(())
}

fn measure(options: &Options, stop: &Arc<AtomicBool>) -> Outcome<Results> {
    let folder = tempfile::TempDir::new()?;
    let mut watched = vec![Watched::daemon(folder.path(), options.store_size)?];
    if options.record {
        watched.push(Watched::recording(folder.path())?);
    }
    let churn = Churn::start(options, stop)?;
    let mut results = Results::new(watched.iter().map(Watched::name));
    let began = Instant::now();
    let mut due = began;
    while began.elapsed() < options.length {
        due += SAMPLE_INTERVAL;
        if !wait_until(due.min(began + options.length), stop) {
            break;
        }
        for (index, process) in watched.iter_mut().enumerate() {
            let sample = process.sample(began.elapsed(), churn.counts())?;
            results.add(index, sample);
        }
    }
    let (length, counts) = (began.elapsed(), churn.finish());
    results.end(length, counts, watched.into_iter().map(Watched::finish).collect::<Outcome<Vec<String>>>()?);
    Ok(results)
}

fn write(results: &Results, folder: &Path) -> std::io::Result<()> {
    fs::write(folder.join("soak.csv"), results.csv())?;
    fs::write(folder.join("soak.svg"), results.chart())
}
