// SPDX-License-Identifier: MIT OR Apache-2.0
//! An excerpt of the kernel's BTF: the types that a start asks for, and what they are made of. For every structure that our programs
//! read, libbpf looks through all types of the BTF that it is given, a hundred thousand in a kernel's own: half of what a start
//! computed. Decides what is in the excerpt and hands it to libbpf; `types` knows the format.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::btf::Btf;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::elf::Elf;
use crate::support::{self, VMLINUX_BTF};

mod types;

use types::{ENUM, Excerpted, Kinds, Named, STRUCT, Types, Wanted, essential};

/// In our object's BTF the enumeration of the structures whose ids the programs need, and what stands before each name (kernel.bpf.h).
const IDS: &[u8] = b"mpw_kernel_id";
const ID_OF: &[u8] = b"id_of_";
/// What the programs need the ids for.
const CAST: &str = "bpf_rdonly_cast";

/// The excerpt of the running kernel's BTF.
pub(crate) struct Excerpt {
    file: File,
    /// As libbpf read it.
    pub(crate) btf: Btf<'static>,
}

impl Excerpt {
    /// `None`: there is no BTF, or it has something that we do not know, or the excerpt cannot be handed on. libbpf then reads the whole
    /// BTF, which takes longer, and the programs read by calls what they would have read in place.
    pub(crate) fn of_this_kernel() -> Option<Self> {
        let excerpt = of(&fs::read(VMLINUX_BTF).ok()?)?;
        let mut file = File::from(memory_file().ok()?);
        file.write_all(&excerpt).ok()?;
        let btf = Btf::from_path(path(&file)).ok()?;
        Some(Self { file, btf })
    }

    /// A file in memory has one nevertheless, for this process, as long as the excerpt is kept.
    pub(crate) fn path(&self) -> PathBuf {
        path(&self.file)
    }
}

/// Some systems want to be told that it will not be executed, which kernels before 6.3 do not understand.
fn memory_file() -> nix::Result<OwnedFd> {
    let create = |flags| memfd_create(c"mpwatch-btf", MFdFlags::MFD_CLOEXEC | flags);
    create(MFdFlags::from_bits_retain(nix::libc::MFD_NOEXEC_SEAL)).or_else(|_| create(MFdFlags::empty()))
}

fn path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// The excerpt of a kernel's raw BTF; `None`: it is damaged or has something that we do not know.
pub(crate) fn of(kernel: &[u8]) -> Option<Vec<u8>> {
    let (_, own) = Elf::of(crate::OBJECT).section(".BTF")?;
    let own = Types::parse(own)?;
    let kernel = Types::parse(kernel)?;
    let found = wanted(&own)?.find(&kernel)?;
    let mut excerpt = Excerpted::new(&kernel);
    for one in &found {
        excerpt.keep(one.id)?;
    }
    excerpt.keep_parts()?;
    excerpt.write(IDS, &ids(&own, &found)?)
}

/// Every name that our object has for something in the kernel, and those by which a kernel tells what it can do.
fn wanted(own: &Types<'_>) -> Option<Wanted> {
    let mut names: BTreeMap<Vec<u8>, Kinds> = BTreeMap::new();
    for id in own.ids() {
        if Kinds::READ.has(own.kind(id)) && !own.name(id)?.is_empty() {
            names.insert(essential(own.name(id)?).to_vec(), Kinds::READ);
        }
    }
    for name in support::type_names().chain([CAST.to_owned()]) {
        let kinds = names.entry(name.into_bytes()).or_insert(Kinds::HOOKS);
        *kinds = kinds.and(Kinds::HOOKS);
    }
    Some(Wanted::of(names))
}

