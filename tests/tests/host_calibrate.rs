// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch calibrate` finds the power model of simulated counters that follow its own load.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_tests::simulated_counters::{DYNAMIC, IDLE, SimulatedCounters, cpus};
use mpwatch_tests::{CommandOutput, finish, may_run_as_root, program, skip};

/// Seconds of each step to settle and to measure.
const SETTLE: f64 = 0.2;
const MEASURE: f64 = 0.8;
/// Timeout of retries while other programs use the machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Share of the planned CPU time that the load must have received for an accurate result.
const MIN_LOAD: f64 = 0.97;

/// Runs a calibration while the counters follow its threads. Returns its output and the CPU time of the threads, seconds.
fn calibrate(simulated: &mut SimulatedCounters, more: &[&str]) -> (CommandOutput, f64) {
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
    simulated.start(LoadScope::Threads).follow_process(child.id().cast_signed(), 0);
    let output = finish(child);
    let used = simulated.stop().busy_by_package.iter().sum::<u64>() as f64 / 1e9;
    (output.into(), used)
}

/// A finished calibration.
struct Calibration {
    output: CommandOutput,
    /// The power file.
    file: String,
    /// Whether no other program used the CPUs.
    undisturbed: bool,
}

/// Retries until no other program uses the CPUs, or the timeout expires. `None`: other programs prevented every calibration.
fn on_an_idle_machine(power_file: Option<&str>, more: &[&str], load: f64) -> Option<Calibration> {
    let started = Instant::now();
    let mut last = None;
    while started.elapsed() < TIMEOUT {
        // A new simulation for each run: calibrate ignores zones whose counter does not advance.
        let mut simulated = SimulatedCounters::new(Platform::Intel1);
        if let Some(text) = power_file {
            std::fs::write(simulated.power_file(), text).unwrap();
        }
        let (output, used) = calibrate(&mut simulated, more);
        println!("{output:?}, {used:.3} s of {load:.3} s");
        // calibrate refused to run, or fitted the power under a load that the counters do not follow.
        if output.stderr.contains("other programs use") {
            continue;
        }
        let undisturbed = used >= load * MIN_LOAD;
        let file = std::fs::read_to_string(simulated.power_file()).unwrap_or_default();
        last = Some(Calibration { output, file, undisturbed });
        if undisturbed {
            return last;
        }
    }
    if last.is_none() {
        skip("other programs use this machine all the time");
    }
    last
}

#[test]
fn calibration_finds_the_power_model_and_verifies_it() {
    if !may_run_as_root() {
        return;
    }
    let step = SETTLE + MEASURE;
    let counts = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < cpus());
    let load = f64::from(counts.sum::<u32>() + cpus()) * step;
    let Some(run) = on_an_idle_machine(None, &[], load) else { return };
    assert_eq!(run.output.code, Some(0), "{:?}", run.output);
    let (idle, full) = (f64::from(IDLE) / 1e3, f64::from(IDLE + DYNAMIC) / 1e3);
    let found = [watts(&run.output.stdout, "W idle"), watts(&run.output.stdout, "W at 100 %")];
    println!("idle {:.2} W of {idle} W, at full load {:.2} W of {full} W", found[0], found[1]);
    let tolerance = if run.undisturbed { [0.03, 0.05] } else { [0.2, 0.3] };
    assert!((found[0] / idle - 1.0).abs() <= tolerance[0], "{:?}", run.output);
    assert!((found[1] / full - 1.0).abs() <= tolerance[1], "{:?}", run.output);

    let both = f64::from(cpus()) * step;
    let Some(again) = on_an_idle_machine(Some(&run.file), &["--verify"], both) else { return };
    assert!(again.output.stdout.contains("has changed by at most"), "{:?}", again.output);
    if run.undisturbed && again.undisturbed {
        assert_eq!(again.output.code, Some(0), "{:?}", again.output);
        assert!(again.output.stdout.contains("still valid"), "{:?}", again.output);
    }
}

/// The number before these words in the line of the zone `package-0`.
#[track_caller]
fn watts(table: &str, words: &str) -> f64 {
    let line = table.lines().find(|line| line.starts_with("package-0 ")).unwrap();
    let before = line.split(words).next().filter(|before| before.len() < line.len()).unwrap();
    before.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn without_counters_calibrate_is_refused() {
    let simulated = SimulatedCounters::new(Platform::Empty);
    let mut arguments = vec!["calibrate".to_owned()];
    arguments.extend(simulated.arguments());
    let output = mpwatch_tests::mpwatch(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stderr.contains("cannot calibrate"), "{output:?}");
    assert!(!simulated.power_file().exists());
}

/// Load on CPUs until this value is dropped.
struct OtherLoad(Arc<()>);

impl OtherLoad {
    /// Starts this many threads, which alternately compute for the first duration and sleep for the second.
    fn start(threads: u32, computes: Duration, sleeps: Duration) -> Self {
        let alive = Arc::new(());
        for _ in 0..threads {
            let seen = Arc::downgrade(&alive);
            thread::spawn(move || {
                while seen.strong_count() > 0 {
                    let started = Instant::now();
                    while started.elapsed() < computes {
                        std::hint::black_box(());
                    }
                    thread::sleep(sleeps);
                }
            });
        }
        Self(alive)
    }
}

#[test]
fn under_other_load_the_idle_power_is_fitted() {
    assert_fitted_under_load(1, Duration::from_millis(50), Duration::from_millis(100));
}

#[test]
#[ignore = "needs a machine on which nothing else runs"]
fn under_load_of_half_of_all_cpus_the_idle_power_is_fitted() {
    assert_fitted_under_load(cpus(), Duration::from_millis(48), Duration::from_millis(52));
}

/// Calibrates under other load, with counters that follow the whole machine like real counters.
fn assert_fitted_under_load(threads: u32, computes: Duration, sleeps: Duration) {
    if !may_run_as_root() {
        return;
    }
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.start(LoadScope::Machine);
    let load = OtherLoad::start(threads, computes, sleeps);
    let started = Instant::now();
    let output = loop {
        let mut arguments = vec!["calibrate".to_owned()];
        arguments.extend(simulated.arguments());
        arguments.extend(["--settle", "1s", "--measure", "4s"].map(str::to_owned));
        let output = mpwatch_tests::mpwatch(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        // Other tests and builds may use more than half of the machine.
        let is_disturbed = output.code != Some(0);
        if !is_disturbed || started.elapsed() > Duration::from_mins(2) {
            break output;
        }
    };
    drop(load.0);
    println!("{output:?}");
    if output.code != Some(0) || !output.stderr.contains("idle power is fitted") {
        return skip("other programs use too much or too little of this machine");
    }
    let (idle, found) = (f64::from(IDLE) / 1e3, watts(&output.stdout, "W idle"));
    println!("idle {found:.2} W of {idle} W");
    assert!((found / idle - 1.0).abs() <= 0.1, "{output:?}");
    assert!(std::fs::read_to_string(simulated.power_file()).unwrap().contains("is_fitted = true"));
}
