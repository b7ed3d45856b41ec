// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the reachable instructions of a relocated BPF function, in which guards of fields are constants. Follows constants in registers,
//! not in memory; the verifier knows more, so what is unreachable here is unreachable for it too. Pure.

use aya_obj::generated::bpf_insn;

/// Registers r0 to r10; `None`: any value.
type Registers = [Option<u64>; 11];

const UNKNOWN: Registers = [None; 11];

// linux/bpf_common.h, linux/bpf.h: the class is the low 3 bits, the operation the high 4, bit 3 takes a register as source.
const CLASS: u8 = 0x07;
const LD: u8 = 0;
const LDX: u8 = 1;
const STX: u8 = 3;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
const LD_IMM64: u8 = 0x18;
const FROM_REGISTER: u8 = 0x08;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// For each instruction whether it is reachable. After a poisoned instruction all registers are unknown.
pub(super) fn reachable(instructions: &[bpf_insn], is_poisoned: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let mut known: Vec<Option<Registers>> = vec![None; instructions.len()];
    let mut pending = vec![(0, UNKNOWN)];
    while let Some((at, registers)) = pending.pop() {
        let Some(before) = known.get_mut(at) else { continue };
        let merged = before.map_or(registers, |before| merge(before, registers));
        if *before == Some(merged) {
            continue;
        }
        *before = Some(merged);
        if is_poisoned(at) {
            pending.push((at + 1, UNKNOWN));
        } else {
            step(at, instructions[at], instructions.get(at + 1).copied(), merged, &mut pending);
        }
    }
    known.iter().map(Option::is_some).collect()
}

fn merge(a: Registers, b: Registers) -> Registers {
    let mut merged = a;
    for (into, other) in merged.iter_mut().zip(b) {
        *into = into.filter(|value| other == Some(*value));
    }
    merged
}

/// Adds the successors of an instruction.
fn step(
    at: usize,
    instruction: bpf_insn,
    next: Option<bpf_insn>,
    mut registers: Registers,
    pending: &mut Vec<(usize, Registers)>,
) {
    let destination = usize::from(instruction.dst_reg()).min(10);
    match instruction.code & CLASS {
        JMP | JMP32 => return jump(at, instruction, registers, pending),
        ALU | ALU64 => registers[destination] = computed(instruction, &registers),
        LD if instruction.code == LD_IMM64 => {
            let high = next.map_or(0, |next| next.imm.cast_unsigned());
            let value = u64::from(high) << 32 | u64::from(instruction.imm.cast_unsigned());
            registers[destination] = (instruction.src_reg() == 0).then_some(value);
            return pending.push((at + 2, registers));
        }
        LD => registers[0] = None,
        LDX => registers[destination] = None,
        // An atomic operation may return the old value, in its source register or in r0.
        STX => {
            registers[usize::from(instruction.src_reg()).min(10)] = None;
            registers[0] = None;
        }
        _ => {}
    }
    pending.push((at + 1, registers));
}

fn source(instruction: bpf_insn, registers: &Registers) -> Option<u64> {
    if instruction.code & FROM_REGISTER == 0 {
        Some(i64::from(instruction.imm).cast_unsigned())
    } else {
        registers[usize::from(instruction.src_reg()).min(10)]
    }
}

fn narrow(value: u64) -> u64 {
    value & u64::from(u32::MAX)
}

/// The result of the few operations that compilers use on truth values. `None`: unknown.
fn computed(instruction: bpf_insn, registers: &Registers) -> Option<u64> {
    let source = source(instruction, registers);
    let before = registers[usize::from(instruction.dst_reg()).min(10)];
    let value = match instruction.code >> 4 {
        // A move with an offset extends the sign.
        0xb => source.filter(|_| instruction.off == 0)?,
        0x4 => before? | source?,
        0x5 => before? & source?,
        0xa => before? ^ source?,
        _ => return None,
    };
    Some(if instruction.code & CLASS == ALU { narrow(value) } else { value })
}

