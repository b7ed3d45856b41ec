// SPDX-License-Identifier: MIT OR Apache-2.0
//! The energy of the running machine, one window per tick. Counters are read while the ledger is settled, so both cover the same time.

use std::path::Path;

use anyhow::Context;
use mpwatch_ebpf::tracer::Tracer;
use mpwatch_engine::energy::ledger::{Account, Ledger};
use mpwatch_model::host::energy::power::MachinePower;
use mpwatch_model::host::energy::window::EnergyWindow;
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuSampling, LedgerMode};
use mpwatch_model::kernel::event::Tick;
use mpwatch_model::unit::Nanos;
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};

use super::calibration::{self, MachineSetup};
use super::discovery::Hardware;
use super::load::LoadReader;
use super::packets::PacketCounter;
use super::sampler::Sampler;
use crate::cli::CounterOptions;
use crate::system::clock::ClockPair;
use crate::system::paths;

impl CounterOptions {
    pub(crate) fn hardware(&self) -> Hardware {
        Hardware { simulated: self.simulated, ..Hardware::detect(self.sysfs_root.as_deref()) }
    }

    pub(crate) fn power_file(&self) -> &Path {
        self.power_file.as_deref().unwrap_or(Path::new(paths::POWER_CURVE))
    }
}

pub(crate) struct Meter {
    pub(crate) machine: MachinePower,
    sampler: Sampler,
    window: EnergyWindow,
    ledger: Ledger,
    cpus: Vec<CpuAccounts>,
    /// Reads the load of the CPUs. `None`: the ledger is not sampled.
    load: Option<Load>,
}

/// Reads the load of all CPUs. `own`: CPU time of the tracing thread at the start, ns. `busy`: busy time of all CPUs at the last reading.
struct Load {
    reader: LoadReader,
    packets: PacketCounter,
    own: u64,
    busy: Nanos,
}

/// Idle time and packets of all CPUs, as counted by the kernel in the closed windows of a sampled ledger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InWindows {
    /// Idle time. Rounding errors of 10 ms per reading average out.
    pub(crate) idle: Nanos,
    pub(crate) packets: u64,
}

impl Meter {
    /// Finds counters and a calibration. Warns about a calibration that does not match and ignores it.
    pub(crate) fn start(options: &CounterOptions, mode: LedgerMode) -> Self {
        let hardware = options.hardware();
        let setup = MachineSetup::from_system(hardware.cpus);
        let calibrated = calibration::load(options.power_file(), &setup).unwrap_or_else(|reason| {
            eprintln!("mpwatch: the calibration is not used: {reason}");
            Vec::new()
        });
        Self {
            machine: MachinePower { cpus: hardware.cpus, calibrated },
            sampler: Sampler::new(hardware, Box::new(ClockPair::now)),
            window: EnergyWindow::default(),
            ledger: Ledger::default(),
            cpus: Vec::new(),
            load: (mode == LedgerMode::Sampled).then(Load::start),
        }
    }

    /// Closes a window of the energy counters. Adds the values of ledger and counters to `tick`. `charges`: see [`CpuSampling`].
    pub(crate) fn read(
        &mut self,
        tracer: &Tracer,
        in_windows: InWindows,
        charges: bool,
        tick: &mut Tick,
    ) -> anyhow::Result<()> {
        let (cpus, load, mut outcome) = (&mut self.cpus, &mut self.load, Ok(()));
        let mut sampling = None;
        self.sampler.window(&mut self.window, &mut self.ledger, |ledger| match tracer.cpus() {
            Ok(now) => {
                match load {
                    Some(load) => sampling = Some(load.read(ledger, in_windows, charges)),
                    None => ledger.add_cpus(cpus, &now),
                }
                *cpus = now;
            }
            Err(error) => outcome = Err(error),
        });
        outcome.context("cannot settle the CPU ledger")?;
        (tick.cpus, tick.energy) = (self.cpus.clone(), Some(self.window.clone()));
        tick.sampling = sampling;
        Ok(())
    }
}

impl Load {
    fn start() -> Self {
        Self {
            reader: LoadReader::start(),
            packets: PacketCounter::start(),
            own: thread_time(),
            busy: Nanos(0),
        }
    }

    /// Reads the load, and adds to the ledger the busy time since the last call of this function. The sampler reads nothing else from this ledger.
    fn read(&mut self, ledger: &mut Ledger, in_windows: InWindows, charges: bool) -> CpuSampling {
        let loads = self.reader.read();
        let busy = loads.iter().map(|load| load.busy).sum::<Nanos>();
        ledger.add(0, Account::Other, busy.since(self.busy).0);
        self.busy = busy;
        CpuSampling {
            loads,
            window_idle: in_windows.idle,
            packets: self.packets.read(),
            window_packets: in_windows.packets,
            own: Nanos(thread_time().saturating_sub(self.own)),
            charges,
        }
    }
}

/// CPU time of this thread, nanoseconds.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0, |time| time.num_nanoseconds().unsigned_abs())
}
