// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's MIB counters of MPTCP. The kernel keeps them per network namespace (`MPTcpExt` in `/proc/PID/net/netstat`), not per subflow. They
//! are read through a process in the namespace, which needs no capability. The counters of namespaces that exist at the start are read once by
//! entering them; a new namespace starts at zero. So events are counted even if the process that caused them ends before the next reading.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::iter;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::namespace;
use mpwatch_model::kernel::event::KernelEvent;

/// Maximum number of readings at a tick (namespaces take turns), and of immediate readings between two ticks. A reading takes about 80 us.
const MAX_READS: usize = 16;
/// Maximum number of namespaces. Beyond it, namespaces without a known process are forgotten.
const MAX_NAMESPACES: usize = 8_192;
/// The only value of `MPTcpExt` that can decrease: the number of open connections. Not a counter, so no total has it.
const GAUGE: &str = "MPCurrEstab";

struct WatchedNamespace {
    /// A process in the namespace. `None`: no running process is known.
    pid: Option<u32>,
    /// The counters at the last reading, in the order of the kernel; empty: all are 0. `None`: unknown, so the next reading counts nothing.
    last: Option<Box<[u64]>>,
}

/// Sums the counters of mpwatch's own namespace and of the namespaces of owners of connections.
#[derive(Default)]
pub(crate) struct Mib {
    /// `/proc`, or its replacement in tests.
    root: PathBuf,
    /// The namespaces by inode.
    namespaces: HashMap<u32, WatchedNamespace>,
    /// Inodes of the namespaces with a known process, in the order in which they are read.
    turns: VecDeque<u32>,
    /// Whether a namespace was forgotten. A namespace that seems new may then have older counts.
    has_forgotten: bool,
    /// Immediate readings since the latest tick.
    immediate: usize,
    /// The increases by name, for example `MPJoinSynTx`. Zeros are included, so that Prometheus sees the first increase.
    total: BTreeMap<String, u64>,
}

impl Mib {
    /// Counts from now on. `existing`: the namespaces of this machine.
    pub(crate) fn start(existing: &[namespace::Namespace]) -> Self {
        let mut mib = Self::new(Path::new("/proc"));
        for found in existing {
            // Needs CAP_SYS_ADMIN.
            let netstat = namespace::inside(found, || fs::read_to_string("/proc/thread-self/net/netstat"));
            let last = netstat.ok().as_deref().and_then(counters).map(|now| values(&now));
            mib.namespaces.insert(found.inode, WatchedNamespace { pid: None, last });
        }
        let pid = std::process::id();
        if let Some(inode) = mib.inode(pid) {
            mib.add(inode, pid);
        }
        mib
    }

    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// Notes the namespace of a connection and a process that may be in it.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        if let KernelEvent::Connection(record) = event
            && let Some(owner) = record.owner
        {
            self.add(record.netns_inode, owner.pid);
        }
    }

    /// Adds a process. If its namespace had no known process, the counters are read at once, because the process may end before the next tick.
    fn add(&mut self, inode: u32, pid: u32) {
        if self.namespaces.len() >= MAX_NAMESPACES && !self.namespaces.contains_key(&inode) {
            self.namespaces.retain(|_, namespace| namespace.pid.is_some());
            self.has_forgotten = true;
            if self.namespaces.len() >= MAX_NAMESPACES {
                return;
            }
        }
        let last = (!self.has_forgotten).then(Box::default);
        let namespace = self.namespaces.entry(inode).or_insert(WatchedNamespace { pid: None, last });
        if namespace.pid.is_none() && self.immediate < MAX_READS {
            namespace.pid = Some(pid);
            self.immediate += 1;
            self.read_one(inode);
        }
    }

    /// Reads the namespaces whose turn it is. The totals never decrease.
    pub(crate) fn read(&mut self) -> &BTreeMap<String, u64> {
        self.immediate = 0;
        for _ in 0..self.turns.len().min(MAX_READS) {
            let Some(inode) = self.turns.pop_front() else { break };
            self.read_one(inode);
        }
        &self.total
    }

    fn read_one(&mut self, inode: u32) {
        let pid = self.namespaces.get(&inode).and_then(|namespace| namespace.pid);
        let netstat = pid.and_then(|pid| self.netstat(inode, pid));
        let Some(namespace) = self.namespaces.get_mut(&inode) else { return };
        let Some(now) = netstat.as_deref().and_then(counters) else {
            // The process has ended or has changed its namespace. The next connection may have another process.
            namespace.pid = None;
            return;
        };
        self.turns.push_back(inode);
        let Some(mut before) = namespace.last.replace(values(&now)) else { return };
        if before.iter().zip(&now).any(|(before, (_, now))| now < before) {
            // A new namespace has the inode of a removed one.
            before = Box::default();
        }
        for ((name, now), before) in now.into_iter().zip(before.into_iter().chain(iter::repeat(0))) {
            match self.total.get_mut(name) {
                Some(total) => *total += now - before,
                None => drop(self.total.insert(name.to_owned(), now - before)),
            }
        }
    }

    /// The text with the counters of a namespace, read through a process. `None`: the process is not, or no longer, in the namespace.
    fn netstat(&self, inode: u32, pid: u32) -> Option<String> {
        let netstat = fs::read_to_string(self.root.join(format!("{pid}/net/netstat"))).ok()?;
        (self.inode(pid)? == inode).then_some(netstat)
    }

    fn inode(&self, pid: u32) -> Option<u32> {
        let metadata = fs::metadata(self.root.join(format!("{pid}/ns/net"))).ok()?;
        u32::try_from(metadata.ino()).ok()
    }
}

