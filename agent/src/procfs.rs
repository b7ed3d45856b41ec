// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text files of `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// The content without blanks around it. `None`: the file cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first field of this name in `/proc/cpuinfo`.
pub(crate) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Mount point of cgroup2 in `/proc/self/mounts`. It may be mounted beside version 1 controllers, so no path is certain.
pub(crate) fn cgroup2_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (path, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then(|| path.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup2_mount_is_found_beside_version_1_controllers() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup2_mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_mount(""), None);
    }
}
