// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the programs, and how they are written into the object.

use libbpf_rs::OpenObject;
use mpwatch_model::kernel::cpu::LedgerMode;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_getres};

use crate::abi;
use crate::support::KernelSupport;

/// Settings that are fixed when the programs are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct TracerSettings {
    /// Whether to trace plain TCP connections, too.
    pub trace_tcp: bool,
    /// Size of the ring buffer for final records in bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Size of the ring buffer for records that do not fit into the first, in bytes: a power of two, at least a page.
    pub overflow_bytes: u32,
    /// When CPU time is accounted.
    pub ledger: LedgerMode,
    /// Number of sockets for which the ledger has memory, 64 bytes each.
    pub ledger_sockets: u32,
    /// Whether to sample RTTs of connections with several subflows, for bottleneck detection.
    pub samples: bool,
    /// Size of the ring buffer for RTT samples in bytes: a power of two, at least a page.
    pub samples_bytes: u32,
}

impl Default for TracerSettings {
    fn default() -> Self {
        Self {
            trace_tcp: false,
            ring_bytes: abi::MPW_EVENTS_BYTES,
            overflow_bytes: abi::MPW_OVERFLOW_BYTES,
            ledger: LedgerMode::Sampled,
            ledger_sockets: 1 << 18,
            samples: true,
            samples_bytes: abi::MPW_SAMPLES_BYTES,
        }
    }
}

/// Sampling rate of received segments and RTTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingRate {
    /// Number of segments of a subflow that are sampled at the start of each tick of the kernel's timer.
    pub segments_per_tick: u32,
    /// After these, every n-th segment is sampled. Rounded up to a power of two.
    pub every_nth: u32,
    /// Factor on the interval between two delay samples of a subflow.
    pub interval_factor: u32,
}

impl SamplingRate {
    /// All RTTs of slow flows, thousands per second of fast flows.
    pub const FULL: Self = Self { segments_per_tick: 16, every_nth: 16, interval_factor: 1 };
}

/// Length of the kernel's timer tick, which is the resolution of its coarse clock.
fn tick_ns() -> libbpf_rs::Result<u32> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_err(std::io::Error::from)?;
    u32::try_from(tick.num_nanoseconds()).map_err(|error| std::io::Error::other(error).into())
}

/// Writes the settings into an object that is not loaded yet.
pub(crate) fn configure(
    object: &mut OpenObject,
    settings: TracerSettings,
    ledger: bool,
    support: &KernelSupport,
) -> libbpf_rs::Result<()> {
    // One more than sockets, because slot 0 belongs to no socket.
    let cost_slots = if ledger { settings.ledger_sockets.max(1) + 1 } else { 1 };
    let constants = abi::mpw_settings {
        self_pid: std::process::id(),
        cost_slots,
        tick_ns: tick_ns()?,
        trace_tcp: settings.trace_tcp.into(),
        ledger: ledger.into(),
        ledger_sampled: (ledger && settings.ledger == LedgerMode::Sampled).into(),
        samples: settings.samples.into(),
        has_cast: support.has_cast.into(),
        reports_failed_retransmits: support.reports_failed_retransmits.into(),
        _reserved: [0; 2],
    };
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some("events") => map.set_max_entries(settings.ring_bytes)?,
            Some("samples") => map.set_max_entries(settings.samples_bytes)?,
            Some("overflow") => map.set_max_entries(settings.overflow_bytes)?,
            Some("costs" | "free_slots") => map.set_max_entries(cost_slots)?,
            Some(name) if name.ends_with(".rodata.settings") => {
                map.set_initial_value(bytemuck::bytes_of(&constants))?;
            }
            _ => {}
        }
    }
    Ok(())
}
