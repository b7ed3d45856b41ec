// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks from a kernel's BTF alone whether our object would load on it, without privileges. aya-obj relocates the object as libbpf does
//! and poisons instructions that read a missing field. The verifier rejects a program that can reach one, which a
//! `bpf_core_field_exists` guard prevents. `reach` finds out whether it can, `records` names the field.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use aya_obj::btf::Btf;
use aya_obj::{Function, Object};

use crate::hook::HOOKS;
use crate::plan::AttachPlan;
use crate::support::{KernelSupport, SupportError};

mod elf;
mod reach;
mod records;

/// Immediate of the invalid call by which libbpf and aya-obj replace an instruction that reads a missing field.
const POISON: i32 = 0x0bad_2310;
const INSTRUCTION_BYTES: usize = 8;
/// Number of bytes that identify the format of a file.
const HEADER: u64 = 8;
/// Larger than the BTF of any kernel; about 6 MB are usual.
const MAX_BYTES: u64 = 256 << 20;

/// What a kernel offers to our object, from its BTF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreReport {
    /// Fields that the kernel lacks and that our programs can do without, such as `mptcp_sock.bytes_sent`. Sorted.
    pub guarded_missing: Vec<String>,
    /// Fields that the kernel lacks and that our programs need. Its verifier would reject them. Sorted.
    pub unguarded_missing: Vec<MissingField>,
    /// Facts that follow from names alone: hooks and MPTCP.
    pub support: KernelSupport,
    /// Programs that would be attached, and missing hooks.
    pub plan: AttachPlan,
}

/// A field that is read without a guard but does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingField {
    /// Structure and field, such as `tcp_sock.srtt_us`.
    pub field: String,
    /// The function of our object that reads it.
    pub function: String,
}

impl std::fmt::Display for MissingField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (read by {})", self.field, self.function)
    }
}

/// Why the check failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the fields")]
pub enum CoreCheckError {
    /// The file is not a kernel's BTF.
    #[error(transparent)]
    Support(#[from] SupportError),
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// The file is something else.
    #[error("{path} is not a kernel's raw BTF but {found}; {advice}")]
    NotBtf { path: String, found: &'static str, advice: &'static str },
    /// The BTF is damaged or of an unknown version.
    #[error("this BTF cannot be read: {0}")]
    Btf(#[from] aya_obj::btf::BtfError),
    /// A field changed in a way that CO-RE cannot bridge, for example from a number to a structure.
    #[error("the BPF object does not fit this kernel: {0}")]
    Relocation(#[from] aya_obj::btf::BtfRelocationError),
    /// Our own object is broken: a bug of mpwatch.
    #[error("the BPF object of this build cannot be read: {0}")]
    Object(String),
}

/// Checks a kernel by a file with its raw BTF, such as a copy of `/sys/kernel/btf/vmlinux`.
pub fn check_file(path: &Path) -> Result<CoreReport, CoreCheckError> {
    let name = || path.display().to_string();
    let unreadable = |source| CoreCheckError::Read { path: name(), source };
    let mut file = fs::File::open(path).map_err(unreadable)?;
    let mut btf = Vec::new();
    // The header first: a file that is not BTF may be endless.
    for limit in [HEADER, MAX_BYTES] {
        file.by_ref().take(limit).read_to_end(&mut btf).map_err(unreadable)?;
        if let Some((found, advice)) = other_than_btf(&btf) {
            return Err(CoreCheckError::NotBtf { path: name(), found, advice });
        }
    }
    // libbpf validates the file before aya-obj, which trusts the offsets in it.
    let support = KernelSupport::of_file(path)?;
    check(&btf, support)
}

/// Checks a kernel by its raw BTF, for the programs that its hooks allow.
pub fn check(btf: &[u8], support: KernelSupport) -> Result<CoreReport, CoreCheckError> {
    let plan = AttachPlan::from_facts(&support);
    if !support.mptcp {
        // It has no structures to compare with; the plan names the obstacle.
        return Ok(CoreReport { guarded_missing: Vec::new(), unguarded_missing: Vec::new(), support, plan });
    }
    let mut object =
        Object::parse(crate::embedded::OBJECT).map_err(|error| CoreCheckError::Object(error.to_string()))?;
    object.relocate_btf(&Btf::parse(btf, object.endianness)?)?;
    let accesses = records::accesses(crate::embedded::OBJECT)
        .ok_or_else(|| CoreCheckError::Object("bad .BTF.ext".to_owned()))?;
    let mut missing = Missing::default();
    for function in object.functions.values().filter(|function| is_loaded(function, &plan)) {
        missing.add(function, &fields_of(function, &accesses));
    }
    let Missing { guarded, unguarded } = missing;
    Ok(CoreReport {
        guarded_missing: guarded.into_iter().collect(),
        unguarded_missing: unguarded.into_iter().collect(),
        support,
        plan,
    })
}

/// Our object with the guards of one field of this size removed, for tests. `None`: no program guards the field.
#[doc(hidden)]
pub fn object_with_broken_guard(field: &str, bytes: u32) -> Option<Vec<u8>> {
    let mut object = crate::embedded::OBJECT.to_vec();
    let broken = records::break_guards(&mut object, field, bytes)?;
    (broken > 0).then_some(object)
}

#[derive(Default)]
struct Missing {
    guarded: BTreeSet<String>,
    unguarded: BTreeSet<MissingField>,
}

impl Missing {
    /// Adds the missing fields of one relocated function.
    fn add(&mut self, function: &Function, fields: &BTreeMap<usize, &records::Access>) {
        let is_poisoned = |at: usize| function.instructions[at].imm == POISON;
        let reachable = reach::reachable(&function.instructions, &is_poisoned);
        for (&at, access) in fields {
            if access.is_guard && function.instructions[at].imm == 0 || is_poisoned(at) && !reachable[at] {
                self.guarded.insert(access.field.clone());
            } else if is_poisoned(at) {
                self.unguarded
                    .insert(MissingField { field: access.field.clone(), function: function.name.clone() });
            }
        }
    }
}

/// What a file is instead of BTF, judged by its first bytes, and what to do. `None`: it is BTF.
fn other_than_btf(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let copy = "take a copy of /sys/kernel/btf/vmlinux from the machine in question";
    match bytes {
        [0x9f, 0xeb, ..] => None,
        [0xeb, 0x9f, ..] => {
            Some(("BTF of a big-endian machine", "mpwatch runs on little-endian machines only"))
        }
        [0x7f, b'E', b'L', b'F', ..] => {
            Some(("an ELF file", "take its BTF out with `objcopy --dump-section .BTF=FILE vmlinux`"))
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', ..] => {
            Some(("a compressed file", "unpack it first"))
        }
        [] => Some(("empty", copy)),
        _ => Some(("something else", copy)),
    }
}

/// A program is loaded only if its hook exists. Subprograms are always loaded.
fn is_loaded(function: &Function, plan: &AttachPlan) -> bool {
    let is_program = HOOKS.iter().any(|hook| hook.program == function.name);
    !is_program || plan.programs.contains(&function.name.as_str())
}

/// The field accesses of one function, by the index of their instruction.
fn fields_of<'a>(
    function: &Function,
    accesses: &'a [records::Access],
) -> BTreeMap<usize, &'a records::Access> {
    let mine = accesses.iter().filter(|access| access.section == function.section_index.0);
    let indexed = mine.filter_map(|access| {
        Some((access.offset.checked_sub(function.section_offset)? / INSTRUCTION_BYTES, access))
    });
    indexed.filter(|(at, _)| *at < function.instructions.len()).collect()
}
