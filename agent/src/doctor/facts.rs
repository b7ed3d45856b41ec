// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the doctor looks at: files under `/proc` and `/sys`, and the kernel's BTF. Facts only; what follows from them is in
//! [`super::rules`]. `None` means that the system does not say, at least not to this user.

use std::fs;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::core_check::{self, CoreReport};
use mpwatch_model::energy::EnergySource;

use crate::energy::sampler::{Sampler, ZoneReport};
use crate::energy::source::{Hardware, Note};

/// Where `/proc` and `/sys` are; elsewhere in tests.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// Effective capabilities of this process, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities(pub(super) u64);

impl Capabilities {
    /// By number, as in linux/capability.h.
    pub(super) fn has(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }
}

/// What the machine tells of its energy.
#[derive(Clone, Debug)]
pub(super) struct Energy {
    /// Where joules would come from.
    pub(super) source: EnergySource,
    /// All counters that were found.
    pub(super) zones: Vec<ZoneReport>,
    /// What was passed over, and what to do about it.
    pub(super) notes: Vec<Note>,
}

impl Energy {
    fn gather(sysfs: Option<&Path>) -> Self {
        // No window is ever closed here, so no clock is asked.
        let sampler = Sampler::new(Hardware::detect(sysfs), Box::new(Default::default));
        Self { source: sampler.source(), zones: sampler.zones(), notes: sampler.notes().to_vec() }
    }
}

/// Facts about a machine and this process on it.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Release of the kernel, to be shown; nothing depends on it.
    pub(super) release: Option<String>,
    /// What the running kernel's BTF offers to our programs, or why that cannot be said; `None`: there is no BTF.
    pub(super) core: Option<Result<CoreReport, String>>,
    /// `net.mptcp.enabled` in this network namespace.
    pub(super) mptcp_enabled: Option<bool>,
    /// `net.mptcp.scheduler`; `None` also on kernels that have only one.
    pub(super) scheduler: Option<String>,
    /// Effective capabilities.
    pub(super) capabilities: Option<Capabilities>,
    /// Whether the process lives in the machine's first user namespace; in another one, capabilities do not reach the kernel.
    pub(super) in_first_user_namespace: Option<bool>,
    /// `none`, `integrity` or `confidentiality`.
    pub(super) lockdown: Option<String>,
    /// `net.core.bpf_jit_enable` is not 0.
    pub(super) jit: Option<bool>,
    /// Where cgroup2 is mounted.
    pub(super) cgroup2: Option<PathBuf>,
    /// The kernel module by which `ss -M` lists MPTCP sockets is loaded.
    pub(super) mptcp_diag: Option<bool>,
    /// Energy counters.
    pub(super) energy: Energy,
}

impl Facts {
    /// Reads all of them; energy below `sysfs` if that is given.
    pub(super) fn gather(roots: &Roots, sysfs: Option<&Path>) -> Self {
        let sysctl = |name: &str| read(&roots.proc.join("sys").join(name));
        let btf = roots.sys.join("kernel/btf/vmlinux");
        Self {
            release: sysctl("kernel/osrelease"),
            core: btf.exists().then(|| core_check::check_file(&btf).map_err(|error| error.to_string())),
            mptcp_enabled: sysctl("net/mptcp/enabled").map(|value| value != "0"),
            scheduler: sysctl("net/mptcp/scheduler"),
            capabilities: read(&roots.proc.join("self/status")).and_then(|status| effective(&status)),
            in_first_user_namespace: read(&roots.proc.join("self/uid_map")).map(|map| is_whole(&map)),
            lockdown: read(&roots.sys.join("kernel/security/lockdown")).and_then(|modes| chosen(&modes)),
            jit: sysctl("net/core/bpf_jit_enable").map(|value| value != "0"),
            cgroup2: read(&roots.proc.join("self/mounts")).and_then(|mounts| cgroup2(&mounts)),
            mptcp_diag: read(&roots.proc.join("modules"))
                .map(|modules| modules.lines().any(|line| line.starts_with("mptcp_diag "))),
            energy: Energy::gather(sysfs),
        }
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// From `/proc/self/status`.
fn effective(status: &str) -> Option<Capabilities> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok().map(Capabilities)
}

/// The first user namespace maps every id onto itself; others map a part.
fn is_whole(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The word in brackets of `none [integrity] confidentiality`.
fn chosen(modes: &str) -> Option<String> {
    let (_, behind) = modes.split_once('[')?;
    behind.split_once(']').map(|(mode, _)| mode.to_owned())
}

fn cgroup2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (path, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then(|| path.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots { proc: directory.path().join("proc"), sys: directory.path().join("sys") };
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, roots)
    }

    #[test]
    fn facts_are_read_from_proc_and_sys() {
        let (_directory, roots) = roots_with(&[
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/net/mptcp/enabled", "0\n"),
            ("proc/sys/net/mptcp/scheduler", "default\n"),
            ("proc/sys/net/core/bpf_jit_enable", "1\n"),
            ("proc/self/status", "Name:\tmpwatch\nCapPrm:\t0000000000000000\nCapEff:\t000000c000280000\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("proc/self/mounts", "cgroup /a cgroup rw 0 0\ncgroup2 /a/unified cgroup2 rw 0 0\n"),
            ("proc/modules", "mptcp_diag 16384 0 - Live 0x0\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ]);
        let facts = Facts::gather(&roots, Some(&roots.sys));
        assert_eq!(facts.release.as_deref(), Some("6.12.1"));
        assert_eq!((facts.mptcp_enabled, facts.jit, facts.mptcp_diag), (Some(false), Some(true), Some(true)));
        assert_eq!(facts.scheduler.as_deref(), Some("default"));
        assert_eq!(facts.lockdown.as_deref(), Some("integrity"));
        assert_eq!(facts.cgroup2, Some("/a/unified".into()));
        assert_eq!(facts.in_first_user_namespace, Some(true));
        let held: Vec<_> = (0..64).filter(|number| facts.capabilities.unwrap().has(*number)).collect();
        assert_eq!(held, [19, 21, 38, 39]);
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let (_directory, roots) = roots_with(&[("proc/self/uid_map", "0 1000 1\n")]);
        let facts = Facts::gather(&roots, Some(&roots.sys));
        assert!(facts.core.is_none() && facts.release.is_none() && facts.mptcp_enabled.is_none());
        assert!(facts.lockdown.is_none() && facts.capabilities.is_none() && facts.cgroup2.is_none());
        assert_eq!(facts.in_first_user_namespace, Some(false));
    }

    #[test]
    fn a_file_that_is_no_btf_says_why() {
        let (_directory, roots) = roots_with(&[("sys/kernel/btf/vmlinux", "no BTF")]);
        let reason = Facts::gather(&roots, Some(&roots.sys)).core.unwrap().unwrap_err();
        assert!(reason.contains("is not a kernel's raw BTF"), "{reason}");
    }
}
