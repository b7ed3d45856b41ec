// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types as BTF writes them down (Documentation/bpf/btf.rst of the kernel): finds some by their names and writes them down again, with what
//! they are made of. Pure; whatever it is given, it ends in types or in `None`.
//!
//! A kernel has more than a hundred thousand types, each of which is looked at when mpwatch starts, in guests of the tests on an emulated
//! processor. Hence the plain loops over words: in a development build, iterators would take several times as many instructions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::CStr;

use crate::elf::word;

/// Magic number, version 1, no flags.
const BEGINNING: u32 = 0x0001_eb9f;
const HEADER_BYTES: u32 = 24;
/// Words of a type before those of its kind: name, kind and number of parts, size or another type.
const HEAD: usize = 3;

pub(super) const STRUCT: u32 = 4;
const UNION: u32 = 5;
pub(super) const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const FUNC: u32 = 12;
const ENUM64: u32 = 19;

/// How the types of a kind are written down.
#[derive(Clone, Copy)]
struct Shape {
    /// Words behind the head.
    fixed: usize,
    /// Words of each part behind those: member, enumerator, parameter or variable.
    part: usize,
    /// Whether the first word of a part is its name.
    has_names: bool,
    /// Words that are ids of other types: the first, by how much to go on, and where they end.
    references: (usize, usize, usize),
    /// Whether it consists of those types. Else it points to them: they are kept only if others consist of them.
    consists: bool,
}

impl Shape {
    const fn of(fixed: usize, part: usize) -> Self {
        Self { fixed, part, has_names: part > 0, references: (0, 1, 0), consists: false }
    }

    const fn refers(self, first: usize, step: usize) -> Self {
        Self { references: (first, step, usize::MAX), consists: true, ..self }
    }

    /// Where the ids of other types stand among so many words.
    fn references(&self, words: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, step, end) = self.references;
        (first..end.min(words)).step_by(step)
    }
}

/// By kind, as the kernel numbers them (linux/btf.h). The first is none.
static SHAPES: [Shape; 20] = {
    let none = Shape::of(0, 0);
    let integer = Shape::of(1, 0);
    let one = none.refers(2, 9);
    let pointer = Shape { consists: false, ..one };
    let array = Shape { references: (HEAD, 1, HEAD + 2), consists: true, ..Shape::of(3, 0) };
    let composite = Shape::of(0, 3).refers(HEAD + 1, 3);
    let enumeration = Shape::of(0, 2);
    let forward = none;
    let (typedef, volatile, constant, restrict, function, type_tag) = (one, one, one, one, one, one);
    // What is returned, and parameters.
    let prototype = Shape { consists: false, ..Shape::of(0, 2).refers(2, 2) };
    let variable = integer.refers(2, 9);
    let section = Shape { has_names: false, ..Shape::of(0, 3).refers(HEAD, 3) };
    let floating = none;
    let declaration_tag = variable;
    let wide_enumeration = Shape::of(0, 3);
    [
        none,
        integer,
        pointer,
        array,
        composite,
        composite,
        enumeration,
        forward,
        typedef,
        volatile,
        constant,
        restrict,
        function,
        prototype,
        variable,
        section,
        floating,
        declaration_tag,
        type_tag,
        wide_enumeration,
    ]
};

/// A set of kinds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds(u32);

impl Kinds {
    /// Of what programs read.
    pub(super) const READ: Self = Self(1 << STRUCT | 1 << UNION | 1 << ENUM | 1 << ENUM64 | 1 << TYPEDEF);
    /// Of what tells of tracepoints, iterators and other functions, and of structures with fields that not every kernel has.
    pub(super) const HOOKS: Self = Self(1 << TYPEDEF | 1 << FUNC | 1 << STRUCT);

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, kind: u32) -> bool {
        self.0 >> kind & 1 != 0
    }
}

/// The types of a BTF, by their ids. Type 0 is `void` and not written down.
pub(super) struct Types<'a> {
    words: Cow<'a, [u32]>,
    /// Where each type begins.
    starts: Vec<usize>,
    /// Ends with a zero.
    strings: &'a [u8],
}

impl<'a> Types<'a> {
    pub(super) fn parse(btf: &'a [u8]) -> Option<Self> {
        if word(btf, 0)? != BEGINNING as usize {
            return None;
        }
        let behind = btf.get(word(btf, 4)?..)?;
        let part = |at| behind.get(word(btf, at)?..)?.get(..word(btf, at + 4)?);
        let (types, strings) = (part(8)?, part(16)?);
        if strings.last() != Some(&0) || types.len() % size_of::<u32>() != 0 {
            return None;
        }
        let copied = |_| Cow::Owned(types.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect());
        let words = bytemuck::try_cast_slice(types).map_or_else(copied, Cow::Borrowed);
        let starts = starts(&words)?;
        Some(Self { words, starts, strings })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = usize> + use<> {
        1..self.starts.len()
    }

    pub(super) fn kind(&self, id: usize) -> u32 {
        kind(self.words[self.starts[id] + 1])
    }

    pub(super) fn name(&self, id: usize) -> Option<&'a [u8]> {
        self.text(self.words[self.starts[id]])
    }

