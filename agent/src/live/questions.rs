// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out why connections have one path or fell back, while they are traced. A namespace is read only if a connection in it needs an answer.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use mpwatch_ebpf::namespace::{self, Namespace};
use mpwatch_engine::why::cause_of;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::why::answer::Explanation;

use crate::why;

/// Maximum number of waiting connections; each takes about 3 kB. Further connections wait in the tracker.
const MAX_WAITING: usize = 1_000;
/// Maximum number of peers whose connections are answered at a tick.
const MAX_PEERS: usize = 64;
/// An answer is followed by a pause of this many times its duration, so that answers take at most 1 % of a CPU.
const PAUSE_FACTOR: u32 = 100;

/// Connections that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: VecDeque<Connection>,
    /// When the next answer may begin. `None`: at once.
    not_before: Option<Instant>,
    /// The namespaces at the last search.
    namespaces: Vec<Namespace>,
}

impl Questions {
    pub(crate) fn free(&self) -> usize {
        MAX_WAITING.saturating_sub(self.waiting.len())
    }

    pub(crate) fn add(&mut self, connections: Vec<Connection>) {
        self.waiting.extend(connections);
    }

    /// Answers for connections of one namespace, if no pause is due. There is no answer without the right to enter the namespace.
    pub(crate) fn answer(&mut self) -> Vec<Explanation> {
        let begin = Instant::now();
        let may_begin = self.not_before.is_none_or(|pause| pause <= begin);
        let Some(inode) = self.waiting.front().map(|first| first.netns_inode).filter(|_| may_begin) else {
            return Vec::new();
        };
        let of_namespace = self.waiting.iter().filter(|waiting| waiting.netns_inode == inode);
        let peers: BTreeSet<IpAddr> = of_namespace.filter_map(peer).take(MAX_PEERS).collect();
        let is_next = |waiting: &Connection| {
            waiting.netns_inode == inode && peer(waiting).is_none_or(|peer| peers.contains(&peer))
        };
        let (next, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_next);
        self.waiting.extend(waiting);
        let answers = self.explain(inode, &peers.iter().copied().collect::<Vec<_>>(), &next);
        let took = begin.elapsed();
        self.not_before = Some(begin + took + took.saturating_mul(PAUSE_FACTOR));
        answers
    }

    fn explain(&mut self, inode: u32, peers: &[IpAddr], connections: &[Connection]) -> Vec<Explanation> {
        let is_here = |found: &&Namespace| found.inode == inode && found.exists();
        if !self.namespaces.iter().any(|found| is_here(&found)) {
            self.namespaces = namespace::all();
        }
        let found = self.namespaces.iter().find(is_here);
        let Some(here) = found.and_then(|found| why::read_for(found, peers).ok()) else { return Vec::new() };
        let explain = |connection: &Connection| Explanation {
            connection: connection.id,
            cause: cause_of(&here, connection),
        };
        connections.iter().map(explain).collect()
    }
}

fn peer(connection: &Connection) -> Option<IpAddr> {
    connection.remote.map(|remote| remote.ip())
}
