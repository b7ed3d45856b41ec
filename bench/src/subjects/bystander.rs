// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tracing costs processes that are not traced: a system call, a context switch, a request over plain TCP. Beside them runs one MPTCP
//! connection, without which there would be nothing to trace.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::Topology;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use nix::unistd::getppid;

use crate::effort::Effort;
use crate::process::thread_cpu_time;
use crate::statistics::{Cost, median};
use crate::subjects::tracing::{Series, Tracing, order};
use crate::subjects::traffic::{Traffic, lab, pin_to, tcp_requests};
use crate::table::{figure, markdown};

const HEADER: [&str; 6] = ["work", "tracing", "CPU time of one, median", "cost", "target", "result"];
/// Highest acceptable cost, in percent.
const TARGET: f64 = 1.0;
/// Work is done in batches of this many between two readings of the clock.
const BATCH: u32 = 1_000;
/// The CPU of the work. mpwatch runs anywhere.
const CPU: usize = 0;

/// A kind of work that is not traced.
struct Work {
    name: &'static str,
    /// Does it for some time; returns how often it was done per second of CPU time.
    rate: fn(&Topology, Effort) -> f64,
}

const WORK: [Work; 3] = [
    Work { name: "a system call, `getppid()`", rate: system_calls },
    Work { name: "a round trip through two pipes, two context switches", rate: pipe_round_trips },
    Work { name: "a plain TCP request, 64 B", rate: tcp_exchanges },
];

pub(crate) fn run(effort: Effort) -> String {
    // Of its own network, so that its port is not in the way.
    let (lab, traced_lab) = (lab(), lab());
    let control = Arc::new(Control::default());
    let workload = Workload::Paced { rate: 1_000_000, duration: Duration::from_hours(1) };
    let spec = traced_lab.traffic(workload).expect("the lab has a path");
    let traced = Transfer::start(traced_lab.client(), traced_lab.server(), &spec, &control)
        .expect("traffic can be started");
    let rows: Vec<_> = WORK.iter().flat_map(|work| compare(&lab, work, effort)).collect();
    control.cancel();
    // It was cancelled: its report means nothing.
    let _ = traced.join();
    let note = format!(
        "{} rounds; beside the work, one MPTCP connection sends 1 Mbit/s. In brackets: the 95 % confidence interval of the median.\n\n",
        effort.rounds
    );
    note + &markdown(&HEADER, &rows)
}

fn compare(lab: &Topology, work: &Work, effort: Effort) -> Vec<Vec<String>> {
    eprintln!("bench: {}, {} rounds", work.name, effort.rounds);
    let mut rates = Series::default();
    for round in 0..effort.rounds {
        for tracing in order(round) {
            let observer = tracing.observer();
            thread::sleep(effort.warm_up);
            rates.push(tracing, (work.rate)(lab, effort));
            drop(observer.map(crate::harness::Observer::finish));
        }
    }
    Tracing::ALL.map(|tracing| row(work, tracing, &rates)).to_vec()
}

fn row(work: &Work, tracing: Tracing, rates: &Series) -> Vec<String> {
    let cost = Cost::of_rates(rates.of(tracing), &rates.baseline(tracing));
    let judged = tracing == Tracing::Sampled;
    let text = if tracing == Tracing::Nothing { "-".to_owned() } else { cost.text() };
    vec![
        work.name.to_owned(),
        tracing.name().to_owned(),
        format!("{} ns", figure(1e9 / median(rates.of(tracing)))),
        text,
        if judged { format!("{TARGET} %") } else { "-".to_owned() },
        if judged { cost.verdict(TARGET).to_owned() } else { "-".to_owned() },
    ]
}

fn system_calls(_: &Topology, effort: Effort) -> f64 {
    on_own_thread(move || {
        repeat(effort.window, || {
            for _ in 0..BATCH {
                std::hint::black_box(getppid());
            }
        })
    })
}

fn pipe_round_trips(_: &Topology, effort: Effort) -> f64 {
    let (echo_reads, mut there) = pipe().expect("a pipe can be made");
    let (mut back, echo_writes) = pipe().expect("a pipe can be made");
    // Both run on one CPU and take turns, so both use half of the CPU time.
    let echo = thread::spawn(move || {
        pin_to(CPU);
        echo(echo_reads, echo_writes);
    });
    let rate = on_own_thread(move || {
        let mut byte = [0];
        repeat(effort.window, || {
            for _ in 0..BATCH {
                there.write_all(&byte).and_then(|()| back.read_exact(&mut byte)).expect("the pipe is open");
            }
        })
    });
    echo.join().expect("it does not panic");
    rate
}

/// Answers each byte until the other end is closed.
fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).and_then(|()| to.write_all(&byte)).is_ok() {}
}

fn tcp_exchanges(lab: &Topology, effort: Effort) -> f64 {
    Traffic::start(lab, &tcp_requests(), effort).measure(effort.window).by_cpu
}

/// Runs work on a thread that is pinned to the CPU.
fn on_own_thread(work: impl FnOnce() -> f64 + Send + 'static) -> f64 {
    let worker = thread::spawn(|| {
        pin_to(CPU);
        work()
    });
    worker.join().expect("the work does not panic")
}

/// Repeats a batch for some time. Returns how much of it is done per second of this thread's CPU time.
fn repeat(window: Duration, mut batch: impl FnMut()) -> f64 {
    let (start, before) = (Instant::now(), thread_cpu_time());
    let mut done = 0.0;
    while start.elapsed() < window {
        batch();
        done += f64::from(BATCH);
    }
    done / thread_cpu_time().saturating_sub(before).as_secs_f64()
}
