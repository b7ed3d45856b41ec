// SPDX-License-Identifier: MIT OR Apache-2.0
//! What many rows have in common is written once: words and addresses in the table `name`, sets of them in `connection_kind` and
//! `subflow_kind`; rows have their number.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use rusqlite::{Connection, params};

use super::row::{ConnectionKind, Row, SubflowKind, insert, insertion, select};

/// Gives words their numbers.
pub(super) trait Numbers {
    /// The number of a word.
    fn word(&mut self, text: &str) -> rusqlite::Result<i64>;

    /// The number of an address.
    fn address(&mut self, address: IpAddr) -> rusqlite::Result<i64>;

    /// The number of a network namespace: its cookie, its inode and its name.
    fn netns(&mut self, cookie: u64, inode: u32, name: &str) -> rusqlite::Result<i64>;

    /// The number of what a connection has in common with others.
    fn of_connection(&mut self, kind: ConnectionKind) -> rusqlite::Result<i64>;

    /// The number of what a subflow has in common with others.
    fn of_subflow(&mut self, kind: SubflowKind) -> rusqlite::Result<i64>;

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
    /// `None`: what the file has was not looked at yet.
    connections: Option<HashMap<ConnectionKind, i64>>,
    subflows: Option<HashMap<SubflowKind, i64>>,
}

impl Known {
    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        let of_kinds = [
            self.connections.as_ref().map_or(0, HashMap::len),
            self.subflows.as_ref().map_or(0, HashMap::len),
        ];
        self.words.len() + of_kinds.iter().sum::<usize>()
    }
}

/// The numbers of a database.
pub(super) struct Names<'a> {
    pub(super) database: &'a Connection,
    pub(super) known: &'a mut Known,
}

/// A row that has a number of its own, by which others name it.
pub(super) trait Numbered: Row + Clone + Eq + Hash {
    /// Where the number is.
    fn number(&mut self) -> &mut Option<i64>;
}

impl Numbered for ConnectionKind {
    fn number(&mut self) -> &mut Option<i64> {
        &mut self.id
    }
}

impl Numbered for SubflowKind {
    fn number(&mut self) -> &mut Option<i64> {
        &mut self.id
    }
}

/// All rows of such a table, without their numbers, and these.
pub(super) fn all<K: Numbered>(
    database: &Connection,
) -> rusqlite::Result<impl Iterator<Item = (K, i64)> + use<K>> {
    let mut query = database.prepare(&select::<K>(""))?;
    let rows = query.query_map([], K::read)?.collect::<rusqlite::Result<Vec<K>>>()?;
    Ok(rows.into_iter().filter_map(|mut row| {
        let number = row.number().take()?;
        Some((row, number))
    }))
}

/// There is one writer, so what is not among those that it knows is not in the file.
fn number_of<K: Numbered>(
    database: &Connection,
    known: &mut Option<HashMap<K, i64>>,
    kind: K,
) -> rusqlite::Result<i64> {
    let known = match known {
        Some(known) => known,
        none => none.insert(all(database)?.collect()),
    };
    if let Some(&id) = known.get(&kind) {
        return Ok(id);
    }
    insert(&mut *insertion::<K>(database)?, &kind)?;
    let id = database.last_insert_rowid();
    known.insert(kind, id);
    Ok(id)
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

    fn of_connection(&mut self, kind: ConnectionKind) -> rusqlite::Result<i64> {
        number_of(self.database, &mut self.known.connections, kind)
    }

    fn of_subflow(&mut self, kind: SubflowKind) -> rusqlite::Result<i64> {
        number_of(self.database, &mut self.known.subflows, kind)
    }
}
