// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds sections of our own object, to read its type information and CO-RE records.

/// A 64-bit little-endian ELF file.
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Index and bytes of a section. Elf64_Ehdr: section table at 40, size of an entry at 58, their number at 60, index of the names at 62.
    pub(crate) fn section(&self, wanted: &str) -> Option<(usize, &'a [u8])> {
        let names = self.content(half(self.bytes, 62)?)?;
        (0..half(self.bytes, 60)?).find_map(|index| {
            let name = text(names, word(self.header(index)?, 0)?)?;
            (name == wanted).then(|| Some((index, self.content(index)?)))?
        })
    }

    fn header(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(long(self.bytes, 40)? + index * half(self.bytes, 58)?..)
    }

    /// Elf64_Shdr: offset at 24, size at 32.
    fn content(&self, index: usize) -> Option<&'a [u8]> {
        let header = self.header(index)?;
        self.bytes.get(long(header, 24)?..)?.get(..long(header, 32)?)
    }
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?).into())
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// A zero-terminated string in a table of strings.
pub(crate) fn text(table: &[u8], at: usize) -> Option<&str> {
    std::ffi::CStr::from_bytes_until_nul(table.get(at..)?).ok()?.to_str().ok()
}
