// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel as a source of events: waits for final records, reads a snapshot every interval, looks up names.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use mpwatch_ebpf::namespace;
use mpwatch_ebpf::tracer::{Settings, Tracer};
use mpwatch_model::event::{KernelEvent, Start, Tick};
use mpwatch_model::host::Host;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clock;
use crate::energy::meter::{self, Meter};
use crate::names::Names;
use crate::screen::pace::Pace;
use crate::source::{EventSource, Sink};

/// A socket leaves the kernel's tables a moment before its end is traced: who stops us when all sockets are gone expects to see
/// that end.
const GRACE: Duration = Duration::from_millis(50);
/// Longest wait for records before looking at the stop flag again.
const PATIENCE: Duration = Duration::from_millis(50);

/// What to trace and how often to look.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Time between two ticks.
    pub(crate) interval: Duration,
    /// Settings of the kernel side.
    pub(crate) tracer: Settings,
    /// Where to look for energy.
    pub(crate) energy: meter::Options,
}

/// The kernel, being traced.
pub(crate) struct Live {
    tracer: Tracer,
    start: Start,
    names: Names,
    interval: Duration,
    due: Instant,
    /// Who may change the interval while tracing goes on.
    pace: Option<Arc<Pace>>,
    ended: bool,
    stop: Arc<AtomicBool>,
    owners_by_search: bool,
    /// `None`: there is no ledger to divide energy by.
    meter: Option<Meter>,
}

impl Live {
    /// Attaches, then takes in what is older: in this order nothing falls between.
    pub(crate) fn start(options: &Options, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let mut tracer = Tracer::start(options.tracer)?;
        tracer.adopt(&namespace::all());
        tracer.find_owners()?;
        let owners_by_search = tracer.missing().iter().any(|one| one.what == "sock_send_length");
        let meter = tracer.traces().ledger.then(|| Meter::start(&options.energy));
        let start = Start {
            host: this_host(&tracer),
            boot_epoch_ns: clock::boot_epoch_ns()?,
            at: clock::boot_now()?,
            traces: tracer.traces(),
            backoff: true,
            machine: meter.as_ref().map(|meter| meter.machine().clone()),
        };
        Ok(Self {
            tracer,
            start,
            names: Names::new(),
            interval: options.interval,
            due: Instant::now(),
            pace: None,
            ended: false,
            stop,
            owners_by_search,
            meter,
        })
    }

    /// From now on the interval is what is wished for here.
    pub(crate) fn follow(&mut self, pace: Arc<Pace>) {
        self.pace = Some(pace);
    }

    /// Takes over an interval that was wished for meanwhile, counted from the tick before.
    fn keep_pace(&mut self) {
        let wished = self.pace.as_ref().and_then(|pace| pace.interval());
        if let Some(interval) = wished.filter(|interval| *interval != self.interval) {
            let before = self.due.checked_sub(self.interval).unwrap_or(self.due);
            (self.due, self.interval) = (before + interval, interval);
        }
    }

    /// Waits for the next tick, taking in final records meanwhile.
    fn wait(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> anyhow::Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            self.keep_pace();
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.tracer.poll(left.min(PATIENCE), sink)?;
        }
        Ok(())
    }

    /// Reads everything there is now.
    fn look(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> anyhow::Result<Tick> {
        if self.owners_by_search {
            self.tracer.find_owners()?;
        }
        self.tracer.snapshot(sink)?;
        let (counters, losses) = self.tracer.counters()?;
        let (cpus, energy) = self.meter.as_mut().map(|meter| meter.read(&self.tracer)).transpose()?.unzip();
        Ok(Tick { at: clock::boot_now()?, losses, counters, cpus: cpus.unwrap_or_default(), energy })
    }
}

impl EventSource for Live {
    fn start(&self) -> &Start {
        &self.start
    }

    fn next_tick(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let mut outcome = Ok(());
        let mut wanted = Names::new();
        std::mem::swap(&mut wanted, &mut self.names);
        let mut forward = |event: &KernelEvent| {
            wanted.note(event);
            if outcome.is_ok() {
                outcome = sink(event);
            }
        };
        self.wait(&mut forward)?;
        // Read before the last look, so that what closes until the signal comes is in it.
        self.ended = self.stop.load(Ordering::Relaxed);
        if self.ended {
            self.tracer.poll(GRACE, &mut forward)?;
        }
        let tick = self.look(&mut forward)?;
        self.names = wanted;
        outcome?;
        for name in self.names.look_up() {
            sink(&name)?;
        }
        sink(&KernelEvent::Tick(tick))?;
        self.due = next_due(self.due, self.interval, Instant::now());
        Ok(true)
    }
}

/// When the tick after that of `due` is due. One that was late does not make the next one follow at once: a rate over some milliseconds would be
/// noise, and would stand in charts as a peak a hundred times as high as anything else.
fn next_due(due: Instant, interval: Duration, now: Instant) -> Instant {
    (due + interval).max(now + interval / 2)
}

fn this_host(tracer: &Tracer) -> Host {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    Host {
        name: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        mpwatch: env!("CARGO_PKG_VERSION").to_owned(),
        missing: tracer.missing().to_vec(),
    }
}

/// A flag that SIGINT and SIGTERM set, and SIGHUP, which comes when the terminal is closed.
pub(crate) fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listening for signals")?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_does_not_make_the_next_one_follow_at_once() {
        let (due, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(next_due(due, second, due), due + second, "in time: the beat is kept");
        assert_eq!(next_due(due, second, due + second / 4), due + second);
        assert_eq!(next_due(due, second, due + second * 3), due + second * 7 / 2);
    }
}
