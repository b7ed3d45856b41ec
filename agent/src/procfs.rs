// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text files of `/proc` and `/sys`.

use std::fs;
use std::path::Path;

/// The content without blanks around it. `None`: the file cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first field of this name in `/proc/cpuinfo`.
pub(crate) fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}
