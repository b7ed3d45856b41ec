// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the path of a control group, which the BPF programs send as names, innermost first.

use mpwatch_model::kernel::event::CgroupName;

use crate::abi;

/// Stands for the outer levels of a path that has more levels than fit into a record.
const CUT: &str = "/...";

pub(super) fn cgroup(raw: &abi::mpw_cgroup) -> CgroupName {
    let abi::mpw_cgroup { kind: _, levels, is_cut, id, names } = raw;
    let mut path = if *is_cut == 0 { String::new() } else { CUT.to_owned() };
    for name in names.iter().take((*levels).into()).rev() {
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        path.push('/');
        path.push_str(&String::from_utf8_lossy(&name[..length]));
    }
    if path.is_empty() {
        path.push('/');
    }
    CgroupName { id: *id, path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str], is_cut: u16) -> String {
        let mut raw = abi::mpw_cgroup { id: 7, is_cut, ..bytemuck::Zeroable::zeroed() };
        raw.levels = names.len().try_into().unwrap();
        for (bytes, name) in raw.names.iter_mut().zip(names) {
            bytes.fill(b'x');
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            bytes[name.len()] = 0;
        }
        cgroup(&raw).path
    }

    #[test]
    fn names_from_the_inside_out_become_a_path() {
        assert_eq!(path(&["nginx.service", "system.slice"], 0), "/system.slice/nginx.service");
        assert_eq!(path(&[], 0), "/", "the root");
        assert_eq!(path(&["b", "a"], 1), "/.../a/b");
    }
}
