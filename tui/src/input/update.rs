// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the state when an event arrives.

use mpwatch_model::filter::Filter;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::state::app::App;
use crate::state::edit::Edit;
use crate::state::key::Chord;
use crate::state::message::{Event, Feed, Link, Notice, Request};
use crate::state::view::{ClosedFilter, Mode, Prompt};

impl App {
    /// Handles an event. Returns a request that the caller must fulfil. `None`: no request.
    pub fn update(&mut self, event: Event) -> Option<Request> {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => return None,
            Event::Key(key) => return self.press(key),
            Event::Mouse(mouse) => return self.mouse(mouse),
            Event::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.keep_in_view();
            }
            Event::Feed(feed) => self.feed(feed),
            Event::Notice(notice) => self.notice = Some(notice),
        }
        None
    }

    fn feed(&mut self, feed: Feed) {
        match feed {
            Feed::Snapshot(frame) => {
                self.mask.learn(&frame.snapshot.connections);
                if !matches!(self.link, Link::Up(_)) {
                    self.link = Link::Up(self.settings.origin.clone());
                }
                let before = self.history.latest();
                let tick = self.history.add(frame);
                // A replay that is paused at the newest snapshot delivers a snapshot only if the user steps forward: show this snapshot.
                if self.is_replay() && self.frozen == Some(before) {
                    self.frozen = Some(tick);
                }
                match self.frozen {
                    None => self.rebuild(),
                    // The frozen snapshot is no longer kept: show the oldest kept snapshot.
                    Some(frozen) if frozen < self.history.oldest() => {
                        self.frozen = Some(self.history.oldest());
                        self.rebuild();
                    }
                    Some(_) if self.is_replay() => self.rebuild(),
                    Some(_) => {}
                }
            }
            Feed::Link(link) => {
                if let Link::Up(origin) = &link {
                    self.settings.origin.clone_from(origin);
                }
                // Most connections of a recording have closed when it ends, so show closed connections too.
                if link == Link::Ended && self.is_replay() && self.closed == ClosedFilter::Recent {
                    self.closed = ClosedFilter::All;
                    self.rebuild();
                }
                self.link = link;
            }
        }
    }

    fn press(&mut self, key: KeyEvent) -> Option<Request> {
        self.notice = None;
        if let Mode::Type(prompt, edit) = &self.mode {
            self.type_key(*prompt, edit.clone(), key);
            return None;
        }
        self.act_in_mode(self.settings.keys.action(Chord::from_event(key))?)
    }

    /// Handles a key in an input line. A filter takes effect while the user types, whenever the text is a valid filter.
    fn type_key(&mut self, prompt: Prompt, mut edit: Edit, key: KeyEvent) {
        let is_cancel = key.code == KeyCode::Esc
            || (key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL));
        if is_cancel {
            self.mode = Mode::Table;
            self.filter_error = None;
            if prompt == Prompt::Filter {
                self.set_filter("");
            }
        } else if key.code == KeyCode::Enter {
            if prompt == Prompt::Filter && self.filter_error.is_some() {
                return;
            }
            self.mode = Mode::Table;
            if prompt == Prompt::Search {
                self.search = edit.text();
                self.find_row(true, true);
            }
        } else if (key.code == KeyCode::Tab && prompt == Prompt::Filter && edit.complete()) || edit.press(key)
        {
            let text = edit.text();
            self.mode = Mode::Type(prompt, edit);
            if prompt == Prompt::Filter {
                self.set_filter(&text);
            }
        }
    }

    pub(super) fn set_filter(&mut self, text: &str) {
        match Filter::parse(text) {
            Ok(filter) => {
                self.filter = filter;
                text.clone_into(&mut self.filter_text);
                self.filter_error = None;
                self.rebuild();
            }
            Err(error) => self.filter_error = Some(error),
        }
    }

    pub(super) fn notify(&mut self, text: &str) {
        self.notice = Some(Notice { is_error: false, text: text.to_owned() });
    }
}
