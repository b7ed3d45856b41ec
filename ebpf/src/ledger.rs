// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the CPU ledger. The kernel runs `ledger_settle` on each CPU, in an interrupt; then the accounts of all CPUs are read from a map.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::unit::Nanos;

use crate::abi;
use crate::cpus;
use crate::error::{TracerError, bpf_error};
use crate::object::map;

const PROGRAM: &str = "ledger_settle";

pub(crate) struct Ledger {
    settled: MapHandle,
}

impl Ledger {
    /// Opens it and starts the accounts of each CPU.
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        let ledger = Self { settled: map(object, "settled")? };
        ledger.settle(object).map_err(bpf_error("start the CPU ledger"))?;
        Ok(ledger)
    }

    /// The accounts of each CPU now.
    pub(crate) fn settle(&self, object: &Object) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        let mut programs = object.progs_mut();
        if let Some(program) = programs.find(|program| program.name() == PROGRAM) {
            for cpu in cpus::online() {
                let flags = libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
                // Fails for a CPU that has just gone offline; its accounts stay as they are.
                let _ = program.test_run(ProgramInput { cpu, flags, ..ProgramInput::default() });
            }
        }
        let per_cpu = self.settled.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
        let decoded = (0..).zip(per_cpu.iter().flatten()).filter_map(|(cpu, bytes)| {
            let raw = bytemuck::try_pod_read_unaligned::<abi::mpw_cpu_accounts>(bytes).ok()?;
            (raw.since_ns != 0).then(|| accounts(cpu, &raw))
        });
        Ok(decoded.collect())
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