    pub(super) fn text(&self, at: u32) -> Option<&'a [u8]> {
        Some(CStr::from_bytes_until_nul(self.strings.get(at as usize..)?).ok()?.to_bytes())
    }

    /// The first words of the parts of a type: of an enumeration the names.
    pub(super) fn parts(&self, id: usize) -> impl Iterator<Item = u32> {
        let at = self.starts[id];
        let info = self.words[at + 1];
        let part = shape(info).part;
        (0..count(info)).map(move |index| self.words[at + HEAD + index * part])
    }

    /// All ids of types that stand anywhere.
    #[cfg(test)]
    pub(super) fn references(&self) -> impl Iterator<Item = u32> {
        self.ids().flat_map(|id| {
            let words = self.words_of(id);
            shape(words[1]).references(words.len()).map(|at| words[at])
        })
    }

    /// All words of a type.
    fn words_of(&self, id: usize) -> &[u32] {
        let rest = &self.words[self.starts[id]..];
        &rest[..length(rest[1])]
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// Of a known kind.
fn shape(info: u32) -> Shape {
    SHAPES[kind(info) as usize]
}

fn count(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Words of a type of a known kind.
fn length(info: u32) -> usize {
    let shape = shape(info);
    HEAD + shape.fixed + shape.part * count(info)
}

/// Where each type begins; `None` if there is one of an unknown kind, or the last one is cut off.
fn starts(words: &[u32]) -> Option<Vec<usize>> {
    let mut starts = vec![0; words.len() / HEAD + 1];
    let room: &mut [usize] = &mut starts;
    let (mut types, mut at) = (1, 0);
    while at < words.len() {
        if words.len() - at < HEAD {
            return None;
        }
        let info = words[at + 1];
        let kind = (info >> 24 & 0x1f) as usize;
        if kind == 0 || kind >= SHAPES.len() {
            return None;
        }
        room[types] = at;
        types += 1;
        at += HEAD + SHAPES[kind].fixed + SHAPES[kind].part * (info & 0xffff) as usize;
    }
    starts.truncate(types);
    (at == words.len()).then_some(starts)
}

/// A name without its flavour: `mptcp_pm_data___extra` stands for the kernel's `mptcp_pm_data`.
pub(super) fn essential(name: &[u8]) -> &[u8] {
    let mut at = name.len().saturating_sub(4);
    while at > 0 {
        let is_flavour = name[at] == b'_' && name[at + 1] == b'_' && name[at + 2] == b'_';
        if is_flavour && name[at - 1] != b'_' && name[at + 3] != b'_' {
            return &name[..at];
        }
        at -= 1;
    }
    name
}

/// A type that was looked for, by its name without a flavour.
pub(super) struct Named<'a> {
    pub(super) id: u32,
    pub(super) kind: u32,
    pub(super) name: &'a [u8],
}

/// Names of types to look for.
pub(super) struct Wanted {
    names: BTreeMap<Vec<u8>, Kinds>,
    /// The kinds of all of them.
    kinds: Kinds,
    /// By a hash of its first bytes, how long a name may be to be one of these, modulo 64: few others begin like them.
    lengths: Vec<u64>,
}

impl Wanted {
    pub(super) fn of(names: BTreeMap<Vec<u8>, Kinds>) -> Self {
        let mut wanted = Self { names: BTreeMap::new(), kinds: Kinds(0), lengths: vec![0; BEGINNINGS] };
        for (name, kinds) in &names {
            wanted.kinds = wanted.kinds.and(*kinds);
            // A short name has other first bytes where a flavour follows.
            for end in [&b"\0"[..], b"___\0"] {
                wanted.lengths[beginning(&[name, end].concat(), 0)] |= 1 << (name.len() % 64);
            }
        }
        Self { names, ..wanted }
    }

    /// All types with one of the names, by their ids; `None` if a name is none.
    pub(super) fn find<'a>(&self, types: &Types<'a>) -> Option<Vec<Named<'a>>> {
        let mut found = Vec::new();
        let (words, starts, strings): (&[u32], &[usize], _) = (&types.words, &types.starts, types.strings);
        let lengths: &[u64] = &self.lengths;
        let kinds = self.kinds.0;
        let mut id = 1;
        while id < starts.len() {
            let (name, info) = (words[starts[id]] as usize, words[starts[id] + 1]);
            if kinds >> (info >> 24 & 0x1f) & 1 != 0 {
                if name >= strings.len() {
                    return None;
                }
                let lengths = lengths[beginning(strings, name)];
                if lengths != 0 {
                    found.extend(self.named(types, id, lengths));
                }
            }
            id += 1;
        }
        Some(found)
    }

    fn named<'a>(&self, types: &Types<'a>, id: usize, lengths: u64) -> Option<Named<'a>> {
        let name = essential(types.name(id)?);
        if lengths >> (name.len() % 64) & 1 == 0 {
            return None;
        }
        let kind = types.kind(id);
        let is_one = self.names.get(name).is_some_and(|kinds| kinds.has(kind));
        is_one.then_some(Named { id: u32::try_from(id).ok()?, kind, name })
    }
}

