// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables `name` and `netns`: text and network namespaces that many rows share. Rows refer to them by number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use rusqlite::{Connection as Database, params};

/// Maximum number of cached texts, of cached addresses and of cached namespaces, which have a few hundred bytes each. A full cache is emptied;
/// its numbers are then looked up in the file.
const MAX_KNOWN: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Netns<'a> {
    pub(crate) cookie: u64,
    pub(crate) inode: u32,
    pub(crate) name: Cow<'a, str>,
}

/// A cache of the numbers of names and namespaces in the file. Empty it after a rollback, and after rows of `name` or `netns` were deleted.
#[derive(Default)]
pub(crate) struct KnownNames {
    /// Words of enumerations, compared by address. Most names are words, and hashing them would take a fifth of the time to write a row.
    words: Vec<(&'static str, i64)>,
    texts: HashMap<String, i64>,
    addresses: HashMap<IpAddr, i64>,
    netns: HashMap<(u64, u32), (String, i64)>,
    /// Number of rows that this process has added to `name` and `netns`, including transactions that were rolled back.
    pub(crate) added: usize,
}

impl KnownNames {
    pub(crate) fn forget(&mut self) {
        *self = Self { added: self.added, ..Self::default() };
    }
}

fn remember<K: Eq + Hash, V>(known: &mut HashMap<K, V>, key: K, value: V) {
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(key, value);
}

/// Finds the number of a text, address or namespace, or adds a row for it.
pub(crate) struct Names<'d> {
    pub(crate) database: &'d Database,
    pub(crate) known: &'d mut KnownNames,
}

impl Names<'_> {
    pub(crate) fn text(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(&number) = self.known.texts.get(text) {
            return Ok(number);
        }
        let add = "INSERT OR IGNORE INTO name (text) VALUES (?)";
        self.known.added += self.database.prepare_cached(add)?.execute([text])?;
        let mut query = self.database.prepare_cached("SELECT id FROM name WHERE text = ?")?;
        let number = query.query_one([text], |row| row.get(0))?;
        remember(&mut self.known.texts, text.to_owned(), number);
        Ok(number)
    }

    /// The number of a word of an enumeration.
    pub(crate) fn word(&mut self, word: &'static str) -> rusqlite::Result<i64> {
        if let Some((_, number)) = self.known.words.iter().find(|(known, _)| std::ptr::eq(*known, word)) {
            return Ok(*number);
        }
        let number = self.text(word)?;
        self.known.words.push((word, number));
        Ok(number)
    }

    pub(crate) fn address(&mut self, address: IpAddr) -> rusqlite::Result<i64> {
        if let Some(&number) = self.known.addresses.get(&address) {
            return Ok(number);
        }
        let number = self.text(&address.to_string())?;
        remember(&mut self.known.addresses, address, number);
        Ok(number)
    }

    pub(crate) fn netns(&mut self, netns: &Netns<'_>) -> rusqlite::Result<i64> {
        let Netns { cookie, inode, name } = netns;
        if let Some((_, number)) = self.known.netns.get(&(*cookie, *inode)).filter(|(known, _)| known == name)
        {
            return Ok(*number);
        }
        let key = params![cookie.cast_signed(), inode, name];
        let add = "INSERT OR IGNORE INTO netns (cookie, inode, name) VALUES (?, ?, ?)";
        self.known.added += self.database.prepare_cached(add)?.execute(key)?;
        let find = "SELECT id FROM netns WHERE cookie = ? AND inode = ? AND name = ?";
        let number = self.database.prepare_cached(find)?.query_one(key, |row| row.get(0))?;
        remember(&mut self.known.netns, (*cookie, *inode), (name.to_string(), number));
        Ok(number)
    }
}

/// The tables `name` and `netns`, for reading.
#[derive(Default)]
pub(crate) struct NameIndex {
    pub(crate) texts: HashMap<i64, String>,
    pub(crate) netns: HashMap<i64, Netns<'static>>,
}

impl NameIndex {
    pub(crate) fn read(database: &Database) -> rusqlite::Result<Self> {
        let mut texts = database.prepare("SELECT id, text FROM name")?;
        let texts = texts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut netns = database.prepare("SELECT id, cookie, inode, name FROM netns")?;
        let netns = netns.query_map([], |row| {
            let cookie: i64 = row.get(1)?;
            let name: String = row.get(3)?;
            let netns = Netns { cookie: cookie.cast_unsigned(), inode: row.get(2)?, name: name.into() };
            Ok((row.get(0)?, netns))
        })?;
        Ok(Self {
            texts: texts.collect::<rusqlite::Result<_>>()?,
            netns: netns.collect::<rusqlite::Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::NAMES;
    use super::*;

    #[test]
    fn a_bounded_number_of_names_is_remembered_and_each_keeps_its_number() {
        let database = Database::open_in_memory().unwrap();
        database.execute_batch(NAMES).unwrap();
        let mut known = KnownNames::default();
        let mut names = Names { database: &database, known: &mut known };
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        let numbers_of = |names: &mut Names<'_>, n: u32| {
            let netns = Netns { cookie: n.into(), inode: 1, name: format!("job-{n}").into() };
            let text = names.text(&format!("/job-{n}.service")).unwrap();
            (text, names.address(address(n)).unwrap(), names.netns(&netns).unwrap())
        };
        database.execute_batch("BEGIN").unwrap();
        let numbers: Vec<_> = (0..15_000).map(|n| numbers_of(&mut names, n)).collect();
        let most = [names.known.texts.len(), names.known.addresses.len(), names.known.netns.len()];
        assert!(most.iter().all(|&count| count <= MAX_KNOWN), "{most:?}");
        assert_eq!(names.known.added, 3 * 15_000);
        for (n, expected) in (0..).zip(numbers) {
            assert_eq!(numbers_of(&mut names, n), expected);
        }
        assert_eq!(names.known.added, 3 * 15_000, "numbers that left the cache are found in the file");
    }
}
