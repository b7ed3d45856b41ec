// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots on a Unix socket, one JSON object a line after a line of greeting. Readers only read: nothing that they send is looked at. One that
//! is too slow loses snapshots, which are counted; it holds up neither the tracker nor another reader, and gives up its place where a new reader
//! wants one.

use std::fs;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mpwatch_exporters::json::{self, Layout};
use mpwatch_model::snapshot::Snapshot;
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::{Gid, Group};

use super::outlet::Outlet;
use super::status::Status;
use crate::config::Config;
use crate::privilege::without_any;

/// Version of what is said on the socket.
pub(crate) const PROTOCOL: u32 = 1;
/// Readers at a time.
const MOST_READERS: u64 = 32;
/// Snapshots that may wait for a reader.
const QUEUE: usize = 2;
/// Bytes that the kernel holds for a reader: whoever does not read shows after a few snapshots.
const HELD: usize = 16 << 10;
/// One that has taken nothing for so long gives its place to another.
const STUCK: Duration = Duration::from_secs(2);
/// How long readers have for the last snapshot.
const FAREWELL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

type Line = Arc<String>;

/// Someone who reads.
struct Reader {
    lines: SyncSender<Line>,
    stream: UnixStream,
    /// Since when it has not taken what is being written. `None`: nothing waits.
    stuck_since: Arc<Mutex<Option<Instant>>>,
}

/// What the threads share.
struct Shared {
    status: Arc<Status>,
    readers: Mutex<Vec<Reader>>,
    latest: Mutex<Option<Arc<Snapshot>>>,
}

/// The way out to the socket.
pub(super) struct Socket {
    path: PathBuf,
    shared: Arc<Shared>,
    snapshots: Option<SyncSender<Arc<Snapshot>>>,
    writer: Option<thread::JoinHandle<()>>,
}

impl Socket {
    /// Listens, in the place of a daemon that is gone.
    pub(super) fn listen(config: &Config, status: Arc<Status>) -> anyhow::Result<Self> {
        let path = &config.socket;
        let failed =
            || format!("cannot listen at {}; set `socket` (--socket) to another path", path.display());
        make_place(path).with_context(failed)?;
        let listener = UnixListener::bind(path).with_context(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).with_context(failed)?;
        if let Some(group) = group(&config.socket_group) {
            nix::unistd::chown(path, None, Some(group)).map_err(io::Error::from).with_context(failed)?;
        }
        let shared = Arc::new(Shared { status, readers: Mutex::default(), latest: Mutex::default() });
        let (snapshots, incoming) = mpsc::sync_channel(1);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let (for_writer, for_readers) = (Arc::clone(&shared), Arc::clone(&shared));
        let writer = without_any(|| {
            let writer = spawn("mpwatch-frames").spawn(move || for_writer.hand_out(&incoming))?;
            spawn("mpwatch-socket").spawn(move || for_readers.welcome(&listener))?;
            Ok(writer)
        });
        let writer = writer.with_context(failed)?;
        Ok(Self { path: path.to_owned(), shared, snapshots: Some(snapshots), writer: Some(writer) })
    }
}

/// By its name, or as a number. `None`: this machine has none of that name, and only the owner reads.
fn group(named: &str) -> Option<Gid> {
    let known = Group::from_name(named).ok().flatten().map(|group| group.gid);
    known.or_else(|| named.parse().ok().map(Gid::from_raw))
}

/// Removes what a daemon left that is gone; never what is in use or no socket.
fn make_place(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::create_dir_all(folder)?;
    }
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("there is a file of that name");
    }
    if UnixStream::connect(path).is_ok() {
        bail!("another daemon listens there");
    }
    Ok(fs::remove_file(path)?)
}

