// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the live view on a terminal. Restores the terminal when the user quits, the feed ends, or any thread panics.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
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
use ratatui::crossterm::{cursor, execute, terminal};

use crate::draw::draw;
use crate::state::app::App;
use crate::state::message::{Event, Feed, Notice, Request};
use crate::state::settings::Settings;

/// Maximum time from the arrival of a snapshot to its display. Keys are handled without this delay.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Whether the screen controls the terminal.
static OWNED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Runs the screen until the user quits or the feed ends. `ask` handles requests and may return a notice for the user.
pub fn run(
    settings: Settings,
    feed: &Receiver<Feed>,
    ask: &mut dyn FnMut(Request) -> Option<Notice>,
) -> io::Result<()> {
    let mut screen = OwnedTerminal::open()?;
    let size = screen.terminal.size()?;
    let mut app = App::new(settings, (size.width, size.height));
    let kept = screen.serve(&mut app, feed, ask);
    drop(screen);
    kept?.map_or(Ok(()), |kept| io::stdout().write_all(kept.as_bytes()))
}

/// The terminal while the screen owns it.
struct OwnedTerminal {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
}

impl OwnedTerminal {
    fn open() -> io::Result<Self> {
        restore_on_panic();
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| restore())?;
        Ok(Self { terminal })
    }

    /// Runs until the user quits or the feed ends. Returns the text to leave in the terminal. `None`: there is no text to leave.
    fn serve(
        &mut self,
        app: &mut App,
        feed: &Receiver<Feed>,
        ask: &mut dyn FnMut(Request) -> Option<Notice>,
    ) -> io::Result<Option<String>> {
        let mut changed = true;
        loop {
            // After a panic of another thread the terminal is already restored, so nothing more may be drawn.
            if changed && OWNED.load(Ordering::SeqCst) {
                self.terminal.draw(|frame| draw(app, frame))?;
            }
            changed = false;
            app.tidy();
            if event::poll(POLL_INTERVAL)? {
                // Handles all pending events before the next frame, because a paste or the wheel causes many events.
                while event::poll(Duration::ZERO)? {
                    let Some(event) = translated(&event::read()?) else { continue };
                    changed = true;
                    let Some(request) = app.update(event) else { continue };
                    match self.fulfil(request, app, ask)? {
                        ControlFlow::Continue(()) => {}
                        ControlFlow::Break(kept) => return Ok(kept),
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

    /// Makes the next frame redraw all cells. `Terminal::clear` would query the cursor position and fail if the terminal answers late.
    fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    fn fulfil(
        &mut self,
        request: Request,
        app: &mut App,
        ask: &mut dyn FnMut(Request) -> Option<Notice>,
    ) -> io::Result<ControlFlow<Option<String>>> {
        match request {
            Request::Quit { keep } => {
                let kept =
                    keep.then(|| self.terminal.draw(|frame| draw(app, frame)).map(|done| plain(done.buffer)));
                ask(Request::Quit { keep });
                return Ok(ControlFlow::Break(kept.transpose()?));
            }
            Request::Redraw => {
                ask(Request::Redraw);
                self.clear()?;
            }
            Request::Suspend => {
                restore();
                ask(Request::Suspend);
                take()?;
                self.clear()?;
                let size = self.terminal.backend().size()?;
                app.update(Event::Resize(size.width, size.height));
            }
            other => {
                if let Some(notice) = ask(other) {
                    app.update(Event::Notice(notice));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Drop for OwnedTerminal {
    fn drop(&mut self) {
        restore();
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
    OWNED.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, cursor::Hide).inspect_err(|_| restore())
}

/// Columns and rows of the terminal on standard output. `None`: standard output is not a terminal, or its size is unknown.
pub fn size() -> Option<(u16, u16)> {
    terminal::size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Restores the terminal unless it is already restored. A caller that exits while the screen runs must call this function.
pub fn restore() {
    if OWNED.swap(false, Ordering::SeqCst) {
        // Errors are ignored: they mean that the terminal is gone.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal before the panic message is printed, so that the message is readable.
fn restore_on_panic() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            before(what);
        }));
    });
}

/// The text of a screen without trailing spaces and empty last lines.
fn plain(buffer: &Buffer) -> String {
    let area = buffer.area;
    let lines = (area.top()..area.bottom()).map(|y| {
        let line: String = (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\n", lines.join("\n").trim_end())
}