/// Hashes of the beginnings of names.
const BEGINNINGS: usize = 1 << 13;

/// A hash of the first four bytes of a zero-terminated string.
#[allow(clippy::inline_always, reason = "once for each type")]
#[inline(always)]
fn beginning(strings: &[u8], at: usize) -> usize {
    let mut key = u32::from(strings[at]);
    if key != 0 {
        let second = strings[at + 1];
        key |= u32::from(second) << 8;
        if second != 0 {
            let third = strings[at + 2];
            key |= u32::from(third) << 16;
            if third != 0 {
                key |= u32::from(strings[at + 3]) << 24;
            }
        }
    }
    (key.wrapping_mul(0x9e37_79b1) >> 19) as usize
}

/// Types on their way into another BTF, where they are numbered anew.
pub(super) struct Excerpted<'a> {
    types: &'a Types<'a>,
    /// What is kept, in the order of the new ids.
    kept: Vec<usize>,
    /// The new ids by the old ones; 0: not kept.
    renumbered: Vec<u32>,
}

impl<'a> Excerpted<'a> {
    pub(super) fn new(types: &'a Types<'a>) -> Self {
        Self { types, kept: Vec::new(), renumbered: vec![0; types.starts.len()] }
    }

    /// Keeps a type; `None` if there is none with this id.
    pub(super) fn keep(&mut self, id: u32) -> Option<()> {
        let new = self.renumbered.get_mut(id as usize)?;
        if id != 0 && *new == 0 {
            self.kept.push(id as usize);
            *new = u32::try_from(self.kept.len()).ok()?;
        }
        Some(())
    }

    /// Keeps what the kept types consist of, and so on.
    pub(super) fn keep_parts(&mut self) -> Option<()> {
        let types = self.types;
        let mut done = 0;
        while let Some(&id) = self.kept.get(done) {
            let words = types.words_of(id);
            let shape = shape(words[1]);
            if shape.consists {
                for at in shape.references(words.len()) {
                    self.keep(words[at])?;
                }
            }
            done += 1;
        }
        Some(())
    }

    /// A BTF of what is kept and of one more enumeration.
    pub(super) fn write(&self, name: &[u8], enumerators: &BTreeMap<&[u8], u32>) -> Option<Vec<u8>> {
        let mut out = Out { words: Vec::new(), strings: vec![0] };
        for &id in &self.kept {
            self.write_one(id, &mut out)?;
        }
        let info = ENUM << 24 | u32::from(u16::try_from(enumerators.len()).ok()?);
        let head = [out.add(name)?, info, 4];
        out.words.extend(head);
        for (name, value) in enumerators {
            let enumerator = [out.add(name)?, *value];
            out.words.extend(enumerator);
        }
        out.finish()
    }

    fn write_one(&self, id: usize, out: &mut Out) -> Option<()> {
        let mut words = self.types.words_of(id).to_vec();
        let shape = shape(words[1]);
        for at in shape.references(words.len()) {
            words[at] = *self.renumbered.get(words[at] as usize)?;
        }
        words[0] = out.add(self.types.text(words[0])?)?;
        if shape.has_names {
            for at in (HEAD..words.len()).step_by(shape.part) {
                words[at] = out.add(self.types.text(words[at])?)?;
            }
        }
        out.words.extend(words);
        Some(())
    }
}

/// A BTF that is being written.
struct Out {
    words: Vec<u32>,
    strings: Vec<u8>,
}

impl Out {
    /// Adds a name and tells where it stands.
    fn add(&mut self, name: &[u8]) -> Option<u32> {
        if name.is_empty() {
            return Some(0);
        }
        let at = u32::try_from(self.strings.len()).ok()?;
        self.strings.extend_from_slice(name);
        self.strings.push(0);
        Some(at)
    }

    fn finish(self) -> Option<Vec<u8>> {
        let types: &[u8] = bytemuck::cast_slice(&self.words);
        let (types_bytes, strings_bytes) =
            (u32::try_from(types.len()).ok()?, u32::try_from(self.strings.len()).ok()?);
        let header = [BEGINNING, HEADER_BYTES, 0, types_bytes, types_bytes, strings_bytes];
        Some([bytemuck::cast_slice(&header), types, &self.strings].concat())
    }
}
