// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a kernel supports the congestion control, from its BTF.

use libbpf_rs::btf::types::{Func, Struct};

use super::named_types::NamedTypes;

/// Type of a link to a struct_ops. A link ends with the process that holds it (Linux 6.4 and later).
const LINK: &str = "bpf_struct_ops_link";
/// Functions of the kernel's Reno that `mptcpd` calls.
const RENO: [&str; 4] = ["tcp_reno_ssthresh", "tcp_reno_cong_avoid", "tcp_reno_undo_cwnd", "tcp_slow_start"];

/// Support of a kernel for `mptcpd`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionSupport {
    /// Names of missing kernel types and functions. Empty: the kernel can register `mptcpd`.
    pub missing: Vec<String>,
    /// Whether the kernel unregisters `mptcpd` when the process that registered it ends, even if it is killed.
    pub has_link: bool,
}

impl CongestionSupport {
    /// Type of a congestion control in BPF (Linux 5.6 and later, with `CONFIG_BPF_JIT`).
    pub(crate) const STRUCT_OPS: &str = "bpf_struct_ops_tcp_congestion_ops";

    /// Names of the BTF types that [`Self::from_types`] needs.
    pub(super) fn type_names() -> impl Iterator<Item = &'static str> {
        RENO.into_iter().chain([Self::STRUCT_OPS, LINK])
    }

    pub(super) fn from_types(types: &NamedTypes<'_>) -> Self {
        let lacks_type = |name: &&str| types.find::<Struct<'_>>(name).is_none();
        let lacks_function = |name: &&str| types.find::<Func<'_>>(name).is_none();
        let missing = [Self::STRUCT_OPS].into_iter().filter(lacks_type);
        let missing = missing.chain(RENO.into_iter().filter(lacks_function));
        Self {
            missing: missing.map(str::to_owned).collect(),
            has_link: types.find::<Struct<'_>>(LINK).is_some(),
        }
    }
}
