// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds types in a kernel's BTF by their names, of which it has a hundred thousand in no order.

use std::collections::HashSet;

use libbpf_rs::btf::{Btf, BtfType, TypeId};

/// The types that have one of some names, found in one pass: libbpf's own search takes a pass for each name.
pub(super) struct NamedTypes<'btf>(Vec<BtfType<'btf>>);

impl<'btf> NamedTypes<'btf> {
    pub(super) fn of(btf: &'btf Btf<'_>, names: impl Iterator<Item = String>) -> Self {
        let names: HashSet<String> = names.collect();
        let is_wanted = |found: &BtfType<'_>| {
            found.name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(name))
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
