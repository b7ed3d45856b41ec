// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the CPU ledger. Each CPU is asked to settle what is in progress on it: the kernel runs our program there, in an
//! interrupt, and the accounts that it wrote down are read all at once.

use std::fs;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ProgramInput};
use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::unit::Nanos;

use crate::abi;
use crate::tracer::{TracerError, map};

const PROGRAM: &str = "ledger_settle";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The accounts of all CPUs.
pub(crate) struct Ledger {
    settled: MapHandle,
}

impl Ledger {
    /// Opens it, and begins to account for each CPU.
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        let ledger = Self { settled: map(object, "settled")? };
        let begun = ledger.settle(object);
        begun.map_err(|source| TracerError::Bpf { what: "begin the CPU ledger".to_owned(), source })?;
        Ok(ledger)
    }

    /// Where the accounts of each CPU stand now.
    pub(crate) fn settle(&self, object: &Object) -> libbpf_rs::Result<Vec<CpuAccounts>> {
        let mut programs = object.progs_mut();
        if let Some(program) = programs.find(|program| program.name() == PROGRAM) {
            for cpu in online() {
                let flags = libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
                // A CPU that has just gone offline stands where it stood.
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

/// What is pending may turn out to be a flow's when the call ends; until then it is the process's own. Where a call went to sleep on one
/// CPU and ended on another, the first keeps what the second takes back.
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

/// Numbers of the CPUs that run, as the kernel lists them: `0-3,8`.
fn online() -> Vec<u32> {
    let list = fs::read_to_string(ONLINE).unwrap_or_default();
    let ranges = list.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().collect()
}
