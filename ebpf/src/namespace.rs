// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds and enters the network namespaces of this machine that processes use or that are bound under `/run/netns`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{io, thread};

use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{FsType, fstatfs, statfs};

/// A namespace that can be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Inode number, as `readlink /proc/PID/ns/net` prints it.
    pub inode: u32,
    /// Name under `/run/netns`, or [`OWN_NAME`].
    pub name: Option<String>,
    /// A path by which the namespace can be opened.
    pub path: PathBuf,
}

impl Namespace {
    /// Whether the path still leads to this namespace.
    pub fn exists(&self) -> bool {
        inode(&self.path).is_ok_and(|inode| inode == self.inode)
    }
}

/// Directories in which `ip netns` binds namespaces to names. On most systems the second is a link to the first.
pub const DIRECTORIES: [&str; 2] = ["/run/netns", "/var/run/netns"];
/// Name of this process's own namespace.
pub const OWN_NAME: &str = "host";

/// `NSFS_MAGIC` of linux/magic.h.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);
/// Path of this process's own namespace.
pub const OWN: &str = "/proc/self/ns/net";

/// All namespaces, sorted by inode. Skips namespaces that disappear during the call, and processes that this process may not read: `mpwatch
/// doctor` names the missing capability.
pub fn all() -> Vec<Namespace> {
    let mut found = BTreeMap::new();
    let mut add = |path: PathBuf, name: Option<String>| {
        if let Ok(inode) = inode(&path) {
            found.entry(inode).or_insert(Namespace { inode, name, path });
        }
    };
    add(OWN.into(), Some(OWN_NAME.to_owned()));
    for directory in DIRECTORIES {
        for path in entries(directory).into_iter().map(|name| Path::new(directory).join(name)) {
            let name = name(&path);
            add(path, Some(name));
        }
    }
    for pid in entries("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        add(format!("/proc/{pid}/ns/net").into(), None);
    }
    found.into_values().collect()
}

/// The namespace with this name under `/run/netns`, `host` for the own one, or `net:[INODE]`.
pub fn find(wanted: &str) -> Option<Namespace> {
    // The own namespace is listed as `host`, even if it has a name, and one with two names by the first.
    let is_name = !wanted.contains('/');
    let inode_in = |directory| inode(&Path::new(directory).join(wanted)).ok().filter(|_| is_name);
    let bound = DIRECTORIES.into_iter().find_map(inode_in);
    let is_wanted = |found: &Namespace| {
        found.name.as_deref() == Some(wanted)
            || bound == Some(found.inode)
            || format!("net:[{}]", found.inode) == wanted
    };
    all().into_iter().find(is_wanted)
}

/// Name of the namespace that is bound to a file: the name of the file, or its path if the file is called [`OWN_NAME`].
pub fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let name = if name == OWN_NAME { path.as_os_str() } else { name };
    name.to_string_lossy().into_owned()
}

/// Whether an open file is a namespace of any kind.
pub(crate) fn is_namespace_file(file: &File) -> io::Result<bool> {
    Ok(fstatfs(file)?.filesystem_type() == NSFS_MAGIC)
}

/// Inode of a namespace. A plain file, which remains under /run/netns if a namespace was not unmounted cleanly, counts as not found.
fn inode(path: &Path) -> io::Result<u32> {
    if statfs(path)?.filesystem_type() != NSFS_MAGIC {
        return Err(io::ErrorKind::NotFound.into());
    }
    // Inodes of namespaces have 32 bits (struct ns_common).
    u32::try_from(fs::metadata(path)?.ino()).map_err(io::Error::other)
}

fn entries(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Runs `work` inside a namespace, on a separate thread. This process's own namespace needs neither a thread nor CAP_SYS_ADMIN.
/// Fails if the namespace cannot be opened or entered, or `work` fails.
pub fn inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if inode(Path::new(OWN)).is_ok_and(|own| own == namespace.inode) {
        return work();
    }
    let file = File::open(&namespace.path)?;
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            setns(file.as_fd(), CloneFlags::CLONE_NEWNET)?;
            work()
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
