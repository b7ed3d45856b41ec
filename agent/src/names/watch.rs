// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the network namespace of each name under `/run/netns` as soon as it is mounted: the namespace of a short job may be gone at the
//! next tick, and its inode reused. A name is bound to the cookie of the namespace that is mounted on its file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_ebpf::namespace::{self, DIRECTORIES, OWN, OWN_NAME};
use mpwatch_ebpf::netns_cookie::CookieReader;
use mpwatch_model::id::NetnsCookie;
use mpwatch_model::kernel::event::NetnsName;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::system::privilege;

/// Delay between a mount and a check of all names: a namespace may have been mounted on an existing file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A name was found, or its file is gone.
#[derive(Debug)]
pub(super) enum Change {
    Named(NetnsCookie, NetnsName),
    Removed(NetnsCookie),
}

pub(super) struct Watcher {
    changes: Receiver<Change>,
    /// The thread ends when this pipe is closed.
    _running: OwnedFd,
}

impl Watcher {
    /// Finds the names that exist, then starts the thread.
    pub(super) fn start(reader: CookieReader) -> io::Result<Self> {
        let (stop, running) = nix::unistd::pipe()?;
        let (sender, changes) = mpsc::channel();
        let mut names = Finder::new(Box::new(move |path| reader.cookie(path)), sender)?;
        names.find_own();
        names.watch_directories();
        let work = move || match privilege::drop_to_kept() {
            Ok(()) => names.run(&stop),
            Err(error) => tracing::warn!("names of network namespaces stay unknown: {error:#}"),
        };
        thread::Builder::new().name("mpwatch-names".to_owned()).spawn(work)?;
        Ok(Self { changes, _running: running })
    }

    /// Changes since the last call.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> {
        self.changes.try_iter()
    }
}

/// Identifies a file: inode and time of its last change. The id changes when a namespace is mounted on the file.
type FileId = (u64, i64, i64);

/// The namespace of a name, and the file where it was mounted.
struct Known {
    file: FileId,
    netns: NetnsCookie,
}

/// Reads the cookie of the namespace mounted on a file.
type ReadCookie = Box<dyn Fn(&Path) -> io::Result<Option<NetnsCookie>> + Send>;

struct Finder {
    read_cookie: ReadCookie,
    changes: Sender<Change>,
    inotify: Inotify,
    /// Readable (`POLLPRI`) after a change of the mounts, which inotify does not report.
    mounts: File,
    directories: HashMap<WatchDescriptor, PathBuf>,
    known: HashMap<PathBuf, Known>,
    /// Files that have no mounted namespace yet, or cannot be opened. `Some`: the file is tried again when this id changes. `None`: at every check.
    pending: HashMap<PathBuf, Option<FileId>>,
    /// When to check all names. `None`: no mount has changed.
    check_at: Option<Instant>,
}

impl Finder {
    fn new(read_cookie: ReadCookie, changes: Sender<Change>) -> io::Result<Self> {
        Ok(Self {
            read_cookie,
            changes,
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            mounts: File::open("/proc/self/mountinfo")?,
            directories: HashMap::new(),
            known: HashMap::new(),
            pending: HashMap::new(),
            check_at: None,
        })
    }

    fn run(mut self, stop: &OwnedFd) {
        loop {
            let [is_over, has_files, has_mounts] = self.wait(stop);
            if is_over {
                return;
            }
            if has_files {
                self.read_inotify();
            }
            self.check_pending();
            if has_mounts && !self.directories.is_empty() {
                self.check_at.get_or_insert_with(|| Instant::now() + CHECK_INTERVAL);
            }
            if self.check_at.take_if(|at| *at <= Instant::now()).is_some() {
                self.check_all();
            }
        }
    }

