// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view with everything that it needs of this machine: a thread of its own that draws what it is sent, files for exports, the
//! user's settings, the pace of what it shows.

mod export;
pub(crate) mod pace;
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
use mpwatch_tui::screen::{Feed, Link, Notice, Origin, Request, Settings, terminal};
use nix::sys::signal::{Signal, raise};

use pace::Pace;
pub(crate) use settings::load as load_settings;

/// Set by tests: what the terminal looks like after a panic. The key that draws anew then panics.
const TEST_PANIC: &str = "MPWATCH_TEST_PANIC";

/// As long as anybody looks at the end of a recording, or of a demo.
pub(crate) const FOREVER: Duration = Duration::from_hours(24 * 365);

/// How long the thread of the screen may take to end. Where the terminal has gone (its window was closed), the thread hangs in the library
/// that reads keys, and must not keep the process.
const GRACE: Duration = Duration::from_secs(1);

/// The live view while it is on the terminal; gives the terminal back when it is closed or dropped.
pub(crate) struct Screen {
    feed: Option<Sender<Feed>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Its sender goes with the thread.
    ended: Receiver<()>,
    pace: Arc<Pace>,
}

impl Screen {
    /// Takes the terminal. When the user leaves, `stop` is set, as by a signal.
    pub(crate) fn open(settings: Settings, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let (feed, news) = channel();
        let (alive, ended) = channel();
        let pace = Arc::new(Pace::new(stop));
        let of_thread = Arc::clone(&pace);
        let thread = std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || {
                // Also when it panics: nobody could leave otherwise.
                let _left = Left(Arc::clone(&of_thread));
                let _alive: Sender<()> = alive;
                draw(settings, &news, &of_thread)
            })
            .context("starting the thread of the screen")?;
        Ok(Self { feed: Some(feed), thread: Some(thread), ended, pace })
    }

    pub(crate) fn show(&self, snapshot: impl Into<Arc<Snapshot>>) {
        self.tell(Feed::snapshot(snapshot));
    }

    pub(crate) fn link(&self, link: Link) {
        self.tell(Feed::Link(link));
    }

    pub(crate) fn up(&self, origin: Origin) {
        self.link(Link::Up(origin));
    }

    fn tell(&self, news: Feed) {
        // Who has left hears nothing more, and `stop` is set.
        let _ = self.feed.as_ref().map(|feed| feed.send(news));
    }

    /// How fast the user wants it.
    pub(crate) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.pace)
    }

    /// Gives the terminal back; what went wrong with it meanwhile.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        match self.end() {
            None => Ok(()),
            Some(Ok(outcome)) => outcome.context("drawing on the terminal"),
            Some(Err(panic)) => resume_unwind(panic),
        }
    }

    /// What became of the thread; nothing, where it does not end.
    fn end(&mut self) -> Option<thread::Result<io::Result<()>>> {
        self.feed = None;
        let thread = self.thread.take()?;
        if self.ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
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

/// Tells the others that the user has left.
struct Left(Arc<Pace>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn draw(settings: Settings, news: &Receiver<Feed>, pace: &Pace) -> io::Result<()> {
    let mut ask = |request| match request {
        Request::Interval(interval) => {
            pace.set_interval(interval);
            None
        }
        Request::Play(plays) => {
            pace.play(plays);
            None
        }
        Request::Step => {
            pace.step();
            None
        }
        Request::Export(report, format) => Some(match export::write(&report, format) {
            Ok(text) => Notice { is_error: false, text },
            Err(error) => Notice { is_error: true, text: format!("{error:#}") },
        }),
        Request::Suspend => {
            // Back when the shell continues us.
            let _ = raise(Signal::SIGTSTP);
            None
        }
        Request::Redraw => {
            assert!(std::env::var_os(TEST_PANIC).is_none(), "{TEST_PANIC} is set");
            None
        }
        Request::Quit { .. } => None,
    };
    terminal::run(settings, news, &mut ask)
}
