// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces the running kernel: loads and attaches the programs, reads their records. Keeps no state of flows: sockets and the tracker do.

use std::io;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use mpwatch_model::host::machine::{KernelCounters, Losses, MissingHook};
use mpwatch_model::kernel::cpu::{CpuAccounts, LedgerMode};
use mpwatch_model::kernel::event::{KernelEvent, Traces};
use mpwatch_model::unit::{Bytes, Nanos};

use crate::abi;
use crate::decode;
use crate::error::{bpf_error, is_shortage};
use crate::namespace::{self, Namespace};
use crate::netns_cookie::CookieReader;
use crate::support::KernelSupport;
use crate::support::hook::Hook;
use crate::support::kernel::quiet_libbpf;
use crate::support::plan::AttachPlan;
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
pub use settings::{SamplingRate, TracerSettings};

/// Result of opening a sampling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The window is open, or the ledger has no windows.
    Open,
    /// The kernel lacked descriptors or memory. A later attempt may succeed.
    Skipped,
    /// The kernel refused to attach a program. The ledger is off from now on, and [`Tracer::missing`] has the reason.
    Refused,
}

/// Work units of all flows with a sampled ledger: `MPW_WORK_PER_PACKET` per packet, 1 per KiB of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowWork {
    /// Work units since the start.
    pub all: u64,
    /// Work units in sampling windows.
    pub in_windows: u64,
    /// CPU time of flows in the sampling windows that have closed.
    pub time_in_windows: Nanos,
}

/// The loaded and attached programs, and the readers of their maps.
pub struct Tracer {
    rings: Rings,
    counters: MapHandle,
    ledger: Option<Ledger>,
    mode: LedgerMode,
    links: Links,
    /// The programs of a sampled ledger while a sampling window is open.
    window: Option<Links>,
    /// Time of one run of a program, including the kernel's dispatch.
    run_time: Nanos,
    takes_samples: bool,
    plan: AttachPlan,
    snapshot_errors: u64,
    namespaces_unreadable: u64,
    buffer: Vec<u8>,
    // Last, so that the links above are detached before their programs are closed.
    object: Object,
}

