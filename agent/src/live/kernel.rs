// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel as a source of events: final records as they arrive, and at every tick a snapshot, counters and energy.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{Tracer, TracerSettings};
use mpwatch_ebpf::{namespace, system_clock};
use mpwatch_engine::why::Question;
use mpwatch_model::flow::elimination::EliminationRecord;
use mpwatch_model::host::machine::{Host, Losses, MappingErrors, Overhead};
use mpwatch_model::host::setup::Setup;
use mpwatch_model::kernel::clock::ClockChange;
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::kernel::event::{KernelEvent, Start, Tick};

use crate::cli::CounterOptions;
use crate::energy::meter::Meter;
use crate::live::budget::{Budget, Reducible};
use crate::live::cost::CostMeter;
use crate::live::owners::OwnerSearch;
use crate::live::playback::Playback;
use crate::live::questions::Questions;
use crate::live::source::{EventSink, EventSource};
use crate::live::windows::Windows;
use crate::names::Names;
use crate::system::clock::{self, ClockPair};
use crate::system::mib::Mib;
use crate::system::procfs::read_file;
use crate::system::setup;

/// Wait for final records after the stop signal: a socket is removed from the kernel's tables shortly before its end is traced.
const FINAL_RECORDS_WAIT: Duration = Duration::from_millis(50);
/// Maximum wait for records between two checks of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Collects from the events which names, owners and counters to read.
#[derive(Default)]
struct Notes {
    names: Names,
    owners: OwnerSearch,
    mib: Mib,
    questions: Questions,
}

impl Notes {
    fn note(&mut self, event: &KernelEvent) {
        self.names.note(event);
        self.owners.note(event);
        self.mib.note(event);
    }
}

/// Steps of elimination that enter the stream before the next tick, so that timelines, the database and recordings contain them.
pub(crate) type Journal = Rc<RefCell<Vec<EliminationRecord>>>;

/// A kernel that is being traced.
pub(crate) struct Live {
    pub(crate) journal: Journal,
    tracer: Tracer,
    pub(crate) start: Start,
    boot_epoch_ns: i64,
    /// The clocks at the latest tick.
    clocks: ClockPair,
    notes: Notes,
    interval: Duration,
    next_tick: Instant,
    /// Requests of the live view's user, who can change the interval.
    pub(crate) playback: Option<Arc<Playback>>,
    has_ended: bool,
    failures: Failures,
    stop: Arc<AtomicBool>,
    /// Reads energy. `None`: there is no CPU ledger, so energy cannot be attributed.
    meter: Option<Meter>,
    /// Opens and closes windows of the ledger. `None`: the ledger is not sampled.
    windows: Option<Windows>,
    /// Measures and limits the cost of tracing. `None`: the cost is not measured.
    cost: Option<(CostMeter, Budget)>,
}

impl Live {
    /// Attaches the programs, then reads existing connections. In this order no connection is missed.
    pub(crate) fn start(
        interval: Duration,
        settings: TracerSettings,
        counters: &CounterOptions,
        budget: Option<f64>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let mut tracer = Tracer::start(settings)?;
        let namespaces = namespace::all();
        tracer.adopt(&namespaces);
        tracer.find_owners()?;
        let boot_epoch_ns = clock::boot_epoch_ns()?;
        let notes = Notes {
            names: Names::watch(tracer.cookie_reader()),
            mib: Mib::start(&namespaces),
            ..Notes::default()
        };
        let mode = tracer.ledger_mode();
        let meter = (mode != LedgerMode::Off).then(|| Meter::start(counters, mode));
        let start = Start {
            host: this_host(&tracer),
            boot_epoch_ns,
            at: clock::boot_now()?,
            setup: Arc::new(setup::read(interval)),
            traces: tracer.traces(),
            backoff: true,
            ledger: mode,
            machine: meter.as_ref().map(|meter| meter.machine.clone()),
        };
        // The kernel does not measure the programs of an exact ledger. The user who selects that ledger accepts its cost.
        let cost = (mode != LedgerMode::Exact)
            .then(|| (CostMeter::default(), Budget::new(budget, &reducible(&tracer))));
        Ok(Self {
            journal: Journal::default(),
            windows: Windows::start(&tracer, Instant::now()),
            cost,
            tracer,
            start,
            boot_epoch_ns,
            clocks: ClockPair::now(),
            notes,
            interval,
            next_tick: Instant::now(),
            playback: None,
            has_ended: false,
            failures: Failures::default(),
            stop,
            meter,
        })
    }

    /// Changes the description of the run. Must be called before the first tick.
    pub(crate) fn describe(&mut self, change: impl FnOnce(&mut Setup)) {
        change(Arc::make_mut(&mut self.start.setup));
    }

    /// Disables measuring the cost, because this process also does work unrelated to tracing.
    pub(crate) fn without_cost(mut self) -> Self {
        self.cost = None;
        self
    }

