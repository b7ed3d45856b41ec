// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks from a kernel's BTF whether the BPF object of this build would load on that kernel. Needs no privilege and loads nothing.
//!
//! aya-obj relocates the object as libbpf would. If the kernel lacks a field, aya-obj poisons the instruction that reads the field. Behind a
//! `bpf_core_field_exists` guard, such an instruction is harmless; anywhere else the verifier rejects the program. `records` lists the fields that
//! a function reads and the fields that it guards. Tests on kernels that lack a field check that each read is behind its guard.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use anyhow::{anyhow, bail};
use aya_obj::btf::Btf;
use aya_obj::{Function, Object};

use crate::support::hook::HOOKS;
use crate::support::kernel::KernelSupport;
use crate::support::plan::AttachPlan;

mod records;

#[doc(hidden)]
pub use records::{Access, accesses};

/// The invalid call by which libbpf and aya-obj replace an instruction that reads a missing field.
const POISON: i32 = 0x0bad_2310;
/// Fields that one kernel release added together. The programs check only the first (`msk_counts_bytes()` in compat.bpf.h).
const SAME_CHECK: [&str; 4] = [
    "mptcp_sock.bytes_sent",
    "mptcp_sock.bytes_received",
    "mptcp_sock.bytes_acked",
    "mptcp_sock.bytes_retrans",
];
const INSTRUCTION_BYTES: usize = 8;
/// Number of bytes that identify the format of a file.
const HEADER: u64 = 8;
/// Larger than the BTF of any kernel, which usually has about 6 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Result of the check of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreReport {
    /// Missing fields that our programs guard, such as `mptcp_sock.bytes_sent`. Sorted.
    pub guarded_missing: Vec<String>,
    /// Missing fields that our programs read without a guard: the verifier would reject the programs. Sorted.
    pub unguarded_missing: Vec<MissingField>,
    /// Facts about the kernel.
    pub support: KernelSupport,
    /// Programs that would be loaded, and missing hooks.
    pub plan: AttachPlan,
}

/// A missing field that is read without a guard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingField {
    /// Structure and field, such as `tcp_sock.srtt_us`.
    pub field: String,
    /// The function of the BPF object that reads the field.
    pub function: String,
}

impl std::fmt::Display for MissingField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (read by {})", self.field, self.function)
    }
}

/// Checks a kernel by a file with its raw BTF, such as a copy of `/sys/kernel/btf/vmlinux`.
/// Fails if the file cannot be read or is not the raw BTF of a kernel.
pub fn check_file(path: &Path) -> anyhow::Result<CoreReport> {
    let name = path.display();
    let unreadable = |error| anyhow!("cannot read {name}: {error}");
    let mut file = fs::File::open(path).map_err(unreadable)?;
    let mut btf = Vec::new();
    // Reads and checks the header first, because a file that is not BTF, such as a device, may be endless.
    for limit in [HEADER, MAX_BYTES] {
        file.by_ref().take(limit).read_to_end(&mut btf).map_err(unreadable)?;
        if let Some((found, advice)) = other_than_btf(&btf) {
            bail!("{name} is not a kernel's raw BTF but {found}; {advice}");
        }
    }
    // libbpf validates the file before aya-obj, which trusts the offsets in it.
    let support = KernelSupport::from_file(path)?;
    check(&btf, support)
}

/// Checks the programs whose hooks a kernel has against the kernel's raw BTF.
fn check(btf: &[u8], support: KernelSupport) -> anyhow::Result<CoreReport> {
    let plan = AttachPlan::from_facts(&support);
    let mut report = CoreReport { guarded_missing: Vec::new(), unguarded_missing: Vec::new(), support, plan };
    if !report.support.mptcp {
        // Without MPTCP, all of its structures are missing. The plan names this obstacle.
        return Ok(report);
    }
    let ours =
        |error: &dyn std::fmt::Display| anyhow!("the BPF object of this build cannot be read: {error}");
    let mut object = Object::parse(crate::abi::OBJECT).map_err(|error| ours(&error))?;
    without_panic(|| relocate(&mut object, btf))?;
    let accesses = accesses(crate::abi::OBJECT).ok_or_else(|| ours(&"bad .BTF.ext"))?;
    let (mut guarded, mut unguarded) = (BTreeSet::new(), BTreeSet::new());
    for function in object.functions.values().filter(|function| is_loaded(function, &report.plan)) {
        let immediates = accesses.iter().filter_map(|access| Some((access, immediate(function, access)?)));
        let immediates: Vec<_> = immediates.collect();
        let absent = immediates.iter().filter(|(access, value)| access.is_guard && *value == 0);
        let absent: BTreeSet<&str> = absent.map(|(access, _)| access.field.as_str()).collect();
        let poisoned = immediates.iter().filter(|(_, value)| *value == POISON);
        for field in poisoned.map(|(access, _)| access.field.as_str()) {
            let check = if SAME_CHECK.contains(&field) { SAME_CHECK[0] } else { field };
            if absent.contains(check) {
                guarded.insert(field.to_owned());
            } else {
                unguarded.insert(MissingField { field: field.to_owned(), function: function.name.clone() });
            }
        }
        guarded.extend(absent.into_iter().map(str::to_owned));
    }
    report.guarded_missing.extend(guarded);
    report.unguarded_missing.extend(unguarded);
    Ok(report)
}

/// Compares each field that the object reads with the kernel's types.
fn relocate(object: &mut Object, btf: &[u8]) -> anyhow::Result<()> {
    let btf =
        Btf::parse(btf, object.endianness).map_err(|error| anyhow!("this BTF cannot be read: {error}"))?;
    // Fails where a field changed in a way that CO-RE cannot bridge, for example from a number to a structure.
    object.relocate_btf(&btf).map_err(|error| anyhow!("the BPF object does not fit this kernel: {error}"))
}

/// Converts a panic into an error without printing it: libbpf accepts some impossible sizes of types on which aya-obj panics.
fn without_panic<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    outcome.unwrap_or_else(|_| Err(anyhow!("this BTF is damaged: a size or an offset in it is impossible")))
}

/// Format of a file that is not BTF, from its first bytes, and advice for the user. `None`: it is BTF.
fn other_than_btf(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let copy = "take a copy of /sys/kernel/btf/vmlinux from the machine in question";
    match bytes {
        [0x9f, 0xeb, ..] => None,
        [0xeb, 0x9f, ..] => {
            Some(("BTF of a big-endian machine", "mpwatch runs on little-endian machines only"))
        }
        [0x7f, b'E', b'L', b'F', ..] => {
            Some(("an ELF file", "extract its BTF with `objcopy --dump-section .BTF=FILE vmlinux`"))
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', ..] => {
            Some(("a compressed file", "unpack it first"))
        }
        [] => Some(("empty", copy)),
        _ => Some(("of an unknown format", copy)),
    }
}

/// Whether a function is loaded: a program only if its hook exists, a subprogram always.
fn is_loaded(function: &Function, plan: &AttachPlan) -> bool {
    let is_program = HOOKS.iter().any(|hook| hook.program == function.name);
    !is_program || plan.programs.contains(&function.name.as_str())
}

/// The constant in the instruction of an access after relocation. `None`: the instruction is in another function.
fn immediate(function: &Function, access: &Access) -> Option<i32> {
    let offset = access.offset.checked_sub(function.section_offset)?;
    let instruction = function.instructions.get(offset / INSTRUCTION_BYTES)?;
    (access.section == function.section_index.0).then_some(instruction.imm)
}
