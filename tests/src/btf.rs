// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's type information, changed.

/// The same BTF with a name changed everywhere: as if the kernel had no such field, type or tracepoint.
pub fn without(mut btf: Vec<u8>, name: &str) -> Vec<u8> {
    let string = format!("\0{name}\0").into_bytes();
    let at = btf.windows(string.len()).position(|window| window == string).expect("the name is in the BTF");
    btf[at + string.len() - 2] = b'?';
    btf
}
