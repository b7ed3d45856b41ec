// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about a kernel, from its BTF and not from its version, because distributions backport. `plan.rs` derives the plan.

use std::collections::BTreeSet;
use std::path::Path;

use libbpf_rs::btf::types::{Func, FuncProto, Struct, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};

use super::hook::{HOOKS, Hook};

use super::congestion::CongestionSupport;
use super::named_types::NamedTypes;

/// The structure that every kernel with MPTCP has.
const MPTCP: &str = "mptcp_sock";
/// The function by which programs read fields in place (Linux 6.2 and later).
const CAST: &str = "bpf_rdonly_cast";
/// The type of the tracepoint of retransmissions.
const RETRANSMIT: &str = "btf_trace_tcp_retransmit_skb";
/// BTF of the running kernel.
pub(crate) const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// A field that some supported kernels lack. Our programs check that it exists before they read it.
#[derive(Clone, Copy, Debug)]
pub struct KernelField {
    /// Kernel structure.
    pub structure: &'static str,
    /// Its member.
    pub name: &'static str,
    /// Figures that are unknown without it.
    pub costs: &'static str,
}

/// Fields without which some figures are unknown. (For other fields the programs have an alternative.)
pub const OPTIONAL_FIELDS: &[KernelField] = &[
    KernelField {
        structure: "mptcp_sock",
        name: "bytes_retrans",
        costs: "bytes that the MPTCP timer retransmitted",
    },
    KernelField { structure: "tcp_sock", name: "total_rto", costs: "counts of retransmission timeouts" },
];

impl KernelField {
    /// Path of the field, such as `tcp_sock.total_rto`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.structure, self.name)
    }
}

/// Facts about a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSupport {
    /// Targets of [`HOOKS`] that exist: tracepoints, iterators, and the function that runs a program for user space.
    pub targets: BTreeSet<&'static str>,
    /// Paths of [`OPTIONAL_FIELDS`] that exist, such as `tcp_sock.total_rto`.
    pub fields: BTreeSet<String>,
    /// Whether the kernel has MPTCP (`struct mptcp_sock`).
    pub mptcp: bool,
    /// Whether `bpf_rdonly_cast()` exists.
    pub has_cast: bool,
    /// Whether `tcp_retransmit_skb` also fires for retransmissions that failed, with their error (6.18 and later).
    pub reports_failed_retransmits: bool,
    /// Support for the congestion control.
    pub congestion: CongestionSupport,
}

/// A kernel's BTF cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the fields")]
pub enum SupportError {
    /// The running kernel has no BTF.
    #[error(
        "this kernel has no BTF at {path}: mpwatch needs CONFIG_DEBUG_INFO_BTF=y, as distribution kernels have"
    )]
    NoBtf { path: &'static str, source: libbpf_rs::Error },
    /// The file is not BTF.
    #[error(
        "{path} is not a kernel's BTF; give the raw .BTF section, for example a copy of /sys/kernel/btf/vmlinux"
    )]
    NotBtf { path: String, source: libbpf_rs::Error },
}

/// Disables libbpf's messages unless `MPWATCH_LIBBPF_LOG` is set: formatting thousands of them took a third of the instructions at the start.
pub(crate) fn quiet_libbpf() {
    if std::env::var_os("MPWATCH_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
}

/// Names of the BTF types from which the facts follow.
fn type_names() -> impl Iterator<Item = String> {
    let structures = OPTIONAL_FIELDS
        .iter()
        .map(|field| field.structure)
        .chain([MPTCP, CAST])
        .chain(CongestionSupport::type_names());
    HOOKS.iter().map(Hook::type_name).chain(structures.map(str::to_owned))
}

/// Whether the tracepoint of retransmissions has a fourth parameter, the error, after context, socket and packet.
fn has_error(tracepoint: Typedef<'_>) -> bool {
    let prototype = tracepoint.referenced_type().next_type().and_then(|next| FuncProto::try_from(next).ok());
    prototype.is_some_and(|prototype| prototype.iter().len() >= 4)
}

impl KernelSupport {
    /// Reads the facts about the running kernel.
    /// Fails if it has no BTF.
    pub fn from_running_kernel() -> Result<Self, SupportError> {
        quiet_libbpf();
        let absent = |source| SupportError::NoBtf { path: VMLINUX_BTF, source };
        Btf::from_vmlinux().map(|btf| Self::from_btf(&btf)).map_err(absent)
    }

    /// Reads the facts about another kernel from a file with its BTF.
    /// Fails if the file is not BTF.
    pub fn from_file(path: &Path) -> Result<Self, SupportError> {
        quiet_libbpf();
        Btf::from_path(path)
            .map(|btf| Self::from_btf(&btf))
            .map_err(|source| SupportError::NotBtf { path: path.display().to_string(), source })
    }

    fn from_btf(btf: &Btf<'_>) -> Self {
        let types = NamedTypes::new(btf, type_names());
        let has = |field: &&KernelField| {
            let structure = types.find::<Struct<'_>>(field.structure);
            structure.is_some_and(|found| {
                found.iter().any(|member| member.name.is_some_and(|name| name == field.name))
            })
        };
        let has_target = |hook: &&Hook| {
            let name = hook.type_name();
            // A tracepoint is in BTF as a type, an iterator as a function.
            types.find::<Typedef<'_>>(&name).is_some() || types.find::<Func<'_>>(&name).is_some()
        };
        Self {
            targets: HOOKS.iter().filter(has_target).map(|hook| hook.target).collect(),
            fields: OPTIONAL_FIELDS.iter().filter(has).map(KernelField::path).collect(),
            mptcp: types.find::<Struct<'_>>(MPTCP).is_some(),
            has_cast: types.find::<Func<'_>>(CAST).is_some(),
            reports_failed_retransmits: types.find::<Typedef<'_>>(RETRANSMIT).is_some_and(has_error),
            congestion: CongestionSupport::from_types(&types),
        }
    }

    /// A kernel that supports everything, for tests.
    pub fn complete() -> Self {
        Self {
            targets: HOOKS.iter().map(|hook| hook.target).collect(),
            fields: OPTIONAL_FIELDS.iter().map(KernelField::path).collect(),
            mptcp: true,
            has_cast: true,
            reports_failed_retransmits: true,
            congestion: CongestionSupport { missing: Vec::new(), has_link: true },
        }
    }
}
