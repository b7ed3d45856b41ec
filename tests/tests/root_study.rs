// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch study`: runs experiments, writes their results, and continues after an interruption.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::{emulation, list, may_run_as_root, number, program, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);

fn study(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("study").args(arguments).stdin(Stdio::null());
    command
}

fn finished(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn results(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("study.json")).unwrap()).unwrap()
}

/// A quantity of a cell.
fn measured<'a>(study: &'a Value, cell: &[(&str, &str)], quantity: &str) -> &'a Value {
    let has = |found: &Value, name: &str, value: &str| {
        list(found, "factors")
            .iter()
            .any(|factor| text(factor, "name") == name && text(factor, "value") == value)
    };
    let experiment = &list(study, "experiments")[0];
    let mut cells = list(experiment, "cells").iter();
    let cell = cells.find(|found| cell.iter().all(|(name, value)| has(found, name, value)));
    let cell = cell.unwrap_or_else(|| panic!("no such cell: {study:#}"));
    let mut quantities = list(cell, "measured").iter();
    quantities
        .find(|found| text(found, "quantity") == quantity)
        .unwrap_or_else(|| panic!("no {quantity}: {cell:#}"))
}

fn mean(found: &Value) -> f64 {
    found["mean"].as_f64().unwrap()
}

#[test]
fn more_paths_finish_sooner_and_every_result_is_in_every_file() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = finished(&mut study(&["run", "energy", "--quick", "--repeat", "2", "--out", out]));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("energy: one TCP flow") && printed.contains("Energy is"), "{printed}");

    let study = results(folder.path());
    let of = |paths, quantity| measured(&study, &[("paths", paths)], quantity);
    assert!(mean(of("4", "goodput_bps")) > 1.5 * mean(of("1", "goodput_bps")), "{study:#}");
    let change = &of("4", "completion_s")["change"];
    assert!(change["high"].as_f64().unwrap() < 0.0, "sooner: {change}");
    assert_eq!(of("4", "completion_s")["published"][0]["change"], -0.758);
    assert!(mean(of("1", "power_w")) > 1.0, "{study:#}");
    // The rate of one path bounds the goodput of TCP.
    assert!(mean(of("1", "goodput_bps")) < 20e6, "{study:#}");

    let csv = std::fs::read_to_string(folder.path().join("study.csv")).unwrap();
    assert!(csv.starts_with("experiment,cell,run,quantity,value,energy_source\r\n"), "{csv}");
    assert!(csv.contains("energy,rate=20 paths=4,1,goodput_bps,"), "{csv}");
    let html = std::fs::read_to_string(folder.path().join("study.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("i7-3770"), "no plot, or no paper");

    let again = study_error(&["run", "energy", "--quick", "--out", out]);
    assert!(again.contains("it exists") && again.contains("--resume"), "{again}");
}

#[test]
fn an_interrupted_study_is_resumed() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let start = ["run", "energy", "--quick", "--repeat", "1", "--out", out];
    let mut child = study(&start).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let database = folder.path().join("study.db");
    let runs = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let database = rusqlite::Connection::open_with_flags(&database, flags).ok()?;
        database
            .query_row("SELECT count(*) FROM run WHERE error IS NULL", [], |row| row.get::<_, u32>(0))
            .ok()
    };
    let has_one = || runs().filter(|runs| *runs > 0);
    poll_until("the first run", emulation::timeout(TIMEOUT), has_one).unwrap();
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
    let before = runs().unwrap();
    assert!((1..=3).contains(&before), "{before}");

    let output = finished(&mut study(&["run", "energy", "--repeat", "1", "--out", out, "--resume"]));
    let progress = String::from_utf8(output.stderr).unwrap();
    let repeated = u32::try_from(progress.matches("left\n").count()).unwrap();
    assert_eq!(repeated, 3 - before, "only the rest: {progress}");
    let study = results(folder.path());
    for cell in list(&list(&study, "experiments")[0], "cells") {
        assert_eq!(number(cell, "runs"), 1, "{cell:#}");
    }
}

#[test]
fn a_wrong_name_is_wrong_usage_with_a_suggestion() {
    let error = study_error(&["run", "enrgy"]);
    assert!(error.contains("did you mean `energy`?") && error.contains("failover"), "{error}");
    let listed = finished(&mut study(&["list"]));
    assert!(String::from_utf8(listed.stdout).unwrap().contains("second-path"));
}

fn study_error(arguments: &[&str]) -> String {
    let output = study(arguments).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
