// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mapping errors of the host. The kernel counts them per network namespace (`MPTcpExt` in `/proc/PID/net/netstat`), not per subflow. They are
//! read through a process in the namespace, which needs no capability. The counters of namespaces that exist at the start are read once by
//! entering them; a new namespace starts at zero. So errors are counted even if the process that caused them ends before the next reading.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mpwatch_ebpf::namespace;
use mpwatch_model::host::machine::MappingErrors;
use mpwatch_model::kernel::event::KernelEvent;

/// Maximum number of readings at a tick (namespaces take turns), and of immediate readings between two ticks. A reading takes about 40 us.
const MAX_READS: usize = 16;
/// Maximum number of namespaces. Beyond it, namespaces without a known process are forgotten.
const MAX_NAMESPACES: usize = 8_192;

struct WatchedNamespace {
    /// A process in the namespace. `None`: no running process is known.
    pid: Option<u32>,
    /// The counters at the last reading. `None`: unknown, so the next reading counts no errors.
    last: Option<MappingErrors>,
}

/// Sums the errors in mpwatch's own namespace and in the namespaces of owners of connections.
#[derive(Default)]
pub(crate) struct Mib {
    /// `/proc`, or its replacement in tests.
    root: PathBuf,
    /// The namespaces by inode.
    namespaces: HashMap<u32, WatchedNamespace>,
    /// Inodes of the namespaces with a known process, in the order in which they are read.
    turns: VecDeque<u32>,
    /// Whether a namespace was forgotten. A namespace that seems new may then have older errors.
    has_forgotten: bool,
    /// Immediate readings since the latest tick.
    immediate: usize,
    total: MappingErrors,
}

impl Mib {
    /// Counts errors from now on. `existing`: the namespaces of this machine.
    pub(crate) fn start(existing: &[namespace::Namespace]) -> Self {
        let mut mib = Self::new(Path::new("/proc"));
        for found in existing {
            // Needs CAP_SYS_ADMIN.
            let netstat = namespace::inside(found, || fs::read_to_string("/proc/thread-self/net/netstat"));
            let last = netstat.ok().as_deref().and_then(parse);
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
        let last = (!self.has_forgotten).then(MappingErrors::default);
        let namespace = self.namespaces.entry(inode).or_insert(WatchedNamespace { pid: None, last });
        if namespace.pid.is_none() && self.immediate < MAX_READS {
            namespace.pid = Some(pid);
            self.immediate += 1;
            self.read_one(inode);
        }
    }

    /// Reads the namespaces whose turn it is. The result never decreases.
    pub(crate) fn read(&mut self) -> MappingErrors {
        self.immediate = 0;
        for _ in 0..self.turns.len().min(MAX_READS) {
            let Some(inode) = self.turns.pop_front() else { break };
            self.read_one(inode);
        }
        self.total
    }

    fn read_one(&mut self, inode: u32) {
        let pid = self.namespaces.get(&inode).and_then(|namespace| namespace.pid);
        let now = pid.and_then(|pid| self.counters(inode, pid));
        let Some(namespace) = self.namespaces.get_mut(&inode) else { return };
        let Some(now) = now else {
            // The process has ended or has changed its namespace. The next connection may have another process.
            namespace.pid = None;
            return;
        };
        self.turns.push_back(inode);
        let mut before = namespace.last.replace(now).unwrap_or(now);
        if now.invalid < before.invalid || now.bad_checksum < before.bad_checksum {
            // A new namespace has the inode of a removed one.
            before = MappingErrors::default();
        }
        self.total.invalid += now.invalid - before.invalid;
        self.total.bad_checksum += now.bad_checksum - before.bad_checksum;
    }

    /// The counters of a namespace, read through a process. `None`: the process is not, or no longer, in the namespace.
    fn counters(&self, inode: u32, pid: u32) -> Option<MappingErrors> {
        let netstat = fs::read_to_string(self.root.join(format!("{pid}/net/netstat"))).ok()?;
        (self.inode(pid)? == inode).then(|| parse(&netstat)).flatten()
    }

    fn inode(&self, pid: u32) -> Option<u32> {
        let metadata = fs::metadata(self.root.join(format!("{pid}/ns/net"))).ok()?;
        u32::try_from(metadata.ino()).ok()
    }
}

/// Parses the section of MPTCP: a line with names, then a line with values. `None`: there is none.
fn parse(netstat: &str) -> Option<MappingErrors> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| -> u64 {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    Some(MappingErrors {
        invalid: value("DSSNotMatching") + value("DSSNoMatchTCP"),
        bad_checksum: value("DataCsumErr"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace with counters of invalid mappings, of mappings that do not match TCP, and of wrong checksums. Returns its inode.
    fn write(root: &Path, pid: u32, [matching, tcp, checksum]: [u64; 3]) -> u32 {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("net")).unwrap();
        fs::create_dir_all(folder.join("ns")).unwrap();
        let text = format!(
            "TcpExt: A\nTcpExt: 1\nMPTcpExt: DSSNotMatching X DSSNoMatchTCP DataCsumErr\nMPTcpExt: {matching} 9 {tcp} {checksum}\n"
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

    fn errors(invalid: u64, bad_checksum: u64) -> MappingErrors {
        MappingErrors { invalid, bad_checksum }
    }

    #[test]
    fn errors_of_processes_that_have_ended_are_counted() {
        let (root, mut mib) = mib();
        let inode = write(root.path(), 7, [1, 1, 1]);
        mib.add(inode, 7);
        assert_eq!(mib.read(), errors(2, 1), "a new namespace starts at zero");
        // More errors happen while no process of the namespace is known. The next process ends before its turn.
        let (first, next) = (root.path().join("7"), root.path().join("8"));
        fs::rename(first, &next).unwrap();
        assert_eq!(mib.read(), errors(2, 1));
        write(root.path(), 8, [6, 7, 9]);
        mib.add(inode, 8);
        fs::remove_dir_all(next).unwrap();
        assert_eq!(mib.read(), errors(13, 9), "a new process of a known namespace is read at once");
    }

    #[test]
    fn earlier_errors_do_not_count_and_an_inode_may_be_reused() {
        let (root, mut mib) = mib();
        let inode = write(root.path(), 7, [5, 5, 5]);
        mib.namespaces.insert(inode, WatchedNamespace { pid: None, last: Some(errors(10, 5)) });
        mib.add(inode, 7);
        mib.add(inode + 1, 7);
        assert_eq!(mib.read(), errors(0, 0), "no new errors, and the process is not in the second namespace");
        write(root.path(), 7, [0, 0, 2]);
        assert_eq!(mib.read(), errors(0, 2));
    }

    #[test]
    fn many_namespaces_are_read_in_turn() {
        let (root, mut mib) = mib();
        let pids = 1..=u32::try_from(MAX_READS).unwrap() + 4;
        for counters in [[0, 0, 0], [0, 0, 0], [1, 0, 0]] {
            pids.clone().for_each(|pid| mib.add(write(root.path(), pid, counters), pid));
            mib.read();
        }
        assert_eq!(mib.read(), errors(pids.count() as u64, 0));
        (0..100_000).for_each(|inode| mib.add(inode, 1));
        assert!(mib.namespaces.len() <= MAX_NAMESPACES && mib.has_forgotten, "their number is bounded");
    }
}