    /// Waits for shutdown, file or mount events.
    fn wait(&self, stop: &OwnedFd) -> [bool; 3] {
        let mut waiting = [
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI),
        ];
        let left = self.check_at.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        if let Err(error) = poll(&mut waiting, timeout)
            && error != nix::Error::EINTR
        {
            // `poll` failed for lack of memory, which is temporary.
            thread::sleep(CHECK_INTERVAL);
        }
        waiting.map(|events| events.any().unwrap_or_default())
    }

    fn find_own(&self) {
        if let (Ok(Some(netns)), Ok(metadata)) = ((self.read_cookie)(Path::new(OWN)), fs::metadata(OWN)) {
            self.name(netns, &metadata, OWN_NAME.to_owned());
        }
    }

    fn name(&self, netns: NetnsCookie, metadata: &fs::Metadata, name: String) {
        // The inode of a namespace fits in 32 bits (struct ns_common).
        let inode = u32::try_from(metadata.ino()).unwrap_or_default();
        // After tracing has ended there is no receiver.
        let _ = self.changes.send(Change::Named(netns, NetnsName { netns, inode, name }));
    }

    /// Watches the directories that exist, and their parents, in which they may be created.
    fn watch_directories(&mut self) {
        let created = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        for directory in DIRECTORIES.map(Path::new) {
            let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
            if real != directory && DIRECTORIES.iter().any(|other| real == Path::new(other)) {
                continue;
            }
            if let Some(parent) = directory.parent() {
                let _ = self.inotify.add_watch(parent, created);
            }
            if let Ok(watch) = self.inotify.add_watch(directory, created | AddWatchFlags::IN_DELETE) {
                self.directories.insert(watch, directory.to_owned());
            }
        }
        self.check_all();
    }

    fn read_inotify(&mut self) {
        let is_directory =
            |name: &OsStr| DIRECTORIES.iter().any(|directory| Path::new(directory).file_name() == Some(name));
        for event in self.inotify.read_events().unwrap_or_default() {
            let Some(directory) = self.directories.get(&event.wd) else {
                // A directory was created, or the kernel had to drop events.
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
                    || event.name.as_deref().is_some_and(is_directory)
                {
                    self.watch_directories();
                }
                continue;
            };
            let Some(name) = event.name else { continue };
            let path = directory.join(name);
            self.forget(&path);
            if !event.mask.contains(AddWatchFlags::IN_DELETE) {
                self.pending.insert(path, None);
            }
        }
    }

    fn check_pending(&mut self) {
        let pending: Vec<PathBuf> = self.pending.keys().cloned().collect();
        for path in &pending {
            self.find(path);
        }
    }

    fn check_all(&mut self) {
        let directories: Vec<PathBuf> = self.directories.values().cloned().collect();
        let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
        let found: HashSet<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let gone: Vec<PathBuf> = self.known.keys().filter(|path| !found.contains(*path)).cloned().collect();
        for path in gone {
            self.forget(&path);
        }
        self.pending.retain(|path, _| found.contains(path));
        for path in &found {
            self.find(path);
        }
    }

    /// Finds the namespace that is mounted on a file now.
    fn find(&mut self, path: &Path) {
        let Ok(metadata) = fs::metadata(path) else { return };
        let file = (metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        let is_known = self.known.get(path).is_some_and(|known| known.file == file);
        if is_known || self.pending.get(path) == Some(&Some(file)) {
            return;
        }
        self.forget(path);
        match (self.read_cookie)(path) {
            Ok(Some(netns)) => {
                self.name(netns, &metadata, namespace::name(path));
                self.known.insert(path.to_owned(), Known { file, netns });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A plain file: the mount may follow. (`ip netns add` creates it without permissions, so opening it fails.)
            Ok(None) => drop(self.pending.insert(path.to_owned(), Some(file))),
            Err(error) => {
                let tried = (error.kind() == io::ErrorKind::PermissionDenied).then_some(file);
                self.pending.insert(path.to_owned(), tried);
            }
        }
    }

    fn forget(&mut self, path: &Path) {
        self.pending.remove(path);
        if let Some(Known { netns, .. }) = self.known.remove(path) {
            let _ = self.changes.send(Change::Removed(netns));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Errors of the next attempts to read a cookie, in reverse order (then attempts find a plain file), and the number of attempts so far.
    type Attempts = Arc<Mutex<(Vec<io::ErrorKind>, usize)>>;

    fn finder(attempts: &Attempts) -> (Finder, Receiver<Change>) {
        let (sender, changes) = mpsc::channel();
        let attempts = Arc::clone(attempts);
        let read = move |_: &Path| {
            let (errors, count) = &mut *attempts.lock().unwrap();
            *count += 1;
            errors.pop().map_or(Ok(None), |kind| Err(kind.into()))
        };
        (Finder::new(Box::new(read), sender).unwrap(), changes)
    }

    #[test]
    fn a_file_that_is_not_a_namespace_is_opened_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("left-over");
        for error in [None, Some(io::ErrorKind::PermissionDenied)] {
            let attempts = Attempts::default();
            attempts.lock().unwrap().0.extend(error);
            let (mut names, _changes) = finder(&attempts);
            fs::write(&path, "").unwrap();
            names.pending.insert(path.clone(), None);
            (0..5).for_each(|_| names.check_pending());
            assert_eq!(attempts.lock().unwrap().1, 1, "{error:?}");
            // Like a mount, this changes the id of the file.
            fs::remove_file(&path).unwrap();
            fs::write(folder.path().join("other"), "").unwrap();
            fs::rename(folder.path().join("other"), &path).unwrap();
            names.check_pending();
            assert_eq!(attempts.lock().unwrap().1, 2, "{error:?}");
        }
    }

    #[test]
    fn a_namespace_called_host_is_not_confused_with_the_own_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host");
        fs::write(&path, "").unwrap();
        let (sender, changes) = mpsc::channel();
        let cookie = |path: &Path| Ok(Some(NetnsCookie(if path == Path::new(OWN) { 1 } else { 2 })));
        let mut finder = Finder::new(Box::new(cookie), sender).unwrap();
        finder.find_own();
        finder.find(&path);
        let named = changes.try_iter().map(|change| match change {
            Change::Named(netns, name) => (netns.0, name.name),
            Change::Removed(_) => panic!("{change:?}"),
        });
        let expected = [(1, "host".to_owned()), (2, path.to_str().unwrap().to_owned())];
        assert_eq!(named.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_file_is_tried_again_after_a_shortage_of_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        fs::write(&path, "").unwrap();
        let attempts = Attempts::default();
        attempts.lock().unwrap().0.extend([io::ErrorKind::Other, io::ErrorKind::Interrupted]);
        let (mut names, _changes) = finder(&attempts);
        names.pending.insert(path, None);
        (0..5).for_each(|_| names.check_pending());
        assert_eq!(attempts.lock().unwrap().1, 3, "two failures, then a plain file");
    }
}
