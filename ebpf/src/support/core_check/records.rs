// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads from `.BTF.ext` which instruction of our object reads which kernel field. libbpf and aya-obj do not expose these CO-RE records.

use libbpf_rs::btf::types::{Array, Composite};
use libbpf_rs::btf::{Btf, BtfType, TypeId};

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

/// `enum bpf_core_relo_kind` (linux/bpf.h): kinds up to FIELD_LAST concern fields. The other kinds in our object request the ids of structures,
/// for reads in place (read.bpf.h).
const FIELD_EXISTS: usize = 2;
const FIELD_LAST: usize = 5;

/// Offset of the kind in `struct bpf_core_relo`.
const KIND: usize = 12;
/// Offset of the constant in an instruction.
const CONSTANT: usize = 4;

/// One instruction that depends on the layout of a kernel structure.
#[derive(Debug)]
pub struct Access {
    /// Index of the ELF section of the instruction.
    pub section: usize,
    /// Offset of the instruction in the section, in bytes.
    pub offset: usize,
    /// Whether the instruction checks that the field exists, instead of reading it.
    pub is_guard: bool,
    /// Offsets in the object of the record's kind and of the instruction's constant, in bytes.
    pub at: (usize, usize),
    /// Structure and field, such as `mptcp_sock.pm.server_side`.
    pub field: String,
}

/// All accesses of an object. `None`: the object is not a 64-bit little-endian ELF file with BTF.
pub fn accesses(object: &[u8]) -> Option<Vec<Access>> {
    let elf = ElfFile64::<LittleEndian>::parse(object).ok()?;
    let (ext, btf) =
        (elf.section_by_name(".BTF.ext")?.data().ok()?, elf.section_by_name(".BTF")?.data().ok()?);
    let strings = btf.get(word(btf, 4)? + word(btf, 16)?..)?;
    let types = Btf::from_raw("mpwatch", object).ok()??;
    // struct btf_ext_header: the CO-RE part follows the parts of functions and lines. It begins with the size of a record.
    let start = word(ext, 4)? + word(ext, 24)?;
    let mut rest = ext.get(start..start + word(ext, 28)?)?;
    let record_bytes = word(rest, 0).filter(|bytes| *bytes > 0)?;
    rest = rest.get(4..)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let section = elf.section_by_name(text(strings, word(rest, 0)?)?)?;
        // `None`: the section has no bytes in the file.
        let code = usize::try_from(section.file_range()?.0).ok()?;
        let place = |part: &[u8]| part.as_ptr() as usize - object.as_ptr() as usize;
        let (records, behind) = rest.get(8..)?.split_at_checked(word(rest, 4)? * record_bytes)?;
        for record in records.chunks_exact(record_bytes) {
            if word(record, KIND)? > FIELD_LAST {
                continue;
            }
            let access = access(record, section.index().0, strings, &types)?;
            let at = (place(record) + KIND, code.checked_add(access.offset)? + CONSTANT);
            found.push(Access { at, ..access });
        }
        rest = behind;
    }
    Some(found)
}

/// Reads one `struct bpf_core_relo`.
fn access(record: &[u8], section: usize, strings: &[u8], types: &Btf<'_>) -> Option<Access> {
    let root = types.type_by_id::<BtfType<'_>>(TypeId::from(u32::try_from(word(record, 4)?).ok()?))?;
    let path = text(strings, word(record, 8)?)?;
    let field = field_name(types, root, path)?;
    let is_guard = word(record, KIND)? == FIELD_EXISTS;
    Some(Access { section, offset: word(record, 0)?, is_guard, at: (0, 0), field })
}

/// Follows an access path such as `0:3:1`: the first number indexes the pointer, later numbers index members or elements.
fn field_name<'a>(types: &'a Btf<'a>, root: BtfType<'a>, path: &str) -> Option<String> {
    let mut name = type_name(&root);
    let mut at = root.skip_mods_and_typedefs();
    for step in path.split(':').skip(1) {
        let index: usize = step.parse().ok()?;
        let next = if let Ok(array) = Array::try_from(at) {
            name = format!("{name}[{index}]");
            array.contained_type()
        } else {
            let member = Composite::try_from(at).ok()?.get(index)?;
            if let Some(member) = member.name {
                name = format!("{name}.{}", member.to_string_lossy());
            }
            types.type_by_id::<BtfType<'_>>(member.ty)?
        };
        at = next.skip_mods_and_typedefs();
    }
    Some(name)
}

/// Name of a type without its CO-RE flavour: `mptcp_pm_data___extra` means the kernel's `mptcp_pm_data`.
fn type_name(named: &BtfType<'_>) -> String {
    let name = named.name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split("___").next().unwrap_or_default().to_owned()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// A zero-terminated string in a table of strings.
fn text(table: &[u8], at: usize) -> Option<&str> {
    std::ffi::CStr::from_bytes_until_nul(table.get(at..)?).ok()?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_object_names_the_fields_that_it_reads() {
        let accesses = accesses(crate::abi::OBJECT).unwrap();
        let names: Vec<_> = accesses.iter().map(|access| access.field.as_str()).collect();
        for expected in [
            "tcp_sock.srtt_us",
            "tcp_sock.rtt_min.s[0].v",
            "mptcp_sock.pm.remote.addr6",
            "sock.__sk_common.skc_state",
        ] {
            assert!(names.contains(&expected), "{expected} is not in {names:?}");
        }
        assert!(accesses.iter().any(|access| access.is_guard && access.field == "mptcp_sock.notsent_lowat"));
    }

    #[test]
    fn bytes_that_are_not_an_object_have_no_fields() {
        assert!(accesses(b"").is_none());
        assert!(accesses(&crate::abi::OBJECT[..100]).is_none());
    }
}
