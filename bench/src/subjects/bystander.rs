// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of tracing for work that is not traced: a system call, a context switch, a request over plain TCP. An MPTCP connection runs in
//! parallel, because otherwise there would be nothing to trace.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::Topology;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use nix::unistd::getppid;

use crate::effort::Effort;
use crate::process::thread_cpu_time;
use crate::subjects::interleave::{Pairs, compare};
use crate::subjects::tracing::{self, JUDGED, NOTHING};
use crate::subjects::traffic::{Speed, Traffic, lab, pin_to, tcp_requests};
use crate::table::{figure, markdown};

const HEADER: [&str; 6] = ["work", "tracing", "CPU time of one, median", "cost", "target", "result"];
/// Highest acceptable cost, in percent.
const TARGET: f64 = 1.0;
/// Number of units of work between two readings of the clock.
const BATCH: u32 = 1_000;
/// The CPU on which the work runs. mpwatch may run on any CPU.
const CPU: usize = 0;

/// Measures the speed of running work during a window.
type Meter<'a> = Box<dyn Fn(Duration) -> Speed + 'a>;

/// A kind of work that is not traced.
struct Work {
    name: &'static str,
    /// Starts the work.
    start: fn(&Topology, Effort) -> Meter<'_>,
}

const WORK: [Work; 3] = [
    Work { name: "a system call, `getppid()`", start: system_calls },
    Work { name: "a round trip through two pipes, two context switches", start: pipe_round_trips },
    Work { name: "a plain TCP request, 64 B", start: tcp_exchanges },
];

pub(crate) fn run(effort: Effort) -> String {
    // The traced connection has a separate lab, so that ports do not collide.
    let (lab, traced_lab) = (lab(), lab());
    let control = Arc::new(Control::default());
    let workload = Workload::Paced { rate: 1_000_000, duration: Duration::from_hours(1) };
    let spec = traced_lab.traffic(workload).expect("the lab has a path");
    let traced = Transfer::start(traced_lab.client(), traced_lab.server(), &spec, &control)
        .expect("traffic can be started");
    let rows: Vec<_> = WORK.iter().flat_map(|work| measure(&lab, work, effort)).collect();
    control.cancel();
    // The report is ignored, because the traffic was cancelled.
    let _ = traced.join();
    let note = format!(
        "{} rounds; during the work, one MPTCP connection sends 1 Mbit/s. In brackets: the 95 % confidence interval of the median.\n\n",
        effort.rounds
    );
    note + &markdown(&HEADER, &rows)
}

fn measure(lab: &Topology, work: &Work, effort: Effort) -> Vec<Vec<String>> {
    eprintln!("bench: {}, {} rounds", work.name, effort.rounds);
    let tools = tracing::tools(|_| ());
    let all = compare(&tools, effort, || (work.start)(lab, effort));
    let mut baseline = vec![
        work.name.to_owned(),
        NOTHING.to_owned(),
        time_of_one(all[0].median_without(|speed| speed.by_cpu)),
    ];
    baseline.resize(HEADER.len(), "-".to_owned());
    let rows = tools.iter().zip(&all).map(|(tool, pairs)| row(work, &tool.name, pairs));
    std::iter::once(baseline).chain(rows).collect()
}

fn row(work: &Work, settings: &str, pairs: &Pairs) -> Vec<String> {
    let cost = pairs.by_cpu();
    let judged = settings == tracing::name(JUDGED);
    vec![
        work.name.to_owned(),
        settings.to_owned(),
        time_of_one(pairs.median(|speed| speed.by_cpu)),
        cost.text(),
        if judged { format!("{TARGET} %") } else { "-".to_owned() },
        if judged { cost.verdict(TARGET).to_owned() } else { "-".to_owned() },
    ]
}

fn time_of_one(rate: f64) -> String {
    format!("{} ns", figure(1e9 / rate))
}

fn system_calls(_: &Topology, _: Effort) -> Meter<'_> {
    let worker = Worker::start(|| {
        for _ in 0..BATCH {
            std::hint::black_box(getppid());
        }
    });
    Box::new(move |window| worker.measure(window))
}

/// Two threads take turns on one CPU. Only the CPU time of one thread is measured, which does half of the work.
fn pipe_round_trips(_: &Topology, _: Effort) -> Meter<'_> {
    let (echo_reads, mut there) = pipe().expect("a pipe can be made");
    let (mut back, echo_writes) = pipe().expect("a pipe can be made");
    // This thread ends when the worker ends and so closes the other ends of the pipes.
    thread::spawn(move || {
        pin_to(CPU);
        echo(echo_reads, echo_writes);
    });
    let worker = Worker::start(move || {
        let mut byte = [0];
        for _ in 0..BATCH {
            there.write_all(&byte).and_then(|()| back.read_exact(&mut byte)).expect("the pipe is open");
        }
    });
    Box::new(move |window| worker.measure(window))
}

/// Sends each received byte back until the other end is closed.
fn echo(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).and_then(|()| to.write_all(&byte)).is_ok() {}
}

fn tcp_exchanges(lab: &Topology, effort: Effort) -> Meter<'_> {
    let traffic = Traffic::start(lab, &tcp_requests(), effort);
    Box::new(move |window| traffic.measure(window))
}

/// Counters of a worker, updated after each batch.
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    /// CPU time in nanoseconds.
    cpu_time: AtomicU64,
    stopped: AtomicBool,
}

/// A thread that is pinned to [`CPU`] and repeats batches until the worker is dropped.
struct Worker {
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(mut batch: impl FnMut() + Send + 'static) -> Self {
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = thread::spawn(move || {
            pin_to(CPU);
            while !shared.stopped.load(Ordering::Relaxed) {
                batch();
                let nanoseconds = u64::try_from(thread_cpu_time().as_nanos()).expect("fits into 64 bits");
                shared.cpu_time.store(nanoseconds, Ordering::Relaxed);
                shared.done.fetch_add(BATCH.into(), Ordering::Relaxed);
            }
        });
        Self { progress, thread: Some(thread) }
    }

    fn measure(&self, window: Duration) -> Speed {
        let read =
            || [&self.progress.done, &self.progress.cpu_time].map(|it| it.load(Ordering::Relaxed) as f64);
        let (start, [done, cpu_time]) = (Instant::now(), read());
        thread::sleep(window);
        let (clock, [done_after, cpu_time_after]) = (start.elapsed(), read());
        let units = done_after - done;
        let by_cpu = units / (cpu_time_after - cpu_time) * 1e9;
        Speed { units, by_clock: units / clock.as_secs_f64(), by_cpu }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.progress.stopped.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join).transpose().expect("the work does not panic");
    }
}
