// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's type information, changed.

/// The same BTF with a name changed everywhere: as if the kernel had no such field, type or tracepoint.
pub fn without(mut btf: Vec<u8>, name: &str) -> Vec<u8> {
    let mut end = 0;
    let found = btf.split(|byte| *byte == 0).any(|string| {
        end += string.len() + 1;
        string == name.as_bytes()
    });
    assert!(found, "{name} is not in the BTF");
    // One byte before the zero that ends it.
    btf[end - 2] = b'?';
    btf
}
