// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces the running kernel: loads and attaches the programs, reads their records. Flow state is in the kernel's sockets and the tracker.

use std::io;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, Object};
use mpwatch_model::host::machine::{KernelCounters, Losses, MappingErrors, MissingHook};
use mpwatch_model::kernel::cpu::{CpuAccounts, LedgerMode};
use mpwatch_model::kernel::event::{KernelEvent, Traces};
use mpwatch_model::unit::{Bytes, Nanos};

use crate::abi;
use crate::decode;
use crate::error::{bpf_error, is_shortage};
use crate::log::quiet_libbpf;
use crate::namespace::{self, Namespace};
use crate::netns_cookie::CookieReader;
use crate::support::KernelSupport;
use crate::support::hook::Hook;
use crate::support::plan::AttachPlan;
use counters::Counters;
use ledger::Ledger;
use object::{Links, attach, attach_again, load, map};
use ring::Rings;

mod counters;
mod iterator;
mod ledger;
pub(crate) mod object;
pub(crate) mod program;
mod ring;
mod run_time;
mod settings;

pub use crate::error::TracerError;
pub use program::ProgramStats;
pub use settings::{Pace, Settings};

/// What became of a window of a sampled ledger that was to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It is open, or the ledger has no windows.
    Open,
    /// The kernel lacked descriptors or memory: a later one may open.
    Skipped,
    /// The kernel has refused to attach a program. Nothing of the ledger stays attached, and [`Tracer::missing`] has the reason.
    Refused,
}

/// Work of all flows, and what windows of a sampled ledger have seen of it. Units: `MPW_WORK_PER_PACKET` for a packet, 1 for a KiB of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowWork {
    /// Since the start.
    pub all: u64,
    /// Of that in windows.
    pub in_windows: u64,
    /// CPU time of flows in the windows that have closed.
    pub time_in_windows: Nanos,
}

/// The attached programs.
pub struct Tracer {
    rings: Rings,
    counters: Counters,
    ledger: Option<Ledger>,
    mode: LedgerMode,
    links: Links,
    /// The programs of a sampled ledger, while a window is open.
    window: Option<Links>,
    /// What one run of a program takes, with the kernel's dispatch.
    run_time: Nanos,
    takes_samples: bool,
    plan: AttachPlan,
    snapshot_errors: u64,
    namespaces_unreadable: u64,
    buffer: Vec<u8>,
    // Last: the links above are detached before their programs are closed.
    object: Object,
}

impl Tracer {
    /// Loads and attaches the programs. From here on every socket that opens or closes on this machine is seen.
    pub fn start(settings: Settings) -> Result<Self, TracerError> {
        quiet_libbpf();
        let support = KernelSupport::of_this_kernel()?;
        let mut plan = AttachPlan::from_facts(&support);
        if !plan.obstacles.is_empty() {
            return Err(TracerError::Unsupported(plan.obstacles));
        }
        if settings.ledger == LedgerMode::Off {
            plan.leave_out_ledger();
        }
        let object = load(&plan, settings, &support)?;
        set_pace(&object, Pace::FULL)?;
        let mut links = attach(&object, &mut plan, |hook| !hook.is_of_ledger())?;
        let without_ledger = run_time::time_calls();
        let mut of_ledger = attach(&object, &mut plan, Hook::is_of_ledger)?;
        if !plan.can_keep_ledger() {
            plan.leave_out_ledger();
            of_ledger.clear();
        }
        let mode = if plan.can_keep_ledger() { settings.ledger } else { LedgerMode::Off };
        let (mut ledger, mut window, mut run_time) = (None, None, run_time::TYPICAL);
        match mode {
            LedgerMode::Off => {}
            LedgerMode::Exact => {
                links.extend(of_ledger);
                ledger = Some(Ledger::exact(&object)?);
            }
            LedgerMode::Sampled => {
                let mut sampled = Ledger::sampled(&object)?;
                sampled.open_window(&object, run_time);
                run_time = run_time::per_run(without_ledger, run_time::time_calls());
                (ledger, window) = (Some(sampled), Some(of_ledger));
            }
        }
        Ok(Self {
            rings: Rings::open(&object)?,
            counters: Counters::open(&object)?,
            ledger,
            mode,
            window,
            links,
            run_time,
            takes_samples: settings.samples,
            plan,
            snapshot_errors: 0,
            namespaces_unreadable: 0,
            buffer: Vec::new(),
            object,
        })
    }

