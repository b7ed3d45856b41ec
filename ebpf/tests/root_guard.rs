// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that tests on other kernels detect a forgotten guard: kernels that lack a field, and only these, reject an object that reads the field
//! without a guard.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use libbpf_rs::{ObjectBuilder, PrintLevel};
use mpwatch_ebpf::support::KernelSupport;
use mpwatch_ebpf::support::core_check::{Access, accesses};
use mpwatch_ebpf::support::plan::AttachPlan;
use mpwatch_testkit::may_run_as_root;

/// A field of Linux 6.7 and later, and its size.
const FIELD: (&str, u32) = ("tcp_sock.total_rto", 2);

/// `BPF_CORE_FIELD_BYTE_SIZE` of `enum bpf_core_relo_kind`.
const FIELD_BYTE_SIZE: u32 = 1;

/// Our object with broken guards of a field: they ask for the field's size (`bytes`, never 0) instead of its existence. A kernel without the
/// field rejects this object. `None`: no program guards this field.
fn object_with_broken_guard(field: &str, bytes: u32) -> Option<Vec<u8>> {
    let mut object = mpwatch_ebpf::OBJECT.to_vec();
    let is_guard = |access: &Access| access.is_guard && access.field == field;
    let guards: Vec<_> = accesses(&object)?.into_iter().filter(is_guard).map(|access| access.at).collect();
    for &(kind, constant) in &guards {
        object.get_mut(kind..kind + 4)?.copy_from_slice(&FIELD_BYTE_SIZE.to_le_bytes());
        // The loader compares the constant with our own declaration.
        object.get_mut(constant..constant + 4)?.copy_from_slice(&bytes.to_le_bytes());
    }
    (!guards.is_empty()).then_some(object)
}

/// Whether the running kernel accepts an object. Without settings, the object reads all fields by helper calls.
fn loads(object: &[u8], plan: &AttachPlan) -> Result<(), String> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
    let mut open = ObjectBuilder::default().open_memory(object).expect("the object can be opened");
    for mut program in open.progs_mut() {
        let planned = plan.programs.iter().any(|name| program.name() == *name);
        program.set_autoload(planned);
    }
    open.load().map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_broken_guard_is_rejected_exactly_where_the_field_is_missing() {
    if !may_run_as_root() {
        return;
    }
    let support = KernelSupport::from_running_kernel().unwrap();
    let plan = AttachPlan::from_facts(&support);
    assert_eq!(loads(mpwatch_ebpf::OBJECT, &plan), Ok(()), "the object as it is");

    let (field, bytes) = FIELD;
    let broken = object_with_broken_guard(field, bytes).expect("our programs ask for the field");
    let outcome = loads(&broken, &plan);
    let has_it = support.fields.contains(field);
    println!("without the guard of {field}, which this kernel has ({has_it}): {outcome:?}");
    assert_eq!(outcome.is_ok(), has_it, "{outcome:?}");
}
