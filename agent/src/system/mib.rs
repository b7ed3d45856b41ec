// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mapping errors of the host. The kernel counts them per network namespace (`MPTcpExt` in `/proc/PID/net/netstat`), not per subflow. They are
//! read through a process in the namespace, which needs no capability.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mpwatch_model::host::machine::MappingErrors;
use mpwatch_model::kernel::event::KernelEvent;

/// Namespaces read at each tick, in turn. Reading a namespace takes some 40 us.
const MAX_READS: usize = 16;
/// Maximum number of namespaces. Others are not counted.
const MAX_NAMESPACES: usize = 8_192;

/// A network namespace with connections.
struct Namespace {
    /// A process in it.
    pid: u32,
    /// Its counters when they were last read.
    last: Option<MappingErrors>,
}

/// Sums over the namespaces of mpwatch and of owners of connections.
#[derive(Default)]
pub(crate) struct Mib {
    /// `/proc`.
    root: PathBuf,
    /// By inode.
    namespaces: HashMap<u32, Namespace>,
    turns: VecDeque<u32>,
    /// Errors since each namespace was first read, including namespaces that were removed.
    total: MappingErrors,
}

impl Mib {
    pub(crate) fn start() -> Self {
        let mut mib = Self::new(Path::new("/proc"));
        let pid = std::process::id();
        if let Some(inode) = mib.inode(pid) {
            mib.add(inode, pid);
        }
        mib.read();
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

    fn add(&mut self, inode: u32, pid: u32) {
        if self.namespaces.len() < MAX_NAMESPACES && !self.namespaces.contains_key(&inode) {
            self.namespaces.insert(inode, Namespace { pid, last: None });
            self.turns.push_back(inode);
        }
    }

    /// Reads the namespaces whose turn it is. The result never decreases.
    pub(crate) fn read(&mut self) -> MappingErrors {
        for _ in 0..self.turns.len().min(MAX_READS) {
            let Some(inode) = self.turns.pop_front() else { break };
            let pid = self.namespaces.get(&inode).map(|namespace| namespace.pid);
            match pid.and_then(|pid| self.counters(inode, pid)) {
                Some(now) => self.count(inode, now),
                // The process has ended or has changed its namespace. The next connection may have another process.
                None => drop(self.namespaces.remove(&inode)),
            }
        }
        self.total
    }

    fn count(&mut self, inode: u32, now: MappingErrors) {
        self.turns.push_back(inode);
        let Some(namespace) = self.namespaces.get_mut(&inode) else { return };
        // Smaller counters belong to another namespace with the same inode.
        let before = namespace.last.replace(now).unwrap_or(now);
        self.total.invalid += now.invalid.saturating_sub(before.invalid);
        self.total.bad_checksum += now.bad_checksum.saturating_sub(before.bad_checksum);
    }

    /// `None`: the process is not, or no longer, in the namespace.
    fn counters(&self, inode: u32, pid: u32) -> Option<MappingErrors> {
        let netstat = fs::read_to_string(self.root.join(format!("{pid}/net/netstat"))).ok()?;
        (self.inode(pid)? == inode).then(|| parse(&netstat)).flatten()
    }

    fn inode(&self, pid: u32) -> Option<u32> {
        let metadata = fs::metadata(self.root.join(format!("{pid}/ns/net"))).ok()?;
        u32::try_from(metadata.ino()).ok()
    }
}

/// A section has two lines: names and values.
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

    fn write(root: &Path, pid: u32, counters: [u64; 3]) -> u32 {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("net")).unwrap();
        fs::create_dir_all(folder.join("ns")).unwrap();
        let [matching, tcp, checksum] = counters;
        let text = format!(
            "TcpExt: A\nTcpExt: 1\nMPTcpExt: DSSNotMatching X DSSNoMatchTCP DataCsumErr\nMPTcpExt: {matching} 9 {tcp} {checksum}\n"
        );
        fs::write(folder.join("net/netstat"), text).unwrap();
        fs::write(folder.join("ns/net"), "").unwrap();
        u32::try_from(fs::metadata(folder.join("ns/net")).unwrap().ino()).unwrap()
    }

    fn errors(invalid: u64, bad_checksum: u64) -> MappingErrors {
        MappingErrors { invalid, bad_checksum }
    }

    #[test]
    fn errors_count_from_the_first_reading_and_stay_when_the_namespace_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let mut mib = Mib::new(root.path());
        let inode = write(root.path(), 7, [5, 5, 5]);
        mib.add(inode, 7);
        assert_eq!(mib.read(), errors(0, 0));
        write(root.path(), 7, [6, 7, 9]);
        assert_eq!(mib.read(), errors(3, 4));
        fs::remove_dir_all(root.path().join("7")).unwrap();
        assert_eq!(mib.read(), errors(3, 4));
        assert!(mib.namespaces.is_empty() && mib.turns.is_empty());
    }

    #[test]
    fn a_process_in_another_namespace_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let mut mib = Mib::new(root.path());
        let inode = write(root.path(), 7, [0, 0, 0]);
        mib.add(inode + 1, 7);
        mib.read();
        assert!(mib.namespaces.is_empty());
    }

    #[test]
    fn many_namespaces_are_read_in_turn() {
        let root = tempfile::tempdir().unwrap();
        let mut mib = Mib::new(root.path());
        let pids = 1..=u32::try_from(MAX_READS).unwrap() + 4;
        for pid in pids.clone() {
            let inode = write(root.path(), pid, [0, 0, 0]);
            mib.add(inode, pid);
        }
        mib.read();
        mib.read();
        for pid in pids.clone() {
            write(root.path(), pid, [1, 0, 0]);
        }
        mib.read();
        assert_eq!(mib.read(), errors(pids.count() as u64, 0));
    }
}
