// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about each path from all traced connections of a host: the payload that its subflows carry together, and `disjoint` verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::{NetnsCookie, SubflowId};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Nanos};

use super::history::WINDOW;

/// The pair of addresses of a subflow, in a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Path(NetnsCookie, IpAddr, IpAddr);

impl Path {
    pub(super) fn new(netns: NetnsCookie, local: SocketAddr, remote: SocketAddr) -> Self {
        Self(netns, local.ip(), remote.ip())
    }
}

/// The paths of all traced subflows.
#[derive(Default)]
pub(super) struct Paths {
    /// Path and acknowledged payload of each subflow in the latest snapshot.
    subflows: HashMap<SubflowId, (Path, Bytes)>,
    /// Payload that was acknowledged on each path since the previous snapshot, for the snapshots of the last seconds, the oldest first.
    samples: VecDeque<(Nanos, HashMap<Path, Bytes>)>,
    /// Pairs of paths, the lower one first, with a `disjoint` verdict on two of their subflows in some connection.
    disjoint: BTreeSet<(Path, Path)>,
    /// Paths over which nothing is removed for a minute, and since when: an action reduced the throughput of their link.
    pub(super) reduced: BTreeMap<Path, Nanos>,
}

impl Paths {
    /// Adds a snapshot of all traced connections.
    pub(super) fn update(&mut self, at: Nanos, connections: &[Connection]) {
        let (mut subflows, mut carried) = (HashMap::new(), HashMap::<Path, Bytes>::new());
        for (connection, subflow) in
            connections.iter().flat_map(|all| all.subflows.iter().map(move |s| (all, s)))
        {
            // Bytes from before the first snapshot of a subflow do not count, because it is unknown when they were carried.
            let before = self.subflows.get(&subflow.id).map_or(subflow.bytes_acked, |(_, before)| *before);
            let path = Path::new(connection.id.netns, subflow.local, subflow.remote);
            *carried.entry(path).or_default() += subflow.bytes_acked.since(before);
            subflows.insert(subflow.id, (path, subflow.bytes_acked));
        }
        self.subflows = subflows;
        self.samples.push_back((at, carried));
        // Keep one sample from the beginning of the window or from before it.
        while self.samples.get(1).is_some_and(|(second, _)| at.since(*second) >= WINDOW) {
            self.samples.pop_front();
        }
        self.disjoint = connections.iter().flat_map(disjoint).collect();
    }

    /// The paths of a group, which lead over one link.
    pub(super) fn link(&self, group: &[SubflowId]) -> BTreeSet<Path> {
        group.iter().filter_map(|id| self.subflows.get(id)).map(|(path, _)| *path).collect()
    }

    /// Mean rate of all subflows of some paths since `from`, at most over the window.
    pub(super) fn rate(&self, paths: &BTreeSet<Path>, from: Nanos) -> BitsPerSecond {
        let mut samples = self.samples.iter().skip_while(|(at, _)| *at < from);
        let Some(((first, _), (last, _))) = samples.next().zip(self.samples.back()) else {
            return BitsPerSecond(0);
        };
        let carried = samples.flat_map(|(_, carried)| paths.iter().filter_map(|path| carried.get(path)));
        carried.copied().sum::<Bytes>().per(last.since(*first))
    }

    /// Whether some connection has a `disjoint` verdict on two subflows of these paths, so that not all their subflows share one bottleneck.
    pub(super) fn have_disjoint_verdict(&self, a: Path, b: Path) -> bool {
        [(a.min(b), a.max(b)), (a, a), (b, b)].iter().any(|pair| self.disjoint.contains(pair))
    }
}

/// The pairs of paths of open subflows with a `disjoint` verdict.
fn disjoint(connection: &Connection) -> impl Iterator<Item = (Path, Path)> {
    let path = |id: SubflowId| {
        let open = connection.subflows.iter().find(|subflow| subflow.id == id && subflow.closed.is_none())?;
        Some(Path::new(connection.id.netns, open.local, open.remote))
    };
    let pairs = connection.bottlenecks.iter().flat_map(|found| &found.pairs);
    let disjoint = pairs.filter(|pair| pair.verdict == Verdict::Disjoint);
    disjoint.filter_map(move |pair| {
        let (a, b) = (path(pair.a)?, path(pair.b)?);
        Some((a.min(b), a.max(b)))
    })
}
