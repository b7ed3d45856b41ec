// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a connection by the ids in a record: the cookie of its socket, its token, or one of its subflows.

use std::collections::{HashMap, HashSet};

use mpwatch_model::capacity::{shrink_map, shrink_set};
use mpwatch_model::id::{ConnectionId, NetnsCookie, SocketCookie, SubflowId, Token};

use super::flow::Flow;

/// Internal number of a connection, in the order of first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) serial: u64,
}

#[derive(Default)]
pub(super) struct Index {
    next: u64,
    /// The latest connection of each MPTCP socket, with its token.
    cookies: HashMap<SocketCookie, (Key, Token)>,
    tokens: HashMap<(NetnsCookie, Token), Key>,
    pub(super) subflows: HashMap<SubflowId, Key>,
    pub(super) forgotten: HashSet<ConnectionId>,
}

/// `None` for cookie 0: the kernel has not assigned a cookie yet.
fn known(cookie: SocketCookie) -> Option<SocketCookie> {
    (cookie.0 != 0).then_some(cookie)
}

impl Index {
    pub(super) fn new_key(&mut self) -> Key {
        self.next += 1;
        Key { serial: self.next }
    }

    /// The latest connection of an MPTCP socket.
    pub(super) fn by_cookie(&self, cookie: SocketCookie) -> Option<Key> {
        self.cookies.get(&known(cookie)?).map(|(key, _)| *key)
    }

    /// The connection with this token on this MPTCP socket. Token or cookie may be unknown. A socket may be connected again (AF_UNSPEC): it
    /// keeps its cookie and gets another token, while records of the earlier connection may still arrive.
    pub(super) fn by_socket(&self, netns: NetnsCookie, token: Token, cookie: SocketCookie) -> Option<Key> {
        let of_token = token.known().and_then(|token| self.tokens.get(&(netns, token)).copied());
        let of_cookie = || {
            let (key, latest) = self.cookies.get(&known(cookie)?)?;
            let is_other = latest.known().zip(token.known()).is_some_and(|(latest, token)| latest != token);
            (!is_other).then_some(*key)
        };
        of_token.or_else(of_cookie)
    }

    pub(super) fn by_id(&self, id: ConnectionId) -> Option<Key> {
        self.by_socket(id.netns, id.token, id.birth)
    }

    pub(super) fn by_subflow(&self, subflow: SubflowId) -> Option<Key> {
        self.subflows.get(&subflow).copied()
    }

    /// Adds the current cookie and token of a connection, and a subflow.
    pub(super) fn insert(&mut self, key: Key, flow: &Flow, subflow: Option<SubflowId>) {
        let id = flow.id();
        if let Some(cookie) = known(flow.msk_cookie()) {
            let latest = self.cookies.entry(cookie).or_insert((key, id.token));
            if latest.0.serial <= key.serial {
                *latest = (key, id.token);
            }
        }
        if let Some(token) = id.token.known() {
            self.tokens.insert((id.netns, token), key);
        }
        if let Some(subflow) = subflow {
            self.subflows.insert(subflow, key);
        }
    }

    pub(super) fn forget(&mut self, flow: &Flow) {
        let (id, key) = (flow.id(), Key { serial: flow.serial });
        if self.by_cookie(flow.msk_cookie()) == Some(key) {
            self.cookies.remove(&flow.msk_cookie());
        }
        if self.tokens.get(&(id.netns, id.token)) == Some(&key) {
            self.tokens.remove(&(id.netns, id.token));
        }
        for subflow in flow.subflow_ids() {
            self.subflows.remove(&subflow);
        }
        self.forgotten.insert(id);
    }

    pub(super) fn clear_forgotten(&mut self) {
        self.forgotten.clear();
        shrink_set(&mut self.forgotten);
        shrink_map(&mut self.cookies);
        shrink_map(&mut self.tokens);
        shrink_map(&mut self.subflows);
    }
}
