// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edge: a real terminal, its keys and its size. What was there before comes back however the screen ends: by a key, by a signal that
//! ends the feed, by a panic anywhere in the process.

use std::io::{self, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use super::app::{App, Event, Feed, Notice, Request, Settings};
use super::draw;

/// How long a snapshot may wait for the screen at most; keys do not wait.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the terminal is ours at present.
static OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The answer to a request that the screen cannot fulfil itself.
pub type Answer = Option<Notice>;

/// Runs the screen until the user leaves it or the feed ends. `ask` does what is to be done outside.
pub fn run(
    settings: Settings,
    feed: &Receiver<Feed>,
    ask: &mut dyn FnMut(Request) -> Answer,
) -> io::Result<()> {
    let mut screen = Screen::open()?;
    let size = screen.terminal.size()?;
    let mut app = App::new(settings, (size.width, size.height));
    let left = screen.serve(&mut app, feed, ask);
    let kept = match &left {
        Ok(Some(kept)) => Some(kept.clone()),
        _ => None,
    };
    drop(screen);
    if let Some(kept) = kept {
        io::stdout().write_all(kept.as_bytes())?;
    }
    left.map(|_| ())
}

/// The terminal while it is ours.
struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
}

impl Screen {
    fn open() -> io::Result<Self> {
        restore_on_panic();
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        match terminal {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Until the end; then the text to leave in the terminal, if that was asked for.
    fn serve(
        &mut self,
        app: &mut App,
        feed: &Receiver<Feed>,
        ask: &mut dyn FnMut(Request) -> Answer,
    ) -> io::Result<Option<String>> {
        let mut changed = true;
        loop {
            // After a panic elsewhere the terminal is given back: nothing more is drawn on it.
            if changed && OURS.load(Ordering::SeqCst) {
                self.terminal.draw(|frame| draw::draw(app, frame))?;
            }
            changed = false;
            app.tidy();
            if event::poll(PATIENCE)? {
                // All that is there, so that a paste or a wheel is one frame.
                while event::poll(Duration::ZERO)? {
                    let Some(happened) = translated(&event::read()?) else { continue };
                    changed = true;
                    let Some(request) = app.update(happened) else { continue };
                    match self.fulfil(request, app, ask)? {
                        Left::No => {}
                        Left::Yes(kept) => return Ok(kept),
                    }
                }
            }
            loop {
                match feed.try_recv() {
                    Ok(news) => {
                        changed = true;
                        app.update(Event::Feed(news));
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(None),
                }
            }
        }
    }

    fn fulfil(
        &mut self,
        request: Request,
        app: &mut App,
        ask: &mut dyn FnMut(Request) -> Answer,
    ) -> io::Result<Left> {
        match request {
            Request::Quit { keep } => {
                let kept = keep.then(|| {
                    self.terminal.draw(|frame| draw::draw(app, frame)).map(|done| plain(done.buffer))
                });
                ask(Request::Quit { keep });
                return Ok(Left::Yes(kept.transpose()?));
            }
            Request::Redraw => {
                ask(Request::Redraw);
                self.terminal.clear()?;
            }
            Request::Suspend => {
                give_back();
                ask(Request::Suspend);
                take()?;
                self.terminal.clear()?;
                let size = self.terminal.backend().size()?;
                app.update(Event::Resize(size.width, size.height));
            }
            other => {
                if let Some(notice) = ask(other) {
                    app.update(Event::Notice(notice));
                }
            }
        }
        Ok(Left::No)
    }
}

/// Whether the user has left.
enum Left {
    No,
    Yes(Option<String>),
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn translated(event: &event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) => Some(Event::Key(*key)),
        event::Event::Mouse(mouse) => Some(Event::Mouse(*mouse)),
        event::Event::Resize(columns, rows) => Some(Event::Resize(*columns, *rows)),
        event::Event::FocusGained | event::Event::FocusLost | event::Event::Paste(_) => None,
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    OURS.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide)
}

/// Gives the terminal back for a screen that does not end by itself.
pub fn restore() {
    give_back();
}

/// Everything as it was. More than once does no harm.
fn give_back() {
    if OURS.swap(false, Ordering::SeqCst) {
        // Nothing to be done where the terminal is gone.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// First the terminal, then the message, so that it can be read.
fn restore_on_panic() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            give_back();
            before(what);
        }));
    });
}

/// The text of a screen, without what is empty at its end.
fn plain(buffer: &Buffer) -> String {
    let area = buffer.area;
    let lines = (area.top()..area.bottom()).map(|y| {
        let line: String = (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\n", lines.join("\n").trim_end())
}
