// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words and addresses that many rows share are written once, in the table `name`; rows have their number.

use std::collections::HashMap;
use std::net::IpAddr;

use rusqlite::{Connection, params};

/// Gives words their numbers.
pub(super) trait Numbers {
    /// The number of a word.
    fn word(&mut self, text: &str) -> rusqlite::Result<i64>;

    /// The number of an address.
    fn address(&mut self, address: IpAddr) -> rusqlite::Result<i64>;

    /// The number of a network namespace: its cookie, its inode and its name.
    fn netns(&mut self, cookie: u64, inode: u32, name: &str) -> rusqlite::Result<i64>;

    /// The number of a word that may not be known.
    fn maybe(&mut self, text: Option<&str>) -> rusqlite::Result<Option<i64>> {
        text.map(|text| self.word(text)).transpose()
    }
}

/// What has a number already. Forget it when a transaction was rolled back, or rows were deleted.
#[derive(Default)]
pub(super) struct Known {
    words: HashMap<String, i64>,
    addresses: HashMap<IpAddr, i64>,
    netns: HashMap<(u64, u32), (String, i64)>,
}

impl Known {
    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }
}

/// The numbers of a database.
pub(super) struct Names<'a> {
    pub(super) database: &'a Connection,
    pub(super) known: &'a mut Known,
}

impl Numbers for Names<'_> {
    fn word(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.known.words.get(text) {
            return Ok(id);
        }
        let mut insertion = self.database.prepare_cached("INSERT OR IGNORE INTO name (text) VALUES (?)")?;
        insertion.execute([text])?;
        let mut query = self.database.prepare_cached("SELECT id FROM name WHERE text = ?")?;
        let id = query.query_one([text], |row| row.get(0))?;
        self.known.words.insert(text.to_owned(), id);
        Ok(id)
    }

    fn address(&mut self, address: IpAddr) -> rusqlite::Result<i64> {
        if let Some(&id) = self.known.addresses.get(&address) {
            return Ok(id);
        }
        let id = self.word(&address.to_string())?;
        self.known.addresses.insert(address, id);
        Ok(id)
    }

    fn netns(&mut self, cookie: u64, inode: u32, name: &str) -> rusqlite::Result<i64> {
        if let Some((_, id)) = self.known.netns.get(&(cookie, inode)).filter(|(known, _)| known == name) {
            return Ok(*id);
        }
        let key = params![cookie.cast_signed(), inode, name];
        let mut insertion = self
            .database
            .prepare_cached("INSERT OR IGNORE INTO netns (cookie, inode, name) VALUES (?, ?, ?)")?;
        insertion.execute(key)?;
        let mut query = self
            .database
            .prepare_cached("SELECT id FROM netns WHERE cookie = ? AND inode = ? AND name = ?")?;
        let id = query.query_one(key, |row| row.get(0))?;
        self.known.netns.insert((cookie, inode), (name.to_owned(), id));
        Ok(id)
    }
}