/// Parses MPTCP's counters. `None`: there are none.
fn counters(netstat: &str) -> Option<Vec<(&str, u64)>> {
    let (_, counters) = groups(netstat).find(|(group, _)| *group == "MPTcpExt")?;
    Some(counters.filter(|(name, _)| *name != GAUGE).collect())
}

fn values(counters: &[(&str, u64)]) -> Box<[u64]> {
    counters.iter().map(|(_, value)| *value).collect()
}

/// Parses pairs of lines: `Group: name name ...`, then `Group: number number ...`.
pub(crate) fn groups(text: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = (&str, u64)>)> {
    let mut lines = text.lines().map(|line| line.split_once(": "));
    let pairs = iter::from_fn(move || Some((lines.next()?, lines.next()?)));
    pairs.filter_map(|(names, values)| {
        let ((group, names), (_, values)) = (names?, values?);
        let values = names.split(' ').zip(values.split(' '));
        Some((group, values.filter_map(|(name, value)| Some((name, value.parse().ok()?)))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace with counters of sent joins, received joins and open connections. Returns its inode.
    fn write(root: &Path, pid: u32, [sent, received, open]: [u64; 3]) -> u32 {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("net")).unwrap();
        fs::create_dir_all(folder.join("ns")).unwrap();
        let text = format!(
            "TcpExt: A\nTcpExt: 1\nMPTcpExt: JoinTx MPCurrEstab JoinRx X\nMPTcpExt: {sent} {open} {received} 0\n"
        );
        fs::write(folder.join("net/netstat"), text).unwrap();
        fs::write(folder.join("ns/net"), "").unwrap();
        u32::try_from(fs::metadata(folder.join("ns/net")).unwrap().ino()).unwrap()
    }

    fn mib() -> (tempfile::TempDir, Mib) {
        let root = tempfile::tempdir().unwrap();
        let mib = Mib::new(root.path());
        (root, mib)
    }

    /// The totals of the joins. The gauge must have no total.
    fn joins(mib: &mut Mib) -> [Option<u64>; 2] {
        let totals = mib.read();
        assert!(totals.is_empty() || totals.keys().eq(["JoinRx", "JoinTx", "X"]), "{totals:?}");
        ["JoinTx", "JoinRx"].map(|name| totals.get(name).copied())
    }

    #[test]
    fn events_of_processes_that_have_ended_are_counted() {
        let (root, mut mib) = mib();
        let inode = write(root.path(), 7, [2, 0, 1]);
        mib.add(inode, 7);
        assert_eq!(joins(&mut mib), [Some(2), Some(0)], "a new namespace starts at zero");
        // More events happen while no process of the namespace is known. The next process ends before its turn.
        let (first, next) = (root.path().join("7"), root.path().join("8"));
        fs::rename(first, &next).unwrap();
        assert_eq!(joins(&mut mib), [Some(2), Some(0)]);
        write(root.path(), 8, [13, 9, 1]);
        mib.add(inode, 8);
        fs::remove_dir_all(next).unwrap();
        assert_eq!(
            joins(&mut mib),
            [Some(13), Some(9)],
            "a new process of a known namespace is read at once"
        );
    }

    #[test]
    fn earlier_events_do_not_count_and_an_inode_may_be_reused() {
        let (root, mut mib) = mib();
        let inode = write(root.path(), 7, [10, 5, 3]);
        mib.namespaces.insert(inode, WatchedNamespace { pid: None, last: Some([10, 5, 0].into()) });
        mib.add(inode, 7);
        mib.add(inode + 1, 7);
        assert_eq!(
            joins(&mut mib),
            [Some(0), Some(0)],
            "no new events, and the process is not in the second namespace"
        );
        write(root.path(), 7, [11, 5, 0]);
        assert_eq!(joins(&mut mib), [Some(1), Some(0)], "a connection closed: not a new namespace");
        write(root.path(), 7, [12, 2, 0]);
        assert_eq!(
            joins(&mut mib),
            [Some(13), Some(2)],
            "one counter decreased: all counters of a new namespace"
        );
    }

    #[test]
    fn a_namespace_with_unknown_counters_counts_from_the_first_reading() {
        let (root, mut mib) = mib();
        let inode = write(root.path(), 7, [3, 3, 0]);
        mib.namespaces.insert(inode, WatchedNamespace { pid: None, last: None });
        mib.add(inode, 7);
        write(root.path(), 7, [4, 3, 0]);
        assert_eq!(joins(&mut mib), [Some(1), Some(0)]);
    }

    #[test]
    fn many_namespaces_are_read_in_turn() {
        let (root, mut mib) = mib();
        let pids = 1..=u32::try_from(MAX_READS).unwrap() + 4;
        for counters in [[0, 0, 0], [0, 0, 0], [1, 0, 0]] {
            pids.clone().for_each(|pid| mib.add(write(root.path(), pid, counters), pid));
            mib.read();
        }
        assert_eq!(joins(&mut mib), [Some(pids.count() as u64), Some(0)]);
        (0..100_000).for_each(|inode| mib.add(inode, 1));
        assert!(mib.namespaces.len() <= MAX_NAMESPACES && mib.has_forgotten, "their number is bounded");
    }
}