    /// Disables the backoff of evaluation, because actions must not be based on old verdicts.
    pub(crate) fn without_backoff(mut self) -> Self {
        self.start.backoff = false;
        self
    }

    /// Measures the cost, and reduces or restores tracing if the budget requires that. `None`: the cost is not measured.
    fn keep_budget(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<Option<Overhead>> {
        let Some((meter, budget)) = &mut self.cost else { return Ok(None) };
        if meter.read(&self.tracer).is_some_and(|cost| budget.observe(cost)) {
            self.tracer.set_sampling_rate(budget.sampling_rate())?;
            if let Some(windows) = &mut self.windows {
                windows.schedule.period = budget.window_period();
            }
            self.start.host.missing = [self.tracer.missing(), &budget.missing()].concat();
            tracing::info!(
                reductions = budget.overhead().map(|overhead| overhead.reductions),
                "tracing was reduced or restored to keep the CPU budget"
            );
            sink(&KernelEvent::Start(self.start.clone()))?;
        }
        Ok(budget.overhead())
    }

    /// Applies an interval that the user has changed. The new interval counts from the previous tick.
    fn apply_interval(&mut self) {
        let requested = self.playback.as_ref().and_then(|playback| playback.interval());
        if let Some(interval) = requested.filter(|interval| *interval != self.interval) {
            let previous = self.next_tick.checked_sub(self.interval).unwrap_or(self.next_tick);
            (self.next_tick, self.interval) = (previous + interval, interval);
        }
    }

    /// Waits until the next tick is due and no window of the ledger is open. Meanwhile, passes on final records.
    fn wait(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> anyhow::Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            self.apply_interval();
            let until_window = self.step_window(sink);
            let is_open = self.windows.as_ref().is_some_and(|windows| windows.schedule.is_open());
            let until_tick = self.next_tick.saturating_duration_since(Instant::now());
            if until_tick.is_zero() && !is_open {
                break;
            }
            let left = if is_open { until_window } else { until_window.min(until_tick) };
            self.tracer.poll(left.min(STOP_CHECK_INTERVAL), sink)?;
        }
        Ok(())
    }

