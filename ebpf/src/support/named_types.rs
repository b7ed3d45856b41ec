// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds types in a kernel's BTF by their names, of which it has a hundred thousand in no order.

use std::ffi::OsStr;

use libbpf_rs::btf::{Btf, BtfType, TypeId};

/// The types that have one of some names, found in one pass: libbpf's own search takes a pass for each name.
pub(super) struct NamedTypes<'btf>(Vec<BtfType<'btf>>);

impl<'btf> NamedTypes<'btf> {
    pub(super) fn of(btf: &'btf Btf<'_>, names: impl Iterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        // Most names begin like none of these or are of another length: to look closely at each is most of what a start would compute.
        let bit = |name: &[u8]| 1_u64 << (name.len() % 64);
        let mut lengths = [0; 256];
        for name in names.iter().map(String::as_bytes).filter(|name| !name.is_empty()) {
            lengths[usize::from(name[0])] |= bit(name);
        }
        let is_wanted = |found: &BtfType<'_>| {
            let name = found.name().map_or(&[][..], OsStr::as_encoded_bytes);
            let may_be = name.first().is_some_and(|first| lengths[usize::from(*first)] & bit(name) != 0);
            may_be && names.binary_search_by(|wanted| wanted.as_bytes().cmp(name)).is_ok()
        };
        // Type 0 is void, which has no name.
        let ids = (1..u32::try_from(btf.len()).unwrap_or(u32::MAX)).map(TypeId::from);
        Self(ids.filter_map(|id| btf.type_by_id::<BtfType<'_>>(id)).filter(is_wanted).collect())
    }

    /// The first type of a kind (such as `Struct`) with a name.
    pub(super) fn find<Kind: TryFrom<BtfType<'btf>>>(&self, name: &str) -> Option<Kind> {
        let named = self.0.iter().filter(|found| found.name().is_some_and(|of| of == name));
        named.copied().find_map(|found| Kind::try_from(found).ok())
    }
}