impl Shared {
    /// Writes each snapshot down once and gives it to all readers.
    fn hand_out(&self, incoming: &Receiver<Arc<Snapshot>>) {
        for snapshot in incoming {
            let is_watched = !lock(&self.readers).is_empty();
            let line = is_watched.then(|| line(&snapshot)).flatten();
            *lock(&self.latest) = Some(snapshot);
            let Some(line) = line else { continue };
            lock(&self.readers).retain(|reader| match reader.lines.try_send(Arc::clone(&line)) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    self.status.frames_dropped.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            });
        }
        // Whoever has nothing more to read ends.
        lock(&self.readers).clear();
    }

    fn welcome(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(PAUSE);
                continue;
            };
            if self.status.readers.load(Ordering::Relaxed) >= MOST_READERS && !self.make_room() {
                self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.status.readers.fetch_add(1, Ordering::Relaxed);
            let shared = Arc::clone(&self);
            let read = move || {
                // A reader that is gone is no error of ours.
                let _ = shared.serve(stream);
                shared.status.readers.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().name("mpwatch-reader".to_owned()).spawn(read).is_err() {
                self.status.readers.fetch_sub(1, Ordering::Relaxed);
                self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lets the reader go that has been stuck for longest. False: all of them read.
    fn make_room(&self) -> bool {
        let mut readers = lock(&self.readers);
        let since = readers.iter().map(|reader| *lock(&reader.stuck_since));
        let stuck = since.enumerate().filter_map(|(place, since)| Some((since?, place)));
        let Some((since, place)) = stuck.min() else { return false };
        if since.elapsed() < STUCK {
            return false;
        }
        // Its thread, which waits for it, ends by this.
        let _ = readers.swap_remove(place).stream.shutdown(Shutdown::Both);
        self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn serve(&self, stream: UnixStream) -> io::Result<()> {
        setsockopt(&stream, sockopt::SndBuf, &HELD)?;
        let stuck_since = Arc::default();
        let mut writing = Writing { stream: stream.try_clone()?, stuck_since: Arc::clone(&stuck_since) };
        let version = env!("CARGO_PKG_VERSION");
        writing.line(&format!("{{\"proto\":{PROTOCOL},\"version\":\"{version}\"}}\n"))?;
        let (sender, lines) = mpsc::sync_channel(QUEUE);
        // In this order one snapshot may come twice, but none is left out.
        lock(&self.readers).push(Reader { lines: sender, stream, stuck_since });
        let latest = lock(&self.latest).clone();
        if let Some(line) = latest.and_then(|snapshot| line(&snapshot)) {
            writing.line(&line)?;
        }
        for line in lines {
            writing.line(&line)?;
        }
        Ok(())
    }
}

/// The thread's end of a reader.
struct Writing {
    stream: UnixStream,
    stuck_since: Arc<Mutex<Option<Instant>>>,
}

impl Writing {
    /// In parts, and with each that is taken it counts anew: a large snapshot to a slow reader is no standstill.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let outcome = line.as_bytes().chunks(HELD).try_for_each(|part| {
            *lock(&self.stuck_since) = Some(Instant::now());
            self.stream.write_all(part)
        });
        *lock(&self.stuck_since) = None;
        outcome
    }
}

/// `None`: it cannot be written down, which only a bug could cause.
fn line(snapshot: &Snapshot) -> Option<Line> {
    match json::snapshot(snapshot, Layout::Line) {
        Ok(text) => Some(Arc::new(text + "\n")),
        Err(error) => {
            tracing::error!(%error, "a snapshot cannot be written as JSON");
            None
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet for Socket {
    fn take(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(snapshots) = &self.snapshots else { return };
        // The writer is still busy with the one before: every reader loses this one.
        if let Err(TrySendError::Full(_)) = snapshots.try_send(Arc::clone(snapshot)) {
            let readers = self.shared.status.readers.load(Ordering::Relaxed);
            self.shared.status.frames_dropped.fetch_add(readers, Ordering::Relaxed);
        }
    }

    fn finish(&mut self) {
        // The file first: nobody attaches to a daemon that is going.
        let _ = fs::remove_file(&self.path);
        drop(self.snapshots.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        let end = Instant::now() + FAREWELL;
        while self.shared.status.readers.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Where tracing could not begin.
        if self.snapshots.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