impl Tracer {
    /// Loads and attaches the programs. From here on, every MPTCP socket (with `trace_tcp` every TCP socket) that opens or closes is traced.
    pub fn start(settings: TracerSettings) -> Result<Self, TracerError> {
        quiet_libbpf();
        let support = KernelSupport::from_running_kernel()?;
        let mut plan = AttachPlan::from_facts(&support);
        if !plan.obstacles.is_empty() {
            return Err(TracerError::Unsupported(plan.obstacles));
        }
        if settings.ledger == LedgerMode::Off {
            plan.remove_ledger();
        }
        let object = load(&plan, settings, &support)?;
        set_sampling_rate(&object, SamplingRate::FULL)?;
        let mut links = attach(&object, &mut plan, |hook| !hook.is_for_ledger())?;
        let without_ledger = run_time::time_calls();
        let mut ledger_links = attach(&object, &mut plan, Hook::is_for_ledger)?;
        if !plan.can_keep_ledger() {
            plan.remove_ledger();
            ledger_links.clear();
        }
        let mode = if plan.can_keep_ledger() { settings.ledger } else { LedgerMode::Off };
        let (mut ledger, mut window, mut run_time) = (None, None, run_time::TYPICAL);
        match mode {
            LedgerMode::Off => {}
            LedgerMode::Exact => {
                links.extend(ledger_links);
                let exact = Ledger::open(&object)?;
                exact.read(&object).map_err(bpf_error("start the CPU ledger"))?;
                ledger = Some(exact);
            }
            LedgerMode::Sampled => {
                let mut sampled = Ledger::open(&object)?;
                sampled.open_window(&object, run_time);
                run_time = run_time::per_run(without_ledger, run_time::time_calls());
                (ledger, window) = (Some(sampled), Some(ledger_links));
            }
        }
        Ok(Self {
            rings: Rings::open(&object)?,
            counters: map(&object, "counters")?,
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

    /// Starts to trace sockets in these namespaces that were open before the programs were attached.
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

    /// A reader of cookies of network namespaces. `None`: this kernel cannot run its program.
    pub fn cookie_reader(&self) -> Option<CookieReader> {
        CookieReader::new(&self.object)
    }

    /// Searches the open files of all processes for unknown owners of sockets.
    /// Fails if the kernel fails to run the iterator.
    pub fn find_owners(&self) -> Result<(), TracerError> {
        let Some(link) = self.links.get("find_owners") else { return Ok(()) };
        iterator::run(link).map_err(bpf_error("search the open files"))
    }

    /// Waits at most `timeout` for final records and passes the events read so far to `sink`.
    /// Fails if the ring buffers cannot be read.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.rings.poll(timeout, sink)
    }

    /// Reads every connection and subflow that has changed, and reports unchanged ones every 8 to 15 seconds. Reads connections again after
    /// subflows; otherwise data that subflows sent between the two reads would count as reinjected. Then reads new final records, so that a flow
    /// that ended during the snapshot is reported as ended. Until the next call of [`Tracer::poll`], a thread empties the rings.
    /// Fails if an iterator or a ring buffer cannot be read.
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
    /// Fails if the counters or the statistics of the programs cannot be read.
    pub fn counters(&self) -> Result<(KernelCounters, Losses), TracerError> {
        let sum = counters::read(&self.counters)?;
        let programs = self.programs()?;
        let measured = program::measured(&programs);
        let received = self.rings.received;
        let counters = KernelCounters {
            records: sum(abi::MPW_COUNT_RING_RECORDS),
            records_received: received.records,
            synack_retransmits: sum(abi::MPW_COUNT_SYNACK_RETRANSMITS),
            delay_samples: received.samples,
            delay_sample_bytes: Bytes(received.sample_bytes),
            program_runs: measured.map(|(runs, _)| runs),
            program_time: measured.map(|(_, time)| time),
            // The agent reads the others, because the kernel counts them per network namespace.
            ..KernelCounters::default()
        };
        let lost = sum(abi::MPW_COUNT_RECORDS_LOST);
        let losses = Losses {
            ring_full_recovered: sum(abi::MPW_COUNT_RING_FULL).saturating_sub(lost),
            records_lost: lost,
            lost_bytes_sent: Bytes(sum(abi::MPW_COUNT_LOST_BYTES_SENT)),
            lost_bytes_received: Bytes(sum(abi::MPW_COUNT_LOST_BYTES_RECEIVED)),
            storage_failed: sum(abi::MPW_COUNT_STORAGE_FAILED),
            ledger_full: sum(abi::MPW_COUNT_COSTS_FULL),
            delay_samples_lost: sum(abi::MPW_COUNT_SAMPLES_LOST),
            events_missed: program::events_missed(&programs),
            decode_errors: self.snapshot_errors + received.errors,
            namespaces_unreadable: self.namespaces_unreadable,
            ..Losses::default()
        };
        Ok((counters, losses))
    }

    /// The accounts of each CPU, sorted by number; a sampled ledger counts in its windows only. Empty: there is no ledger.
    /// Fails if the accounts cannot be read.
    pub fn cpus(&self) -> Result<Vec<CpuAccounts>, TracerError> {
        let Some(ledger) = &self.ledger else { return Ok(Vec::new()) };
        let is_closed = self.mode == LedgerMode::Sampled && self.window.is_none();
        let accounts = if is_closed { ledger.last_read() } else { ledger.read(&self.object) };
        accounts.map_err(bpf_error("read the CPU ledger"))
    }

    /// When CPU time is accounted. `Off` also if this kernel lacks or refused a vital hook of the ledger.
    pub fn ledger_mode(&self) -> LedgerMode {
        self.mode
    }

    /// Opens a sampling window. The first window is open from the start.
    pub fn open_window(&mut self) -> Opening {
        let Some(ledger) = self.ledger.as_mut().filter(|_| self.mode == LedgerMode::Sampled) else {
            return Opening::Open;
        };
        if self.window.is_some() {
            return Opening::Open;
        }
        match attach_again(&self.object, &self.plan, Hook::is_for_ledger) {
            Ok(links) => {
                ledger.open_window(&self.object, self.run_time);
                self.window = Some(links);
                Opening::Open
            }
            Err((_, error)) if is_shortage(&error) => Opening::Skipped,
            Err((target, error)) => {
                self.plan.disable_ledger(target, &format!("refused by the kernel: {error:#}"));
                self.mode = LedgerMode::Off;
                self.ledger = None;
                Opening::Refused
            }
        }
    }

    /// Closes the sampling window.
    pub fn close_window(&mut self) {
        if let (Some(ledger), true) = (&self.ledger, self.window.is_some()) {
            ledger.close_window(&self.object);
        }
        self.window = None;
    }

    /// Changes the sampling rate, from the next segment on.
    /// Fails if the kernel refuses to update the map.
    pub fn set_sampling_rate(&self, rate: SamplingRate) -> Result<(), TracerError> {
        set_sampling_rate(&self.object, rate)
    }

    /// Time of the programs since the start, estimated from their number of runs: the program on the packet path, which runs for each segment
    /// of any TCP connection of this machine; the programs of a sampled ledger; and all runs that led to final records.
    /// Fails if the counters cannot be read.
    pub fn time_of_programs(&self) -> Result<Nanos, TracerError> {
        let sum = counters::read(&self.counters)?;
        let segments = sum(abi::MPW_COUNT_SEGMENTS) * self.run_time.0;
        let records = sum(abi::MPW_COUNT_RING_RECORDS) * run_time::PER_RECORD.0;
        let ledger = self.ledger.as_ref().map(Ledger::time_of_programs).transpose();
        let ledger = ledger.map_err(bpf_error("read the CPU ledger"))?.unwrap_or_default();
        Ok(ledger + Nanos(segments + records))
    }

    /// Work of all flows so far. Zero unless the ledger is sampled.
    /// Fails if the counters cannot be read.
    pub fn work(&self) -> Result<FlowWork, TracerError> {
        let Some(ledger) = &self.ledger else { return Ok(FlowWork::default()) };
        let accounts = ledger.last_read().map_err(bpf_error("read the CPU ledger"))?;
        let sum = counters::read(&self.counters)?;
        Ok(FlowWork {
            all: sum(abi::MPW_COUNT_WORK),
            in_windows: sum(abi::MPW_COUNT_WINDOW_WORK),
            time_in_windows: accounts.iter().map(|cpu| cpu.flow).sum(),
        })
    }

    /// Hooks and fields that this kernel lacks or refused.
    pub fn missing(&self) -> &[MissingHook] {
        &self.plan.missing
    }

    /// The kernel's statistics of each loaded program.
    /// Fails if the kernel does not report them.
    pub fn programs(&self) -> Result<Vec<(String, ProgramStats)>, TracerError> {
        program::stats(&self.object).map_err(bpf_error("read the statistics of the programs"))
    }

    /// Measurements that the attached programs provide.
    pub fn traces(&self) -> Traces {
        let traces = self.plan.traces();
        Traces {
            samples: traces.samples && self.takes_samples,
            // A sampled ledger would count only the rounds in its windows.
            scheduler: traces.scheduler && self.mode == LedgerMode::Exact,
            ..traces
        }
    }
}

fn set_sampling_rate(object: &Object, rate: SamplingRate) -> Result<(), TracerError> {
    let value = abi::mpw_sampling_rate {
        segments_per_tick: rate.segments_per_tick,
        every_nth: rate.every_nth.next_power_of_two(),
        interval_factor: rate.interval_factor,
        _reserved: 0,
    };
    let set =
        map(object, "sampling_rate")?.update(&0_u32.to_ne_bytes(), bytemuck::bytes_of(&value), MapFlags::ANY);
    set.map_err(bpf_error("set the sampling rate"))
}
