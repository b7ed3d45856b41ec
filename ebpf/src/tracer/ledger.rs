// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the CPU ledger: an interrupt on each CPU runs `ledger_read`, which copies the CPU's accounts into a map; then all copies are read.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use mpwatch_model::kernel::cpu::CpuAccounts;
use mpwatch_model::unit::Nanos;

use super::object::map;
use crate::abi;
use crate::cpus;
use crate::error::TracerError;

pub(crate) struct Ledger {
    accounts: MapHandle,
    /// Number of the latest sampling window; zero for an exact ledger.
    window: u32,
}

impl Ledger {
    /// An exact ledger starts on each CPU at the first task switch or read, a sampled ledger when its first window opens.
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        Ok(Self { accounts: map(object, "cpu_accounts")?, window: 0 })
    }

    /// Opens a sampling window on each CPU. `run_time`: estimated time of one run of a program of the ledger.
    pub(crate) fn open_window(&mut self, object: &Object, run_time: Nanos) {
        self.window += 1;
        run(object, "ledger_open", &[self.window.into(), run_time.0]);
    }

    /// Closes the sampling window on each CPU.
    #[allow(clippy::unused_self, reason = "only an open ledger has windows")]
    pub(crate) fn close_window(&self, object: &Object) {
        run(object, "ledger_close", &[]);
    }

    /// The accounts of each CPU now.
    pub(crate) fn read(&self, object: &Object) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        run(object, "ledger_read", &[]);
        self.last_read()
    }

    /// The accounts of each CPU when they were last read, or when the last sampling window closed.
    pub(crate) fn last_read(&self) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        let copies = self.copies()?;
        Ok(copies.iter().map(|(cpu, raw)| accounts(*cpu, raw)).collect())
    }

    /// Estimated time of the programs of a sampled ledger, up to its last window.
    pub(crate) fn time_of_programs(&self) -> libbpf_rs::Result<Nanos> {
        Ok(Nanos(self.copies()?.iter().map(|(_, raw)| raw.programs_ns).sum()))
    }

    /// Accounts of the CPUs that have been counted, each with the number of its CPU.
    fn copies(&self) -> libbpf_rs::Result<Vec<(u32, abi::mpw_cpu_accounts)>> {
        let per_cpu = self.accounts.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
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
        // Fails if the CPU has just gone offline; its accounts then stay unchanged.
        let _ = program.test_run(ProgramInput { cpu, flags, context_in: context, ..ProgramInput::default() });
    }
}

/// Decodes accounts. Pending time counts as APP until its system call ends. If a call moved to another CPU, the pending time of the new CPU may
/// be negative; if this makes APP negative, the excess is subtracted from FLOW.
fn accounts(cpu: u32, raw: &abi::mpw_cpu_accounts) -> CpuAccounts {
    let account = |index: u32| raw.ns[index as usize];
    let app = account(abi::MPW_ACCOUNT_APP).wrapping_add(account(abi::MPW_ACCOUNT_PENDING));
    let taken_back = 0_u64.wrapping_sub(app);
    let overdrawn = app.cast_signed() < 0;
    CpuAccounts {
        cpu,
        wall: Nanos(raw.at_ns - raw.since_ns),
        flow: Nanos(account(abi::MPW_ACCOUNT_FLOW).saturating_sub(if overdrawn { taken_back } else { 0 })),
        app: Nanos(if overdrawn { 0 } else { app }),
        other: Nanos(account(abi::MPW_ACCOUNT_OTHER)),
        net_shared: Nanos(account(abi::MPW_ACCOUNT_NET_SHARED)),
        irq: Nanos(account(abi::MPW_ACCOUNT_IRQ)),
        mpwatch: Nanos(account(abi::MPW_ACCOUNT_SELF)),
        idle: Nanos(account(abi::MPW_ACCOUNT_IDLE)),
    }
}