    /// Starts to trace sockets of these namespaces that were open before the programs were attached.
    pub fn adopt(&mut self, namespaces: &[Namespace]) {
        let Some(link) = self.links.get("adopt") else { return };
        let failed = |namespace: &&Namespace| match namespace::inside(namespace, || iterator::run(link)) {
            // A namespace that no longer exists has no sockets.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(()) => false,
        };
        let unreadable = namespaces.iter().filter(failed).count();
        self.namespaces_unreadable += unreadable as u64;
    }

    /// Tells network namespaces apart. `None`: this kernel cannot run the program for it.
    pub fn cookie_reader(&self) -> Option<CookieReader> {
        CookieReader::of(&self.object)
    }

    /// Searches the open files of all processes for owners that are still unknown.
    pub fn find_owners(&self) -> Result<(), TracerError> {
        let Some(link) = self.links.get("find_owners") else { return Ok(()) };
        iterator::run(link).map_err(bpf_error("search the open files"))
    }

    /// Waits at most `timeout` for final records and passes all events to `sink`.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.rings.poll(timeout, sink)
    }

    /// Reads every connection and subflow that has changed, then newly arrived final records: a flow that ended during the snapshot is
    /// reported as ended. An unchanged one is listed every 8 to 15 seconds. Connections are read once more after their subflows, so that
    /// what these have sent meanwhile is not taken for reinjected. Until [`Tracer::poll`] is called next, a thread empties the rings.
    pub fn snapshot(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.rings.begin_tick();
        for program in ["read_connections", "read_subflows", "read_connections"] {
            let Some(link) = self.links.get(program) else { continue };
            let mut errors = 0;
            iterator::for_each(link, &mut self.buffer, |record| match decode::record(record) {
                Some(event) => sink(&event),
                None => errors += 1,
            })
            .map_err(bpf_error("read a snapshot"))?;
            self.snapshot_errors += errors;
        }
        self.rings.drain(sink)
    }

    /// Host-wide counters and losses since the start.
    pub fn counters(&self) -> Result<(KernelCounters, Losses), TracerError> {
        let sums = self.counters.read()?;
        let programs = self.programs()?;
        let measured = program::measured(&programs);
        let received = self.rings.received;
        let counters = KernelCounters {
            records: sums.of(abi::MPW_COUNT_RING_RECORDS),
            records_received: received.records,
            synack_retransmits: sums.of(abi::MPW_COUNT_SYNACK_RETRANSMITS),
            points: received.samples,
            points_bytes: Bytes(received.sample_bytes),
            program_runs: measured.map(|(runs, _)| runs),
            program_time: measured.map(|(_, time)| time),
            // The kernel has them per network namespace.
            mapping_problems: MappingErrors::default(),
        };
        let lost = sums.of(abi::MPW_COUNT_RECORDS_LOST);
        let losses = Losses {
            ring_full_recovered: sums.of(abi::MPW_COUNT_RING_FULL).saturating_sub(lost),
            records_lost: lost,
            lost_bytes_sent: Bytes(sums.of(abi::MPW_COUNT_LOST_BYTES_SENT)),
            lost_bytes_received: Bytes(sums.of(abi::MPW_COUNT_LOST_BYTES_RECEIVED)),
            storage_failed: sums.of(abi::MPW_COUNT_STORAGE_FAILED),
            ledger_full: sums.of(abi::MPW_COUNT_COSTS_FULL),
            points_lost: sums.of(abi::MPW_COUNT_SAMPLES_LOST),
            events_missed: program::events_missed(&programs),
            decode_errors: self.snapshot_errors + received.errors,
            namespaces_unreadable: self.namespaces_unreadable,
            ..Losses::default()
        };
        Ok((counters, losses))
    }

    /// The accounts of each CPU, in the order of their numbers; of a sampled ledger, in its windows. Empty: there is no ledger.
    pub fn cpus(&self) -> Result<Vec<CpuAccounts>, TracerError> {
        let Some(ledger) = &self.ledger else { return Ok(Vec::new()) };
        let is_closed = self.mode == LedgerMode::Sampled && self.window.is_none();
        let accounts = if is_closed { ledger.read() } else { ledger.settle(&self.object) };
        accounts.map_err(bpf_error("read the CPU ledger"))
    }

    /// When CPU time is accounted. Off also if this kernel cannot do it.
    pub fn ledger_mode(&self) -> LedgerMode {
        self.mode
    }

    /// Opens a window of a sampled ledger; the first one is open from the start.
    pub fn open_window(&mut self) -> Opening {
        let Some(ledger) = self.ledger.as_mut().filter(|_| self.mode == LedgerMode::Sampled) else {
            return Opening::Open;
        };
        if self.window.is_some() {
            return Opening::Open;
        }
        match attach_again(&self.object, &self.plan, Hook::is_of_ledger) {
            Ok(links) => {
                ledger.open_window(&self.object, self.run_time);
                self.window = Some(links);
                Opening::Open
            }
            Err((_, error)) if is_shortage(&error) => Opening::Skipped,
            Err((target, error)) => {
                self.plan.give_up_ledger(target, &format!("refused by the kernel: {error:#}"));
                self.mode = LedgerMode::Off;
                self.ledger = None;
                Opening::Refused
            }
        }
    }

    /// Closes the window of a sampled ledger.
    pub fn close_window(&mut self) {
        if let (Some(ledger), true) = (&self.ledger, self.window.is_some()) {
            ledger.close_window(&self.object);
        }
        self.window = None;
    }

    /// Changes how closely the programs look at segments and RTTs, from the next segment on.
    pub fn set_pace(&self, pace: Pace) -> Result<(), TracerError> {
        set_pace(&self.object, pace)
    }

    /// What the programs have taken since the start, estimated from their number of runs: the one on the packet path, which runs for each
    /// segment that any TCP connection of the machine receives, those of a sampled ledger in its windows, and those that led to a final record.
    pub fn time_of_programs(&self) -> Result<Nanos, TracerError> {
        let sums = self.counters.read()?;
        let segments = sums.of(abi::MPW_COUNT_SEGMENTS) * self.run_time.0;
        let records = sums.of(abi::MPW_COUNT_RING_RECORDS) * run_time::PER_RECORD.0;
        let marks = self.ledger.as_ref().map(Ledger::time_of_marks).transpose();
        let marks = marks.map_err(bpf_error("read the CPU ledger"))?.unwrap_or_default();
        Ok(marks + Nanos(segments + records))
    }

    /// Work of all flows so far. Zero unless the ledger is sampled.
    pub fn work(&self) -> Result<FlowWork, TracerError> {
        let Some(ledger) = &self.ledger else { return Ok(FlowWork::default()) };
        let accounts = ledger.read().map_err(bpf_error("read the CPU ledger"))?;
        let sums = self.counters.read()?;
        Ok(FlowWork {
            all: sums.of(abi::MPW_COUNT_WORK),
            in_windows: sums.of(abi::MPW_COUNT_WINDOW_WORK),
            time_in_windows: accounts.iter().map(|cpu| cpu.flow).sum(),
        })
    }

    /// What this kernel lacks or refused.
    pub fn missing(&self) -> &[MissingHook] {
        &self.plan.missing
    }

    /// The kernel's statistics of each of our programs, in the order in which they were loaded.
    pub fn programs(&self) -> Result<Vec<(String, ProgramStats)>, TracerError> {
        program::stats(&self.object).map_err(bpf_error("read the statistics of our programs"))
    }

    /// What the attached hooks can measure.
    pub fn traces(&self) -> Traces {
        let traces = self.plan.traces();
        Traces {
            samples: traces.samples && self.takes_samples,
            // In windows only some rounds would be counted.
            scheduler: traces.scheduler && self.mode == LedgerMode::Exact,
            ..traces
        }
    }
}

fn set_pace(object: &Object, pace: Pace) -> Result<(), TracerError> {
    let value = abi::mpw_pace {
        segments_per_tick: pace.segments_per_tick,
        every_nth: pace.every_nth.next_power_of_two(),
        sample_spacing: pace.sample_spacing,
        _reserved: 0,
    };
    let set = map(object, "pace")?.update(&0_u32.to_ne_bytes(), bytemuck::bytes_of(&value), MapFlags::ANY);
    set.map_err(bpf_error("set the pace of the programs"))
}
