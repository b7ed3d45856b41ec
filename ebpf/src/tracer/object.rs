// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the BPF object, attaches its programs and finds its maps.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramMut};

use super::settings::{TracerSettings, configure};
use crate::error::{TracerError, bpf_error};
use crate::support::core_check;
use crate::support::hook::{Attach, HOOKS, Hook};
use crate::support::kernel::{KernelSupport, VMLINUX_BTF};
use crate::support::plan::AttachPlan;

/// Loads the programs of the plan.
pub(crate) fn load(
    plan: &AttachPlan,
    settings: TracerSettings,
    support: &KernelSupport,
) -> Result<Object, TracerError> {
    let opened = ObjectBuilder::default().open_memory(crate::abi::OBJECT);
    let mut object = opened.map_err(bpf_error("open the BPF object"))?;
    for mut program in object.progs_mut() {
        let planned = plan.programs.iter().any(|name| program.name() == *name);
        program.set_autoload(planned);
    }
    let configured = configure(&mut object, settings, plan.can_keep_ledger(), support);
    configured.map_err(bpf_error("configure the BPF object"))?;
    let object = object
        .load()
        .map_err(bpf_error("load the BPF programs (MPWATCH_LIBBPF_LOG=1 prints the verifier's reason)"))
        .map_err(explain)?;
    fill_program_arrays(&object, plan)?;
    Ok(object)
}

/// If the verifier rejected a program because a required field is missing, the error names the field.
fn explain(error: TracerError) -> TracerError {
    if let TracerError::Bpf { .. } = &error
        && let Ok(report) = core_check::check_file(Path::new(VMLINUX_BTF))
        && !report.unguarded_missing.is_empty()
    {
        let lacked = |field| format!("its BTF has no {field}");
        return TracerError::Unsupported(report.unguarded_missing.iter().map(lacked).collect());
    }
    error
}

/// Fills the arrays through which programs call other programs.
fn fill_program_arrays(object: &Object, plan: &AttachPlan) -> Result<(), TracerError> {
    for hook in HOOKS.iter().filter(|hook| plan.programs.contains(&hook.program)) {
        let Attach::Called { array } = hook.attach else { continue };
        let program = find_program(object, hook).map_err(bpf_error("find a program"))?;
        let entry = program.as_fd().as_raw_fd().to_ne_bytes();
        let put = map(object, array)?.update(&0_u32.to_ne_bytes(), &entry, MapFlags::ANY);
        put.map_err(bpf_error(format!("put {} into {array}", hook.program)))?;
    }
    Ok(())
}

/// Attached programs, by name.
pub(crate) type Links = HashMap<&'static str, Link>;

/// Attaches the wanted hooks in the order of [`HOOKS`]. Removes optional hooks that the kernel refuses from the plan.
pub(crate) fn attach(
    object: &Object,
    plan: &mut AttachPlan,
    wanted: impl Fn(&Hook) -> bool,
) -> Result<Links, TracerError> {
    let mut links = HashMap::new();
    for hook in planned(plan, wanted) {
        match attach_one(object, hook) {
            Ok(link) => {
                links.insert(hook.program, link);
            }
            Err(source) if hook.required => {
                return Err(bpf_error(format!("attach to {}", hook.target))(source));
            }
            Err(source) => plan.refuse(hook, &format!("refused by the kernel: {source:#}")),
        }
    }
    Ok(links)
}

/// Attaches hooks that were attached before. If one fails, returns its target and error, and leaves none attached.
pub(crate) fn attach_again(
    object: &Object,
    plan: &AttachPlan,
    wanted: impl Fn(&Hook) -> bool,
) -> Result<Links, (&'static str, libbpf_rs::Error)> {
    let attach = |hook: &'static Hook| match attach_one(object, hook) {
        Ok(link) => Ok((hook.program, link)),
        Err(error) => Err((hook.target, error)),
    };
    planned(plan, wanted).into_iter().map(attach).collect()
}

/// The wanted hooks of a plan, except programs that user space runs or other programs call: these are never attached.
fn planned(plan: &AttachPlan, wanted: impl Fn(&Hook) -> bool) -> Vec<&'static Hook> {
    let attached = HOOKS.iter().filter(|hook| !matches!(hook.attach, Attach::Run | Attach::Called { .. }));
    attached.filter(|hook| plan.programs.contains(&hook.program) && wanted(hook)).collect()
}

fn attach_one(object: &Object, hook: &Hook) -> libbpf_rs::Result<Link> {
    let program = find_program(object, hook)?;
    let Attach::StorageIterator { map } = hook.attach else { return program.attach() };
    let map = object.maps().find(|candidate| candidate.name() == map);
    program.attach_iter(map.ok_or_else(|| absent("the iterator's map"))?.as_fd())
}

fn find_program<'a>(object: &'a Object, hook: &Hook) -> libbpf_rs::Result<ProgramMut<'a>> {
    let mut programs = object.progs_mut();
    programs.find(|program| program.name() == hook.program).ok_or_else(|| absent(hook.program))
}

/// Opens a map of the object.
pub(crate) fn map(object: &Object, name: &str) -> Result<MapHandle, TracerError> {
    let map = object.maps().find(|map| map.name() == name).ok_or_else(|| absent(name));
    map.and_then(|map| MapHandle::try_from(&map)).map_err(bpf_error(format!("find the map {name}")))
}

fn absent(what: &str) -> libbpf_rs::Error {
    libbpf_rs::Error::from(io::Error::other(format!("{what} is not in the BPF object")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use libbpf_rs::btf::types::{Func, FuncProto};
    use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType as _};

    use super::*;

    /// libbpf treats a weak kernel function as missing, on every kernel, if a parameter type is only forward-declared.
    #[test]
    fn parameters_of_kernel_functions_are_defined() {
        let btf = Btf::from_raw("mpwatch", crate::abi::OBJECT).unwrap().unwrap();
        let functions: Vec<Func> = btf
            .type_by_kind::<Func>()
            .filter(|function| function.name().is_some_and(|name| name.to_string_lossy().starts_with("bpf_")))
            .collect();
        assert!(!functions.is_empty());
        for function in functions {
            let prototype = FuncProto::try_from(function.referenced_type()).unwrap();
            for parameter in prototype.iter() {
                let mut target: BtfType = btf.type_by_id(parameter.ty).unwrap();
                while let Some(next) = target.next_type() {
                    target = next;
                }
                assert_ne!(target.kind(), BtfKind::Fwd, "{:?} of {:?}", parameter.name, function.name());
            }
        }
    }

    /// A call of the helper `bpf_tail_call`.
    fn is_tail_call(instruction: libbpf_sys::bpf_insn) -> bool {
        const CALL: u8 = 0x85;
        const HELPER: u8 = 0;
        const TAIL_CALL: i32 = 12;
        (instruction.code, instruction.src_reg(), instruction.imm) == (CALL, HELPER, TAIL_CALL)
    }

    /// Without a tail call, the kernel may run the program on a stack per CPU, which two runs on one CPU would share (lifecycle.bpf.c).
    #[test]
    fn a_program_that_others_call_has_a_tail_call_of_its_own() {
        let object = ObjectBuilder::default().open_memory(crate::abi::OBJECT).unwrap();
        let mut called = HOOKS.iter().filter(|hook| matches!(hook.attach, Attach::Called { .. })).peekable();
        assert!(called.peek().is_some());
        for hook in called {
            let program = object.progs().find(|program| program.name() == hook.program).unwrap();
            assert!(program.insns().iter().copied().any(is_tail_call), "{}", hook.program);
        }
    }
}