/// The names that the programs have for ids in the kernel's BTF, and the ids. Without a name are structures that the kernel lacks or has several
/// of, and all of them if it cannot cast: an id of 0 would be one, that of `void`.
fn ids<'a>(own: &Types<'a>, found: &[Named<'_>]) -> Option<BTreeMap<&'a [u8], u32>> {
    let mut ids = BTreeMap::new();
    if !found.iter().any(|one| one.name == CAST.as_bytes()) {
        return Some(ids);
    }
    for list in own.ids().filter(|id| own.kind(*id) == ENUM) {
        if own.name(list)? != IDS {
            continue;
        }
        for enumerator in own.parts(list) {
            let enumerator = essential(own.text(enumerator)?);
            let name = enumerator.strip_prefix(ID_OF)?;
            let mut structures = found.iter().filter(|one| one.kind == STRUCT && one.name == name);
            if let (Some(one), None) = (structures.next(), structures.next()) {
                ids.insert(enumerator, one.id);
            }
        }
    }
    Some(ids)
}

/// The BTF of the kernels that the offline tests know, and of the running one.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub(crate) fn kernels() -> Vec<Vec<u8>> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/btf");
    let stored = ["6.1", "6.12", "7.2"].map(|series| {
        zstd::decode_all(fs::File::open(format!("{fixtures}/{series}.btf.zst")).unwrap()).unwrap()
    });
    stored.into_iter().chain(fs::read(VMLINUX_BTF)).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use libbpf_rs::btf::types::{Array, Composite, Enum, MemberAttr, Ptr, Struct};
    use libbpf_rs::btf::{BtfType, TypeId};
    use proptest::prelude::*;

    use super::*;

    fn own() -> &'static [u8] {
        Elf::of(crate::OBJECT).section(".BTF").unwrap().1
    }

    /// As libbpf reads it, which refuses ids and names that are out of range.
    fn read(btf: &[u8]) -> Btf<'static> {
        let mut file = File::from(memory_file().unwrap());
        file.write_all(btf).unwrap();
        Btf::from_path(path(&file)).unwrap()
    }

    fn types<'a>(btf: &'a Btf<'_>) -> impl Iterator<Item = BtfType<'a>> {
        (1..u32::try_from(btf.len()).unwrap()).map(|id| btf.type_by_id(TypeId::from(id)).unwrap())
    }

    fn name_of(of: &BtfType<'_>) -> String {
        of.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// What a type consists of: where which member stands, down to numbers and pointers.
    fn describe(btf: &Btf<'_>, of: BtfType<'_>, out: &mut String) {
        let of = of.skip_mods_and_typedefs();
        if let Ok(array) = Array::try_from(of) {
            write!(out, "[{}]", array.capacity()).unwrap();
            describe(btf, array.contained_type(), out);
        } else if let Ok(composite) = Composite::try_from(of) {
            write!(out, "{} {{", name_of(&of)).unwrap();
            for member in composite.iter() {
                let place = match member.attr {
                    MemberAttr::Normal { offset } => (offset, 0),
                    MemberAttr::BitField { size, offset } => (offset, size),
                };
                write!(out, "{:?} {place:?} ", member.name).unwrap();
                describe(btf, btf.type_by_id(member.ty).unwrap(), out);
            }
            out.push('}');
        } else if Ptr::try_from(of).is_ok() {
            out.push('*');
        } else {
            write!(out, "{:?} {};", of.kind(), name_of(&of)).unwrap();
        }
    }

    /// All structures and unions with names that our object has too, as often as they are there.
    fn structures(btf: &Btf<'_>) -> Vec<String> {
        let own = Types::parse(own()).unwrap();
        let ours: Vec<_> = own
            .ids()
            .filter(|id| Kinds::READ.has(own.kind(*id)))
            .map(|id| essential(own.name(id).unwrap()))
            .collect();
        let is_ours = |of: &BtfType<'_>| ours.contains(&essential(name_of(of).as_bytes()));
        let composite = types(btf).filter(BtfType::is_composite).filter(|of| of.name().is_some());
        let mut described: Vec<_> = composite
            .filter(is_ours)
            .map(|of| {
                let mut text = format!("{:?} ", of.kind());
                describe(btf, of, &mut text);
                text
            })
            .collect();
        described.sort();
        described
    }

    #[test]
    fn the_excerpt_has_every_structure_of_ours_as_the_kernel_has_it() {
        for kernel in kernels() {
            let excerpt = of(&kernel).unwrap();
            assert!(excerpt.len() < 1 << 18, "{} bytes", excerpt.len());
            let (whole, excerpt) = (structures(&read(&kernel)), structures(&read(&excerpt)));
            assert!(whole.iter().any(|one| one.starts_with("Struct mptcp_sock {")) && whole.len() > 20);
            assert_eq!(whole.len(), excerpt.len());
            for (whole, excerpt) in whole.iter().zip(&excerpt) {
                assert_eq!(whole, excerpt);
            }
        }
    }

    #[test]
    fn the_excerpt_tells_the_same_facts() {
        for kernel in kernels() {
            let facts = |btf: &[u8]| support::KernelSupport::of_btf(&read(btf));
            assert_eq!(facts(&of(&kernel).unwrap()), facts(&kernel));
        }
    }

    #[test]
    fn the_excerpt_names_ids_of_the_kernel_where_it_can_cast() {
        let mut casting = 0;
        for kernel in kernels() {
            let excerpt = read(&of(&kernel).unwrap());
            let whole = read(&kernel);
            let list = excerpt.type_by_name::<Enum<'_>>("mpw_kernel_id").unwrap();
            let ids: Vec<_> = list.iter().collect();
            let can_cast = types(&whole).any(|of| name_of(&of) == CAST);
            casting += usize::from(can_cast);
            assert_eq!(!ids.is_empty(), can_cast);
            for id in &ids {
                let name = id.name.unwrap().to_str().unwrap().strip_prefix("id_of_").unwrap();
                let structure = whole.type_by_name::<Struct<'_>>(name).unwrap();
                assert_eq!(TypeId::from(u32::try_from(id.value).unwrap()), structure.type_id(), "{name}");
            }
            let has_sockets = ids.iter().any(|id| id.name.unwrap() == "id_of_mptcp_sock");
            assert_eq!(has_sockets, can_cast);
        }
        assert!((2..kernels().len()).contains(&casting), "6.1 cannot, 6.12 and 7.2 can");
    }

    #[test]
    fn what_is_not_understood_has_no_excerpt() {
        assert!(of(own()).is_some());
        assert!(of(&[]).is_none());
        assert!(of(crate::OBJECT).is_none());
        // Kind 31 of the first type.
        let mut unknown = own().to_vec();
        unknown[24 + 7] |= 31;
        assert!(of(&unknown).is_none());
    }

    #[test]
    fn a_flavour_stands_for_the_type_without_it() {
        for (name, stands_for) in [
            ("mptcp_pm_data___extra", "mptcp_pm_data"),
            ("bpf_iter__tcp", "bpf_iter__tcp"),
            ("a___b___c", "a___b"),
            ("____a", "____a"),
            ("___a", "___a"),
            ("a____b", "a____b"),
            ("a___", "a___"),
            ("a", "a"),
            ("", ""),
        ] {
            assert_eq!(essential(name.as_bytes()), stands_for.as_bytes(), "{name}");
        }
    }

    proptest! {
        /// Whatever is written comes from what was read, so libbpf may refuse it, but nobody panics.
        #[test]
        fn damaged_btf_never_panics(
            cut in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
        ) {
            let mut btf = own().to_vec();
            for (at, byte) in changes {
                let at = at.index(btf.len());
                btf[at] = byte;
            }
            of(&btf[..cut.index(btf.len())]);
            if let Some(excerpt) = of(&btf) {
                let excerpt = Types::parse(&excerpt).unwrap();
                prop_assert!(excerpt.references().all(|id| (id as usize) <= excerpt.ids().count()));
            }
        }
    }
}
