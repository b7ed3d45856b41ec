// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch calibrate` on simulated counters that follow its own load: it finds the law that they obey.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mpwatch_lab::raplsim::Shape;
use mpwatch_lab::raplsim::live::Load;
use mpwatch_tests::simulated::{DYNAMIC, IDLE, Simulated, cpus};
use mpwatch_tests::{Outcome, may_run_as_root, program, skip};

/// Of one step, in seconds.
const SETTLE: f64 = 0.2;
const MEASURE: f64 = 0.8;
/// How long a machine that others use is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// The part of the time asked for that the load must have got for the numbers to be worth a judgement.
const ENOUGH: f64 = 0.97;

/// Runs it while the counters follow its threads; how much CPU time those had, seconds.
fn calibrate(simulated: &mut Simulated, more: &[&str]) -> (Outcome, f64) {
    let child = Command::new(program())
        .arg("calibrate")
        .args(simulated.arguments())
        .args(["--settle", &format!("{SETTLE}s"), "--measure", &format!("{MEASURE}s")])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    simulated.run(Load::Threads).follow(child.id().cast_signed(), 0);
    let output = child.wait_with_output().unwrap();
    let used = simulated.stop().loads.iter().sum::<u64>() as f64 / 1e9;
    let outcome = Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    (outcome, used)
}

/// A calibration that ran to its end.
struct Run {
    outcome: Outcome,
    /// The file that it wrote.
    file: String,
    /// The load got the CPUs to itself.
    undisturbed: bool,
}

/// Tries until nobody else is at work, for a while; `None` when the program has refused each time because of others.
fn on_a_quiet_machine(power_file: Option<&str>, more: &[&str], load: f64) -> Option<Run> {
    let begun = Instant::now();
    let mut last = None;
    while begun.elapsed() < PATIENCE {
        // The simulation ends with each run, and a counter that stands still is a dead one.
        let mut simulated = Simulated::new(Shape::Intel1);
        if let Some(text) = power_file {
            std::fs::write(simulated.power_file(), text).unwrap();
        }
        let (outcome, used) = calibrate(&mut simulated, more);
        println!("{outcome:?}, {used:.3} s of {load:.3} s");
        if outcome.code != Some(0) && outcome.stderr.contains("other programs use") {
            continue;
        }
        let undisturbed = used >= load * ENOUGH;
        let file = std::fs::read_to_string(simulated.power_file()).unwrap_or_default();
        last = Some(Run { outcome, file, undisturbed });
        if undisturbed {
            return last;
        }
    }
    if last.is_none() {
        skip("other programs used this machine all the time");
    }
    last
}

#[test]
fn calibration_finds_the_law_and_verifies_it() {
    if !may_run_as_root() {
        return;
    }
    let step = SETTLE + MEASURE;
    let counts = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < cpus());
    let load = f64::from(counts.sum::<u32>() + cpus()) * step;
    let Some(run) = on_a_quiet_machine(None, &[], load) else { return };
    assert_eq!(run.outcome.code, Some(0), "{:?}", run.outcome);
    let (idle, full) = (f64::from(IDLE) / 1e3, f64::from(IDLE + DYNAMIC) / 1e3);
    let found = [watts(&run.outcome.stdout, "W idle"), watts(&run.outcome.stdout, "W at 100 %")];
    println!("at rest {:.2} W of {idle} W, at full load {:.2} W of {full} W", found[0], found[1]);
    let tolerance = if run.undisturbed { [0.03, 0.05] } else { [0.2, 0.3] };
    assert!((found[0] / idle - 1.0).abs() <= tolerance[0], "{:?}", run.outcome);
    assert!((found[1] / full - 1.0).abs() <= tolerance[1], "{:?}", run.outcome);

    let both = f64::from(cpus()) * step;
    let Some(again) = on_a_quiet_machine(Some(&run.file), &["--verify"], both) else { return };
    assert!(again.outcome.stdout.contains("has changed by at most"), "{:?}", again.outcome);
    if run.undisturbed && again.undisturbed {
        assert_eq!(again.outcome.code, Some(0), "{:?}", again.outcome);
        assert!(again.outcome.stdout.contains("still valid"), "{:?}", again.outcome);
    }
}

/// Of the zone `package-0`: the number before these words.
#[track_caller]
fn watts(table: &str, words: &str) -> f64 {
    let line = table.lines().find(|line| line.starts_with("package-0 ")).unwrap();
    let before = line.split(words).next().filter(|before| before.len() < line.len()).unwrap();
    before.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn without_counters_there_is_nothing_to_calibrate() {
    let simulated = Simulated::new(Shape::Empty);
    let mut arguments = vec!["calibrate".to_owned()];
    arguments.extend(simulated.arguments());
    let outcome = mpwatch_tests::mpwatch(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("no energy counter can be measured"), "{outcome:?}");
    assert!(!simulated.power_file().exists());
}
