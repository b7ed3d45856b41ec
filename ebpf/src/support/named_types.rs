// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds types in a kernel's BTF by name, in one pass over its more than 100 000 types. libbpf's search needs a pass per name.

use std::collections::HashMap;

use libbpf_rs::btf::{Btf, BtfType, TypeId};

/// Types by name.
pub(super) struct NamedTypes<'btf>(HashMap<String, Vec<BtfType<'btf>>>);

impl<'btf> NamedTypes<'btf> {
    /// Collects the types with these names.
    pub(super) fn new(btf: &'btf Btf<'_>, names: impl Iterator<Item = String>) -> Self {
        let mut found: HashMap<String, Vec<BtfType<'btf>>> = names.map(|name| (name, Vec::new())).collect();
        // Type 0 is void, which has no name.
        let ids = (1..u32::try_from(btf.len()).unwrap_or(u32::MAX)).map(TypeId::from);
        for named in ids.filter_map(|id| btf.type_by_id::<BtfType<'_>>(id)) {
            let name = named.name().and_then(|name| name.to_str());
            if let Some(types) = name.and_then(|name| found.get_mut(name)) {
                types.push(named);
            }
        }
        Self(found)
    }

    /// The first type of a kind (such as `Struct`) with a name.
    pub(super) fn find<Kind: TryFrom<BtfType<'btf>>>(&self, name: &str) -> Option<Kind> {
        self.0.get(name)?.iter().copied().find_map(|found| Kind::try_from(found).ok())
    }
}
