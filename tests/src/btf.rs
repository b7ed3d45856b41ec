// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the BTF of a kernel.

/// Renames all types, fields and tracepoints with this name, as if the kernel did not have them.
pub fn without(mut btf: Vec<u8>, name: &str) -> Vec<u8> {
    let mut end = 0;
    let found = btf.split(|byte| *byte == 0).any(|string| {
        end += string.len() + 1;
        string == name.as_bytes()
    });
    assert!(found, "{name} is not in the BTF");
    // Changes the last byte before the terminating zero.
    btf[end - 2] = b'?';
    btf
}