fn jump(at: usize, instruction: bpf_insn, mut registers: Registers, pending: &mut Vec<(usize, Registers)>) {
    let class = instruction.code & CLASS;
    // A jump out of the function reaches nothing.
    let target = |distance: i32| {
        isize::try_from(distance).ok().and_then(|d| (at + 1).checked_add_signed(d)).unwrap_or(usize::MAX)
    };
    match instruction.code & !CLASS & !FROM_REGISTER {
        EXIT => {}
        CALL => {
            registers[..=5].fill(None);
            pending.push((at + 1, registers));
        }
        0 if class == JMP32 => pending.push((target(instruction.imm), registers)),
        0 => pending.push((target(instruction.off.into()), registers)),
        _ => {
            let taken = is_taken(instruction, &registers);
            if taken != Some(false) {
                pending.push((target(instruction.off.into()), registers));
            }
            if taken != Some(true) {
                pending.push((at + 1, registers));
            }
        }
    }
}

/// Whether a conditional jump is taken. `None`: unknown, or a signed comparison.
fn is_taken(instruction: bpf_insn, registers: &Registers) -> Option<bool> {
    let mut left = registers[usize::from(instruction.dst_reg()).min(10)]?;
    let mut right = source(instruction, registers)?;
    if instruction.code & CLASS == JMP32 {
        (left, right) = (narrow(left), narrow(right));
    }
    Some(match instruction.code >> 4 {
        0x1 => left == right,
        0x2 => left > right,
        0x3 => left >= right,
        0x4 => left & right != 0,
        0x5 => left != right,
        0xa => left < right,
        0xb => left <= right,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions as `(code, destination, source, offset, immediate)`.
    fn reached(program: &[(u8, u8, u8, i16, i32)]) -> Vec<bool> {
        let instructions: Vec<_> = program
            .iter()
            .map(|&(code, destination, source, off, imm)| {
                let mut instruction = bpf_insn {
                    code,
                    _bitfield_align_1: [],
                    _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
                    off,
                    imm,
                };
                instruction.set_dst_reg(destination);
                instruction.set_src_reg(source);
                instruction
            })
            .collect();
        reachable(&instructions, &|at| program[at].4 == 0x0bad_2310)
    }

    const MOVE: u8 = 0xb7;
    const JUMP_IF_ZERO: u8 = 0x15;
    const RETURN: u8 = 0x95;
    const POISONED: (u8, u8, u8, i16, i32) = (0x85, 0, 0, 0, 0x0bad_2310);

    #[test]
    fn a_guarded_read_of_a_missing_field_is_unreachable() {
        let guarded = |exists| {
            reached(&[(MOVE, 1, 0, 0, exists), (JUMP_IF_ZERO, 1, 0, 1, 0), POISONED, (RETURN, 0, 0, 0, 0)])
        };
        assert_eq!(guarded(0), [true, true, false, true]);
        assert_eq!(guarded(1), [true, true, true, true]);
    }

    #[test]
    fn a_guard_that_another_path_bypasses_does_not_protect() {
        let program = [
            (JUMP_IF_ZERO, 2, 0, 2, 0),
            (MOVE, 1, 0, 0, 0),
            (JUMP_IF_ZERO, 1, 0, 1, 0),
            POISONED,
            (RETURN, 0, 0, 0, 0),
        ];
        assert!(reached(&program)[3]);
    }

    #[test]
    fn after_a_call_or_a_load_a_register_is_unknown() {
        for (code, name) in [(0x85, "call"), (0x61, "load")] {
            let program = [
                (MOVE, 1, 0, 0, 0),
                (code, 1, 0, 0, 1),
                (JUMP_IF_ZERO, 1, 0, 1, 0),
                POISONED,
                (RETURN, 0, 0, 0, 0),
            ];
            assert!(reached(&program)[3], "{name}");
        }
    }

    #[test]
    fn loops_terminate() {
        let backwards = [(MOVE, 1, 0, 0, 3), (0x07, 1, 0, 0, -1), (0x55, 1, 0, -2, 0), (RETURN, 0, 0, 0, 0)];
        assert_eq!(reached(&backwards), [true; 4]);
    }
}
