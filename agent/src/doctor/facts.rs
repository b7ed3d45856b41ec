// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts for the doctor, from `/proc`, `/sys` and the kernel's BTF; [`super::rules`] judges them. `None`: a fact cannot be read.

use std::path::Path;

use caps::{CapSet, CapsHashSet};
use mpwatch_ebpf::support::core_check::{self, CoreReport};
use mpwatch_model::host::energy::EnergySource;

use crate::energy::discovery::{Hardware, Note};
use crate::energy::sampler::Sampler;
use crate::energy::zone_reader::ZoneReport;
use crate::system::procfs::read_file as read;

#[derive(Clone, Debug)]
pub(super) struct Energy {
    pub(super) source: EnergySource,
    pub(super) zones: Vec<ZoneReport>,
    /// Reasons why a more accurate source than `source` is not used.
    pub(super) notes: Vec<Note>,
}

#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Release of the kernel, for display only.
    pub(super) release: Option<String>,
    /// The check of the BPF programs against the kernel's BTF, or why the BTF cannot be read. `None`: there is no BTF.
    pub(super) core: Option<Result<CoreReport, String>>,
    /// `net.mptcp.enabled` in this network namespace.
    pub(super) mptcp_enabled: Option<bool>,
    /// `net.mptcp.scheduler`. `None` also on kernels with only one scheduler.
    pub(super) scheduler: Option<String>,
    /// Effective capabilities of this process.
    pub(super) capabilities: Option<CapsHashSet>,
    /// Whether this is the initial user namespace. In other user namespaces, the kernel ignores capabilities for BPF.
    pub(super) in_initial_user_namespace: Option<bool>,
    /// Mode of kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub(super) lockdown: Option<String>,
    /// Whether `net.core.bpf_jit_enable` is not 0.
    pub(super) jit: Option<bool>,
    pub(super) energy: Energy,
}

impl Facts {
    /// Reads all facts of this machine. `sysfs_root`: directory of the energy counters. `None`: `/sys`.
    pub(super) fn read(proc: &Path, sys: &Path, sysfs_root: Option<&Path>) -> Self {
        // The sampler reads its clock only when it closes a window, which does not happen here.
        let sampler = Sampler::new(Hardware::detect(sysfs_root), Box::new(Default::default));
        let sysctl = |name: &str| read(proc.join("sys").join(name));
        let btf = sys.join("kernel/btf/vmlinux");
        Self {
            release: sysctl("kernel/osrelease"),
            core: btf.exists().then(|| core_check::check_file(&btf).map_err(|error| error.to_string())),
            mptcp_enabled: sysctl("net/mptcp/enabled").map(|value| value != "0"),
            scheduler: sysctl("net/mptcp/scheduler"),
            capabilities: caps::read(None, CapSet::Effective).ok(),
            in_initial_user_namespace: read(proc.join("self/uid_map")).map(|map| is_initial(&map)),
            lockdown: read(sys.join("kernel/security/lockdown")).and_then(|modes| chosen(&modes)),
            jit: sysctl("net/core/bpf_jit_enable").map(|value| value != "0"),
            energy: Energy { source: sampler.source(), zones: sampler.zones(), notes: sampler.notes },
        }
    }
}

/// The initial user namespace maps every id to itself.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The word in brackets of `none [integrity] confidentiality`.
fn chosen(modes: &str) -> Option<String> {
    let (_, after) = modes.split_once('[')?;
    after.split_once(']').map(|(mode, _)| mode.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::procfs::folder_with;

    /// The facts of a machine with these files.
    fn facts_of(files: &[(&str, &str)]) -> Facts {
        let root = folder_with(files);
        let sys = root.path().join("sys");
        Facts::read(&root.path().join("proc"), &sys, Some(&sys))
    }

    #[test]
    fn facts_are_read_from_proc_and_sys() {
        let facts = facts_of(&[
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/net/mptcp/enabled", "0\n"),
            ("proc/sys/net/mptcp/scheduler", "default\n"),
            ("proc/sys/net/core/bpf_jit_enable", "1\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ]);
        assert_eq!(facts.release.as_deref(), Some("6.12.1"));
        assert_eq!((facts.mptcp_enabled, facts.jit), (Some(false), Some(true)));
        assert_eq!(facts.scheduler.as_deref(), Some("default"));
        assert_eq!(facts.lockdown.as_deref(), Some("integrity"));
        assert_eq!(facts.in_initial_user_namespace, Some(true));
    }

    #[test]
    fn missing_files_give_unknown_facts() {
        let facts = facts_of(&[("proc/self/uid_map", "0 1000 1\n")]);
        assert!(facts.core.is_none() && facts.release.is_none() && facts.mptcp_enabled.is_none());
        assert!(facts.lockdown.is_none() && facts.capabilities.is_some());
        assert_eq!(facts.in_initial_user_namespace, Some(false));
    }

    #[test]
    fn an_unreadable_btf_gives_the_reason() {
        let facts = facts_of(&[("sys/kernel/btf/vmlinux", "no BTF")]);
        let reason = facts.core.unwrap().unwrap_err();
        assert!(reason.contains("is not a kernel's raw BTF"), "{reason}");
    }
}
