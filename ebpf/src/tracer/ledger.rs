// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the CPU ledger. The kernel runs `ledger_settle` on each CPU, in an interrupt; then the accounts of all CPUs are read from a map.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use mpwatch_model::kernel::cpu::CpuAccounts;
use mpwatch_model::unit::Nanos;

use super::object::map;
use crate::abi;
use crate::cpus;
use crate::error::{TracerError, bpf_error};

pub(crate) struct Ledger {
    settled: MapHandle,
    /// Number of the latest window; zero if the ledger is exact.
    window: u32,
}

impl Ledger {
    /// Opens an exact ledger and starts the accounts of each CPU.
    pub(crate) fn exact(object: &Object) -> Result<Self, TracerError> {
        let ledger = Self { settled: map(object, "settled")?, window: 0 };
        ledger.settle(object).map_err(bpf_error("start the CPU ledger"))?;
        Ok(ledger)
    }

    /// Opens a ledger that is kept in windows only.
    pub(crate) fn sampled(object: &Object) -> Result<Self, TracerError> {
        Ok(Self { settled: map(object, "settled")?, window: 0 })
    }

    /// Opens a window on each CPU. `mark_time`: what one run of a program of the ledger takes.
    pub(crate) fn open_window(&mut self, object: &Object, mark_time: Nanos) {
        self.window += 1;
        run(object, "ledger_open", &[self.window.into(), mark_time.0]);
    }

    /// Closes the window on each CPU.
    #[allow(clippy::unused_self, reason = "only an open ledger has windows")]
    pub(crate) fn close_window(&self, object: &Object) {
        run(object, "ledger_close", &[]);
    }

    /// The accounts of each CPU now.
    pub(crate) fn settle(&self, object: &Object) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        run(object, "ledger_settle", &[]);
        self.read()
    }

    /// The accounts of each CPU when they were last settled, or their window closed.
    pub(crate) fn read(&self) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        let settled = self.read_settled()?;
        Ok(settled.iter().map(|(cpu, raw)| accounts(*cpu, raw)).collect())
    }

    /// Estimated time of the programs of a sampled ledger, up to its last window.
    pub(crate) fn time_of_marks(&self) -> libbpf_rs::Result<Nanos> {
        Ok(Nanos(self.read_settled()?.iter().map(|(_, raw)| raw.marks_ns).sum()))
    }

    /// Of CPUs that have been counted, with their numbers.
    fn read_settled(&self) -> libbpf_rs::Result<Vec<(u32, abi::mpw_cpu_accounts)>> {
        let per_cpu = self.settled.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
        let decoded = (0..).zip(per_cpu.iter().flatten()).filter_map(|(cpu, bytes)| {
            let raw = bytemuck::try_pod_read_unaligned::<abi::mpw_cpu_accounts>(bytes).ok()?;
            (raw.since_ns != 0).then_some((cpu, raw))
        });
        Ok(decoded.collect())
    }
}

/// Runs a program on each CPU.
fn run(object: &Object, name: &str, arguments: &[u64]) {
    let mut programs = object.progs_mut();
    let Some(program) = programs.find(|program| program.name() == name) else { return };
    for cpu in cpus::online() {
        let mut arguments = arguments.to_vec();
        let context = (!arguments.is_empty()).then(|| bytemuck::cast_slice_mut(&mut arguments));
        let flags = libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
        // Fails for a CPU that has just gone offline; its accounts stay as they are.
        let _ = program.test_run(ProgramInput { cpu, flags, context_in: context, ..ProgramInput::default() });
    }
}

/// Pending time counts as APP until its call ends. If a call changed CPUs, the second one's pending time is negative and reduces FLOW.
fn accounts(cpu: u32, raw: &abi::mpw_cpu_accounts) -> CpuAccounts {
    let of = |account: u32| raw.ns[account as usize];
    let app = of(abi::MPW_ACCOUNT_APP).wrapping_add(of(abi::MPW_ACCOUNT_PENDING));
    let taken_back = 0_u64.wrapping_sub(app);
    let overdrawn = app.cast_signed() < 0;
    CpuAccounts {
        cpu,
        wall: Nanos(raw.at_ns - raw.since_ns),
        flow: Nanos(of(abi::MPW_ACCOUNT_FLOW) - if overdrawn { taken_back } else { 0 }),
        app: Nanos(if overdrawn { 0 } else { app }),
        other: Nanos(of(abi::MPW_ACCOUNT_OTHER)),
        net_shared: Nanos(of(abi::MPW_ACCOUNT_NET_SHARED)),
        irq: Nanos(of(abi::MPW_ACCOUNT_IRQ)),
        mpwatch: Nanos(of(abi::MPW_ACCOUNT_SELF)),
        idle: Nanos(of(abi::MPW_ACCOUNT_IDLE)),
    }
}