    /// Opens or closes a window of the ledger if this is due. Returns the time until the next change.
    fn step_window(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Duration {
        let Some(windows) = &mut self.windows else { return Duration::MAX };
        if windows.step(&mut self.tracer, Instant::now(), self.next_tick) {
            return windows.schedule.due_in(Instant::now());
        }
        (self.windows, self.meter) = (None, None);
        let reduced = self.cost.as_ref().map(|(_, budget)| budget.missing()).unwrap_or_default();
        self.start.host.missing = [self.tracer.missing(), &reduced].concat();
        (self.start.traces, self.start.ledger) = (self.tracer.traces(), LedgerMode::Off);
        tracing::error!(
            "the kernel refused to attach the CPU ledger again: CPU time and energy are unknown from now on"
        );
        sink(&KernelEvent::Start(self.start.clone()));
        Duration::MAX
    }

    /// Passes on the events up to the next tick, the new names of namespaces and pods, and the tick.
    fn tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<()> {
        for record in self.journal.take() {
            sink(&KernelEvent::Elimination(record))?;
        }
        let mut outcome = Ok(());
        let mut notes = std::mem::take(&mut self.notes);
        let read = self.read_events(&mut |event: &KernelEvent| {
            notes.note(event);
            if outcome.is_ok() {
                outcome = sink(event);
            }
        });
        self.notes = notes;
        outcome?;
        let mut tick = read?;
        tick.counters.mptcp_mib = self.notes.mib.read().clone();
        tick.counters.mapping_problems = MappingErrors::from_mib(&tick.counters.mptcp_mib);
        if !self.has_ended {
            self.notes.owners.run(&self.tracer)?;
        }
        for name in self.notes.names.resolve() {
            sink(&name)?;
        }
        for explanation in self.notes.questions.answer(self.has_ended) {
            sink(&KernelEvent::Explanation(explanation))?;
        }
        if let Some(boot_epoch_ns) = clock::calendar_change(self.boot_epoch_ns, clock::boot_epoch_ns()) {
            self.boot_epoch_ns = boot_epoch_ns;
            sink(&KernelEvent::Clock(ClockChange { at: tick.at, boot_epoch_ns }))?;
        }
        let clocks = ClockPair::now();
        tick.suspended = clocks.suspended_since(std::mem::replace(&mut self.clocks, clocks));
        tick.clock_error = system_clock::error();
        tick.overhead = self.keep_budget(sink)?;
        sink(&KernelEvent::Tick(tick))
    }

    /// Waits for the tick, then reads a snapshot.
    fn read_events(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> anyhow::Result<Tick> {
        self.wait(sink)?;
        // The flag is read first, so that the last snapshot includes every connection that closed before the signal.
        self.has_ended = self.stop.load(Ordering::Relaxed);
        if self.has_ended {
            self.tracer.poll(FINAL_RECORDS_WAIT, sink)?;
            if let Some(windows) = &mut self.windows {
                windows.close(&mut self.tracer);
            }
        }
        self.tracer.snapshot(sink)?;
        let (counters, losses) = self.tracer.counters()?;
        let losses = Losses { ticks_failed: self.failures.count, ..losses };
        let mut tick = Tick { at: clock::boot_now()?, losses, counters, ..Tick::default() };
        let Some(meter) = &mut self.meter else { return Ok(tick) };
        let charges = self.windows.as_mut().is_some_and(|windows| windows.charge_if_due(Instant::now()))
            || self.has_ended;
        let in_windows = self.windows.as_ref().map(|windows| windows.counted).unwrap_or_default();
        meter.read(&self.tracer, in_windows, charges, &mut tick)?;
        tick.at = clock::boot_now()?;
        Ok(tick)
    }
}

impl EventSource for Live {
    fn start(&self) -> &Start {
        &self.start
    }

    fn free_questions(&self) -> usize {
        self.notes.questions.free()
    }

    fn ask(&mut self, questions: Vec<Question>) {
        self.notes.questions.add(questions);
    }

    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool> {
        while !self.has_ended {
            let was_stopped = self.stop.load(Ordering::Relaxed);
            let read = self.tick(sink);
            self.next_tick = tick_after(self.next_tick, self.interval, Instant::now());
            // A tick that fails because of the stop signal is not an error. The tick is repeated once to read the final counters.
            if self.failures.allow(read, self.stop.load(Ordering::Relaxed))? {
                return Ok(true);
            }
            // Reading may fail immediately, without waiting for the tick.
            std::thread::sleep(STOP_CHECK_INTERVAL);
            self.has_ended = was_stopped;
        }
        Ok(false)
    }
}

/// Counts failed ticks. A temporary shortage of descriptors or memory must not end a daemon.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    has_succeeded: bool,
    is_failing: bool,
}

impl Failures {
    /// Whether a tick was read. Returns the error only if no tick has been read before, because the cause is then not temporary. Returns no
    /// error while the run is being stopped.
    fn allow(&mut self, read: anyhow::Result<()>, is_stopping: bool) -> anyhow::Result<bool> {
        match read {
            Ok(()) => {
                if self.is_failing {
                    tracing::info!("snapshots are read again");
                }
                (self.has_succeeded, self.is_failing) = (true, false);
                Ok(true)
            }
            Err(error) if self.has_succeeded || is_stopping => {
                if !self.is_failing {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "a snapshot was skipped; the next one is read as usual"
                    );
                }
                self.is_failing = true;
                self.count += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// When the next tick is due. A late tick delays its successor: a rate over a few milliseconds would be a false peak in charts.
fn tick_after(due: Instant, interval: Duration, now: Instant) -> Instant {
    (due + interval).max(now + interval / 2)
}

/// The work of this run that a budget can reduce.
fn reducible(tracer: &Tracer) -> Vec<Reducible> {
    let hooks = tracer.traces();
    let all = [
        (Reducible::Windows, tracer.ledger_mode() == LedgerMode::Sampled),
        (Reducible::Samples, hooks.samples),
        (Reducible::Rtt, hooks.segments),
    ];
    all.into_iter().filter(|(_, is_done)| *is_done).map(|(work, _)| work).collect()
}

fn this_host(tracer: &Tracer) -> Host {
    let sysctl = |name: &str| read_file(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    Host {
        name: sysctl("hostname"),
        kernel: sysctl("osrelease"),
        boot_id: sysctl("random/boot_id"),
        mpwatch: env!("CARGO_PKG_VERSION").to_owned(),
        clock_error: system_clock::error(),
        missing: tracer.missing().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_tick_is_counted_and_the_next_one_proceeds() {
        let failed = || Err(anyhow::anyhow!("Too many open files"));
        let mut failures = Failures::default();
        assert!(failures.allow(Ok(()), false).unwrap());
        assert!(!failures.allow(failed(), false).unwrap() && !failures.allow(failed(), false).unwrap());
        assert!(failures.allow(Ok(()), false).unwrap());
        assert_eq!(failures.count, 2);
        assert!(Failures::default().allow(failed(), false).is_err(), "the first failure is reported");
        assert!(
            !Failures::default().allow(failed(), true).unwrap(),
            "a signal during the first tick is not an error"
        );
    }

    #[test]
    fn the_tick_after_a_late_one_is_at_least_half_an_interval_away() {
        let (due, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(tick_after(due, second, due), due + second);
        assert_eq!(tick_after(due, second, due + second / 4), due + second);
        assert_eq!(tick_after(due, second, due + second * 3), due + second * 7 / 2);
    }
}
