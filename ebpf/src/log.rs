// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbpf's own messages.

/// Shows libbpf's messages only with `MPWATCH_LIBBPF_LOG=1`: formatting thousands of them took a third of a start's instructions.
pub(crate) fn quiet_libbpf() {
    if std::env::var_os("MPWATCH_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
}
