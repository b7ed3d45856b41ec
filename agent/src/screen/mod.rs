// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view on this machine: a thread that draws, files for exports, the user's settings.

mod characters;
mod export;
mod settings;

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::screen::{Feed, Link, Notice, Request, Settings, terminal};
use nix::sys::signal::{Signal, raise};

use crate::live::playback::Playback;
pub(crate) use characters::{ensure_cursor, is_ascii, is_dumb};
pub(crate) use settings::load as load_settings;
#[cfg(feature = "fuzz")]
pub(crate) use settings::parse as parse_settings;

/// Environment variable for a test that the terminal is restored after a panic. If it is set, the key that redraws the screen panics.
const TEST_PANIC: &str = "MPWATCH_TEST_PANIC";
/// How long the end of a recording or of a demo stays on the screen.
pub(crate) const FOREVER: Duration = Duration::from_hours(24 * 365);
/// Maximum wait for the thread to end: if the terminal is gone, the thread hangs reading keys, and must not keep the process alive.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The live view while it is on the terminal. Restores the terminal when it is closed or dropped.
pub(crate) struct Screen {
    feed: Option<Sender<Feed>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Disconnected when the thread ends.
    alive: Receiver<()>,
    /// The requests of the user to the source of snapshots.
    pub(crate) playback: Arc<Playback>,
}

impl Screen {
    /// Opens the view on the terminal. When the user quits, `stop` is set, as by a signal.
    pub(crate) fn open(settings: Settings, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let (feed, incoming) = channel();
        let (guard, alive) = channel::<()>();
        let playback = Arc::new(Playback::new(stop));
        let quit = QuitOnDrop(Arc::clone(&playback));
        let thread = thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || {
                let (quit, _guard) = (quit, guard);
                draw(settings, &incoming, &quit.0)
            })
            .context("cannot start the thread of the screen")?;
        Ok(Self { feed: Some(feed), thread: Some(thread), alive, playback })
    }

    pub(crate) fn show(&self, snapshot: impl Into<Arc<Snapshot>>) {
        self.send(Feed::snapshot(snapshot));
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.send(Feed::Link(link));
    }

    fn send(&self, feed: Feed) {
        // Fails only if the thread has ended, and its end sets `stop`.
        let _ = self.feed.as_ref().map(|sender| sender.send(feed));
    }

    /// Restores the terminal. Returns the first error of drawing.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        match self.end() {
            None => Ok(()),
            Some(Ok(outcome)) => outcome.context("cannot draw on the terminal"),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }

    /// Ends the thread and returns its outcome. `None`: this function was called before, or the thread hangs.
    fn end(&mut self) -> Option<thread::Result<io::Result<()>>> {
        self.feed = None;
        let thread = self.thread.take()?;
        if self.alive.recv_timeout(CLOSE_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            terminal::restore();
            return None;
        }
        Some(thread.join())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Sets the stop flag when the thread of the screen ends, even by a panic: without a screen, the user could not quit.
struct QuitOnDrop(Arc<Playback>);

impl Drop for QuitOnDrop {
    fn drop(&mut self) {
        self.0.quit();
    }
}

fn draw(settings: Settings, feed: &Receiver<Feed>, playback: &Playback) -> io::Result<()> {
    let mut serve = |request| match request {
        Request::Export(report, format) => Some(match export::write(&report, format) {
            Ok(text) => Notice { is_error: false, text },
            Err(error) => Notice { is_error: true, text: format!("{error:#}") },
        }),
        other => {
            match other {
                Request::Interval(interval) => playback.set_interval(interval),
                Request::Play(plays) => playback.play(plays),
                Request::Step => playback.step(),
                // Returns when the shell continues the process.
                Request::Suspend => _ = raise(Signal::SIGTSTP),
                Request::Redraw => assert!(std::env::var_os(TEST_PANIC).is_none(), "{TEST_PANIC} is set"),
                Request::Quit { .. } | Request::Export(..) => {}
            }
            None
        }
    };
    terminal::run(settings, feed, &mut serve)
}
