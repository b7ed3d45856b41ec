// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots on a Unix socket, for `top`, `ls` and `show`. Input is never read. A reader that is too slow loses snapshots, which are
//! counted; it delays neither the tracker nor other readers. If there are too many readers, a new reader replaces a reader that has left, reads
//! nothing, or reads too little to catch up. If unread snapshots take too much memory, all such readers are disconnected.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_report::json::{self, Layout};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::{Gid, Group};
use serde::Serialize;

use super::sink::SnapshotSink;
use super::status::Status;
use crate::client::{Earlier, Greeting};
use crate::config::Config;
use crate::system::lock;
use crate::system::privilege::without_any;

const MAX_READERS: usize = 32;
/// Maximum number of snapshots that wait for a reader.
const QUEUE_LENGTH: usize = 2;
/// Maximum number of snapshots that are kept for new readers: the charts of the live view have this many values.
const MAX_KEPT: usize = 120;
/// Maximum total size of these snapshots in bytes (two minutes of 50 connections), without the latest, which is in memory anyway.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// Size of all snapshots in memory as text, in bytes, from which readers that are stalled or behind are disconnected.
const MAX_UNREAD_BYTES: usize = 64 << 20;
/// Send buffer of a reader in bytes: small, so that a reader that does not read is noticed after a few snapshots.
const SEND_BUFFER: usize = 16 << 10;
/// A reader that has read nothing for this long is disconnected when a new reader needs its place, or when memory is short.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// A reader that has had unread data for this long is disconnected in the same cases.
const BEHIND_TIMEOUT: Duration = Duration::from_secs(10);
/// Send buffer in bytes between two writes. The kernel raises it to its minimum. With a buffer this small, `poll` reports the socket as
/// writable only after the reader has read the whole snapshot. (The ioctl SIOCOUTQ would return the unread bytes, but needs `unsafe`.)
const IDLE_SEND_BUFFER: usize = 0;
/// Maximum time that a shutdown waits for readers to read the last snapshot.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two checks for remaining readers during a shutdown, and before the next `accept` after a failure.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

type Line = Arc<String>;

struct Reader {
    lines: SyncSender<Line>,
    output: Arc<Output>,
    /// Since when the reader has had unread data. `None`: it has read everything.
    behind_since: Option<Instant>,
}

impl Reader {
    fn new(stream: UnixStream) -> (Self, Receiver<Line>) {
        let output = Arc::new(Output { stream, stalled_since: Mutex::default() });
        let (sender, lines) = mpsc::sync_channel(QUEUE_LENGTH);
        (Self { lines: sender, output, behind_since: None }, lines)
    }

    /// Whether the peer has closed the connection. The thread of the reader notices that only at the next snapshot, up to a minute later.
    fn has_left(&self) -> bool {
        let mut peer = [PollFd::new(self.output.stream.as_fd(), PollFlags::empty())];
        let hung_up = |events: PollFlags| events.contains(PollFlags::POLLHUP);
        poll(&mut peer, PollTimeout::ZERO).is_ok() && peer[0].revents().is_some_and(hung_up)
    }

    /// Notes whether the reader has read everything. Data that is being written counts as unread.
    fn note_progress(&mut self) {
        let mut waiting = [PollFd::new(self.output.stream.as_fd(), PollFlags::POLLOUT)];
        let mut has_read_all = || matches!(poll(&mut waiting, PollTimeout::ZERO), Ok(count) if count > 0);
        if lock(&self.output.stalled_since).is_none() && has_read_all() {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert_with(Instant::now);
        }
    }

    /// When the reader began to be stalled or behind. `None`: it is neither, or not for the whole timeout, so it must not be replaced.
    fn idle_since(&self) -> Option<Instant> {
        let exceeds = |since: &Instant, timeout| since.elapsed() >= timeout;
        let stalled = lock(&self.output.stalled_since).filter(|since| exceeds(since, STALL_TIMEOUT));
        stalled.or(self.behind_since.filter(|since| exceeds(since, BEHIND_TIMEOUT)))
    }
}

