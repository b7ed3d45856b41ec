// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of libbpf.

/// Disables libbpf's messages unless `MPWATCH_LIBBPF_LOG=1`: formatting thousands of them took a third of the instructions of a start.
pub(crate) fn quiet_libbpf() {
    if std::env::var_os("MPWATCH_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
}
