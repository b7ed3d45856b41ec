// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of CPUs as sysfs shows them, such as `0-3,8`.

use std::fs;

/// Numbers of the CPUs that are online, including CPUs that this process may not use.
pub fn online() -> Vec<u32> {
    parse(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default())
}

/// Parses a list of numbers and ranges. Ignores invalid parts.
pub fn parse(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse().ok()?)
    });
    ranges.flatten().collect()
}