struct Shared {
    status: Arc<Status>,
    readers: Mutex<Vec<Reader>>,
    /// The snapshots that are kept, the latest last, each with its size.
    recent: Mutex<VecDeque<(usize, Arc<Snapshot>)>>,
    /// The latest snapshot as text, which all readers share. `None`: no reader has needed it.
    latest: Mutex<Option<Line>>,
    /// All texts that were created. Those that have been read by all their readers are no longer in memory.
    texts: Mutex<Vec<Weak<String>>>,
}

pub(super) struct Socket {
    path: PathBuf,
    shared: Arc<Shared>,
    snapshots: Option<SyncSender<Arc<Snapshot>>>,
    writer: Option<thread::JoinHandle<()>>,
}

impl Socket {
    /// Listens. Replaces the socket of a daemon that is gone.
    pub(super) fn listen(config: &Config, status: Arc<Status>) -> anyhow::Result<Self> {
        let path = &config.socket;
        let failed =
            || format!("cannot listen at {} (`socket` or --socket sets another path)", path.display());
        remove_stale(path).with_context(failed)?;
        let listener = UnixListener::bind(path).with_context(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).with_context(failed)?;
        if let Some(group) = group(&config.socket_group) {
            nix::unistd::chown(path, None, Some(group)).map_err(io::Error::from).with_context(failed)?;
        }
        let shared = Arc::new(Shared::new(status));
        let (snapshots, incoming) = mpsc::sync_channel(1);
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let (for_writer, for_listener) = (Arc::clone(&shared), Arc::clone(&shared));
        let writer = without_any(|| {
            let writer = named("mpwatch-frames").spawn(move || for_writer.distribute(&incoming))?;
            named("mpwatch-socket").spawn(move || for_listener.accept(&listener))?;
            Ok(writer)
        });
        let writer = writer.with_context(failed)?;
        Ok(Self { path: path.to_owned(), shared, snapshots: Some(snapshots), writer: Some(writer) })
    }
}

/// A group by its name or number. `None`: there is no such group, so only the owner may connect to the socket and read the database.
pub(super) fn group(wanted: &str) -> Option<Gid> {
    let by_name = Group::from_name(wanted).ok().flatten().map(|group| group.gid);
    by_name.or_else(|| wanted.parse().ok().map(Gid::from_raw))
}

/// Removes the socket of a daemon that is gone. Fails if the path is another file, or a socket in use. Creates the directory.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
        fs::create_dir_all(directory)?;
    }
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("a file of this name exists");
    }
    if UnixStream::connect(path).is_ok() {
        bail!("another daemon listens there");
    }
    Ok(fs::remove_file(path)?)
}

impl Shared {
    fn new(status: Arc<Status>) -> Self {
        let (readers, recent, latest, texts) = <_>::default();
        Self { status, readers, recent, latest, texts }
    }

    /// Formats each snapshot once and queues it for all readers.
    fn distribute(&self, incoming: &Receiver<Arc<Snapshot>>) {
        for snapshot in incoming {
            let has_readers = !lock(&self.readers).is_empty();
            let line = has_readers.then(|| self.line(&*snapshot.complete())).flatten();
            self.keep(snapshot);
            let Some(line) = line else { continue };
            *lock(&self.latest) = Some(Arc::clone(&line));
            let is_full = self.unread() > MAX_UNREAD_BYTES;
            lock(&self.readers).retain_mut(|reader| {
                reader.note_progress();
                if is_full && reader.idle_since().is_some() {
                    self.disconnect(reader);
                    return false;
                }
                match reader.lines.try_send(Arc::clone(&line)) {
                    Ok(()) => true,
                    Err(TrySendError::Full(_)) => {
                        self.status.frames_dropped.fetch_add(1, Ordering::Relaxed);
                        true
                    }
                    Err(TrySendError::Disconnected(_)) => false,
                }
            });
        }
        // A reader's thread ends after the queued snapshots, because its sender is dropped here.
        lock(&self.readers).clear();
    }

