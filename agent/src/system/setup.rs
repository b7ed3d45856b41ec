// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of this machine that belong to the description of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use mpwatch_ebpf::namespace;
use mpwatch_model::host::setup::{Setup, cpu_model};

use crate::system::procfs::read_file;

/// Directory of the sysctls of MPTCP. It shows the sysctls of the reader's network namespace.
pub(crate) const SYSCTLS: &str = "/proc/sys/net/mptcp";

/// The settings now, with the sysctls of this process' network namespace and without labels.
pub(crate) fn read(interval: Duration) -> Setup {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Setup {
        labels: BTreeMap::new(),
        interval_ms: u64::try_from(interval.as_millis()).ok(),
        cpu_model: cpu_model(&cpuinfo),
        governor: governor(Path::new("/sys/devices/system/cpu")),
        mptcp_sysctls: sysctls(Path::new(SYSCTLS)),
    }
}

/// The sysctls of a namespace by its name. `None`: there is no such namespace, or it cannot be entered.
pub(crate) fn namespace_sysctls(netns: &str) -> Option<BTreeMap<String, String>> {
    let named = |found: &namespace::Namespace| found.name.as_deref() == Some(netns);
    let found = namespace::all().into_iter().find(named)?;
    namespace::inside(&found, || Ok(sysctls(Path::new(SYSCTLS)))).ok()
}

/// All files of the directory that can be read.
pub(crate) fn sysctls(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, read_file(entry.path())?));
    entries.filter_map(read).collect()
}

/// The governors of all CPUs, each named once. `None`: there are none.
fn governor(cpus: &Path) -> Option<String> {
    let entries = fs::read_dir(cpus).into_iter().flatten().flatten();
    let found: BTreeSet<String> =
        entries.filter_map(|entry| read_file(entry.path().join("cpufreq/scaling_governor"))).collect();
    (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::procfs::folder_with;

    #[test]
    fn settings_are_read_from_files() {
        let cpus = folder_with(&[
            ("cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("cpu1/cpufreq/scaling_governor", "performance\n"),
            ("cpu2/cpufreq/scaling_governor", "schedutil\n"),
        ]);
        assert_eq!(governor(cpus.path()).as_deref(), Some("performance, schedutil"));
        let folder = folder_with(&[("scheduler", "default\n")]);
        assert_eq!(governor(folder.path()), None);
        assert_eq!(sysctls(folder.path()), BTreeMap::from([("scheduler".to_owned(), "default".to_owned())]));
        assert!(sysctls(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn the_interval_is_part_of_the_settings() {
        assert_eq!(read(Duration::from_millis(250)).interval_ms, Some(250));
        assert_eq!(namespace_sysctls("there is no such namespace"), None);
    }
}