    /// Keeps a snapshot for new readers.
    fn keep(&self, snapshot: Arc<Snapshot>) {
        // Locked until the snapshot is kept, so that no reader stores the text of an older one.
        let mut latest = lock(&self.latest);
        *latest = None;
        let mut recent = lock(&self.recent);
        let mut before: usize = recent.iter().map(|(size, _)| size).sum();
        while recent.len() >= MAX_KEPT || before > MAX_KEPT_BYTES {
            before -= recent.pop_front().map_or(before, |(size, _)| size);
        }
        recent.push_back((size(&snapshot), snapshot));
    }

    fn accept(self: Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                thread::sleep(RETRY_INTERVAL);
                continue;
            };
            let (reader, lines) = Reader::new(stream);
            let output = Arc::clone(&reader.output);
            if !self.admit(reader) {
                self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.status.readers.fetch_add(1, Ordering::Relaxed);
            let shared = Arc::clone(&self);
            let serve = move || {
                // Fails only when the reader has left.
                let _ = shared.serve(&output, lines);
                shared.status.readers.fetch_sub(1, Ordering::Relaxed);
            };
            // If no thread can be started, `lines` is dropped, and the next snapshot removes the reader.
            if thread::Builder::new().name("mpwatch-reader".to_owned()).spawn(serve).is_err() {
                self.status.readers.fetch_sub(1, Ordering::Relaxed);
                self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Adds a reader. If there are too many, first removes readers that have left, or else the reader that has been stalled or behind for the
    /// longest time. `false`: no reader could be removed, so the new reader is refused.
    fn admit(&self, reader: Reader) -> bool {
        let mut readers = lock(&self.readers);
        if readers.len() >= MAX_READERS {
            readers.retain(|reader| !reader.has_left());
        }
        if readers.len() >= MAX_READERS {
            readers.iter_mut().for_each(Reader::note_progress);
            let idle = |(index, reader): (usize, &Reader)| Some((reader.idle_since()?, index));
            let Some((_, index)) = readers.iter().enumerate().filter_map(idle).min() else { return false };
            self.disconnect(&readers.swap_remove(index));
        }
        readers.push(reader);
        true
    }

    /// Disconnects a reader. Its thread ends: its `write` fails, or its queue is closed.
    fn disconnect(&self, reader: &Reader) {
        let _ = reader.output.stream.shutdown(Shutdown::Both);
        self.status.clients_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A line of JSON, which counts as unread as long as it is in memory. `None`: a bug, which is logged.
    fn line(&self, value: &impl Serialize) -> Option<Line> {
        let line = line(value)?;
        let mut texts = lock(&self.texts);
        texts.retain(|text| text.strong_count() > 0);
        texts.push(Arc::downgrade(&line));
        Some(line)
    }

    /// Size of all snapshots in memory as text, in bytes, without the latest one: all readers share it.
    fn unread(&self) -> usize {
        let latest = lock(&self.latest).as_ref().map_or(0, |text| text.len());
        let texts: usize = lock(&self.texts).iter().filter_map(Weak::upgrade).map(|text| text.len()).sum();
        texts.saturating_sub(latest)
    }

    fn serve(&self, output: &Output, lines: Receiver<Line>) -> io::Result<()> {
        output.write(&(serde_json::to_string(&Greeting::default())? + "\n"))?;
        // The queue exists already, so the latest snapshot may be sent twice, but none is missed.
        // A slow reader must not keep snapshots in memory: it misses every snapshot that is discarded before it is written.
        let mut shared = lock(&self.latest);
        let recent: Vec<_> =
            lock(&self.recent).iter().map(|(_, snapshot)| Arc::downgrade(snapshot)).collect();
        let mut recent = recent.iter().filter_map(Weak::upgrade);
        let newest = recent.next_back();
        let latest = shared.take().or_else(|| self.line(&*newest?.complete()));
        shared.clone_from(&latest);
        drop(shared);
        // The latest snapshot is sent first: `ls` and `show` need no other.
        latest.or_else(|| lines.recv().ok()).map_or(Ok(()), |line| output.write(&line))?;
        // The earlier snapshots have texts of their own for each reader, so they are omitted while memory is short.
        let earlier = recent.filter(|_| self.unread() <= MAX_UNREAD_BYTES).map(Some).chain([None]);
        let earlier =
            earlier.map(|kept| self.line(&Earlier { earlier: kept.as_deref().map(Snapshot::complete) }));
        earlier.flatten().chain(lines).try_for_each(|line| output.write(&line))
    }
}

/// The connection that the thread of a reader writes to.
struct Output {
    stream: UnixStream,
    /// When writing the current part began. `None`: no write is in progress.
    stalled_since: Mutex<Option<Instant>>,
}

impl Output {
    /// Writes in parts. The stall timeout restarts with each part, so a slow reader of a large snapshot is not stalled.
    fn write(&self, line: &str) -> io::Result<()> {
        setsockopt(&self.stream, sockopt::SndBuf, &SEND_BUFFER)?;
        let outcome = line.as_bytes().chunks(SEND_BUFFER).try_for_each(|part| {
            *lock(&self.stalled_since) = Some(Instant::now());
            (&self.stream).write_all(part)
        });
        let emptied = setsockopt(&self.stream, sockopt::SndBuf, &IDLE_SEND_BUFFER);
        *lock(&self.stalled_since) = None;
        outcome.and(emptied.map_err(io::Error::from))
    }
}

/// The size of a snapshot in bytes. Idle connections, which consecutive snapshots share, count in each snapshot, because a reader gets all of them.
fn size(snapshot: &Snapshot) -> usize {
    let lists = |flow: &Connection| {
        let pairs = flow.bottlenecks.as_ref().map_or(0, |found| size_of_val(&*found.pairs));
        size_of_val(&*flow.subflows) + size_of_val(&*flow.timeline) + pairs
    };
    let number = snapshot.connections.len() + snapshot.idle.len();
    number * size_of::<Connection>() + snapshot.connections.iter().map(lists).sum::<usize>()
}

/// A line of JSON. `None`: a bug, which is logged.
fn line(value: &impl Serialize) -> Option<Line> {
    json::text(value, Layout::Line)
        .map(|text| Arc::new(text + "\n"))
        .inspect_err(|error| tracing::error!(%error, "cannot format a snapshot as JSON"))
        .ok()
}

impl SnapshotSink for Socket {
    fn consume(&mut self, snapshot: &Arc<Snapshot>) {
        let Some(snapshots) = &self.snapshots else { return };
        // If the writer is still busy with the previous snapshot, every reader loses this snapshot.
        if let Err(TrySendError::Full(_)) = snapshots.try_send(Arc::clone(snapshot)) {
            let readers = self.shared.status.readers.load(Ordering::Relaxed);
            self.shared.status.frames_dropped.fetch_add(readers, Ordering::Relaxed);
        }
    }

    fn finish(&mut self) {
        // Remove the file first, so that no reader attaches to a daemon that is stopping.
        let _ = fs::remove_file(&self.path);
        drop(self.snapshots.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        let deadline = Instant::now() + FINISH_TIMEOUT;
        while self.shared.status.readers.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            thread::sleep(RETRY_INTERVAL);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If tracing could not start, `finish` was not called.
        if self.snapshots.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[path = "tests/history.rs"]
mod history_tests;

#[cfg(test)]
#[path = "tests/readers.rs"]
mod reader_tests;
