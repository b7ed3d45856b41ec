// SPDX-License-Identifier: MIT OR Apache-2.0
//! How events change the state. What is to be done outside is returned, never done here.

mod export;
mod lists;
mod point;
mod time;

pub(crate) use lists::Chosen;
use mpwatch_model::filter::Filter;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Closed, Detail, Event, Feed, Link, Mode, Notice, Pick, Request, Tab, Typing};
use super::areas::areas;
use super::draw::{detail, health};
use super::edit::Edit;
use super::key::{Action, Chord};
use super::rows::{RowKey, Rows};
use super::sums::SumKey;

impl App {
    /// Takes in an event.
    pub fn update(&mut self, event: Event) -> Option<Request> {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => None,
            Event::Key(key) => self.press(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.keep_in_view();
                None
            }
            Event::Feed(feed) => {
                self.feed(feed);
                None
            }
            Event::Notice(notice) => {
                self.notice = Some(notice);
                None
            }
        }
    }

    fn feed(&mut self, feed: Feed) {
        match feed {
            Feed::Snapshot(frame) => {
                self.mask.learn(&frame.snapshot.connections);
                if !matches!(self.link, Link::Up(_)) {
                    self.link = Link::Up(self.settings.origin.clone());
                }
                let before = self.history.latest();
                let turn = self.history.add(frame);
                // Who stepped to the newest snapshot of a replay asked for this one.
                if self.is_replay() && self.frozen == Some(before) {
                    self.frozen = Some(turn);
                }
                match self.frozen {
                    None => self.rebuild(),
                    // What was frozen is not kept any more: the oldest that is takes its place.
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
                self.link = link;
            }
        }
    }

    fn press(&mut self, key: KeyEvent) -> Option<Request> {
        self.notice = None;
        let action = self.settings.keys.action(Chord::of(key));
        if let Mode::Type(typing, edit) = &self.mode {
            return self.type_key(*typing, edit.clone(), key);
        }
        let action = action?;
        match self.mode {
            Mode::Help(scroll) => self.in_help(scroll, action),
            Mode::Pick(pick, place) => self.in_list(pick, place, action),
            Mode::Table | Mode::Type(..) => self.act(action),
        }
    }

    /// The filter is in force while it is typed, as far as it can be read.
    fn type_key(&mut self, typing: Typing, mut edit: Edit, key: KeyEvent) -> Option<Request> {
        let abort = key.code == KeyCode::Esc
            || (key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL));
        if abort {
            self.mode = Mode::Table;
            self.filter_error = None;
            if typing == Typing::Filter {
                self.set_filter("");
            }
        } else if key.code == KeyCode::Enter {
            if typing == Typing::Filter && self.filter_error.is_some() {
                return None;
            }
            self.mode = Mode::Table;
            if typing == Typing::Search {
                self.search = edit.text();
                self.hit(true, true);
            }
        } else if edit.take(key) {
            let text = edit.text();
            self.mode = Mode::Type(typing, edit);
            if typing == Typing::Filter {
                self.set_filter(&text);
            }
        }
        None
    }

    fn set_filter(&mut self, text: &str) {
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

    fn act(&mut self, action: Action) -> Option<Request> {
        match action {
            Action::Quit => return Some(Request::Quit { keep: false }),
            Action::QuitKeep => return Some(Request::Quit { keep: true }),
            Action::Suspend => return Some(Request::Suspend),
            Action::Redraw => return Some(Request::Redraw),
            Action::Help => self.mode = Mode::Help(0),
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-self.page()),
            Action::PageDown => self.step(self.page()),
            Action::First => self.step(isize::MIN / 2),
            Action::Last => self.step(isize::MAX / 2),
            Action::Open => self.open(),
            Action::Back => self.back(),
            Action::Fold | Action::Unfold | Action::FoldAll => self.fold(action),
            Action::Connections => self.go(Tab::Connections),
            Action::Paths => self.go(Tab::Paths),
            Action::Energy => self.go(Tab::Energy),
            Action::Peers => self.go(Tab::Peers),
            Action::Health => self.go(Tab::Health),
            Action::NextView => self.go(Tab::ALL[(self.tab.index() + 1) % Tab::ALL.len()]),
            Action::PreviousView => {
                self.go(Tab::ALL[(self.tab.index() + Tab::ALL.len() - 1) % Tab::ALL.len()]);
            }
            Action::Pause | Action::StepBack | Action::StepForward | Action::Slower | Action::Faster => {
                return self.time(action);
            }
            other => return self.show(other),
        }
        None
    }

    /// What is shown, and how.
    fn show(&mut self, action: Action) -> Option<Request> {
        let has_table = self.tab != Tab::Health && self.detail.is_none();
        match action {
            Action::Filter => self.mode = Mode::Type(Typing::Filter, Edit::new(&self.filter_text)),
            Action::Search if has_table => self.mode = Mode::Type(Typing::Search, Edit::new(&self.search)),
            Action::NextHit => self.hit(true, false),
            Action::PreviousHit => self.hit(false, false),
            Action::Sort if has_table => {
                let at = self.choices(Pick::Sort).iter().position(|(.., chosen)| *chosen == Chosen::Yes);
                self.mode = Mode::Pick(Pick::Sort, at.unwrap_or(0));
            }
            Action::Columns if has_table => self.mode = Mode::Pick(Pick::Columns, 0),
            Action::Export => self.mode = Mode::Pick(Pick::Export, 0),
            Action::Reverse => {
                self.table_mut().reverse = !self.table().reverse;
                self.rebuild();
            }
            Action::Grouping => {
                self.grouping = self.grouping.next();
                self.rebuild();
            }
            Action::Closed => {
                self.closed = match self.closed {
                    Closed::Lately => Closed::All,
                    Closed::All => Closed::Hidden,
                    Closed::Hidden => Closed::Lately,
                };
                self.say(match self.closed {
                    Closed::Lately => "closed connections: those that closed lately",
                    Closed::All => "closed connections: all that were seen, up to 1000",
                    Closed::Hidden => "closed connections: hidden",
                });
                self.rebuild();
            }
            Action::Bits => self.settings.units.bytes = !self.settings.units.bytes,
            Action::EnergyUnit => self.settings.units.watt_hours = !self.settings.units.watt_hours,
            Action::Theme => {
                self.settings.theme = self.settings.theme.next();
                self.say(&format!("theme: {}", self.settings.theme.as_str()));
            }
            Action::Mask => self.turn_mask(),
            _ => {}
        }
        None
    }

    fn say(&mut self, text: &str) {
        self.notice = Some(Notice { is_error: false, text: text.to_owned() });
    }

    fn turn_mask(&mut self) {
        self.mask.turn();
        if let Some(frame) = self.history.frame(self.turn()).cloned() {
            self.mask.learn(&frame.snapshot.connections);
            self.mask.learn(self.history.closed());
        }
        self.say(if self.mask.is_on() { "privacy mask on" } else { "privacy mask off" });
        self.rebuild();
    }

    fn go(&mut self, tab: Tab) {
        self.detail = None;
        self.tab = tab;
        self.rebuild();
    }

    fn page(&self) -> isize {
        isize::try_from(areas(self).page().max(2) - 1).unwrap_or(1)
    }

    fn step(&mut self, rows: isize) {
        let moved = |index: usize| index.saturating_add_signed(rows);
        if let Some(mut shown) = self.detail {
            shown.scroll =
                shown.scroll.saturating_add_signed(rows.saturating_neg()).min(detail::most_scroll(self));
            self.detail = Some(shown);
            return;
        }
        if self.tab == Tab::Health {
            let most = health::most_scroll(self);
            let table = self.table_mut();
            table.offset = table.offset.saturating_add_signed(rows).min(most);
            return;
        }
        let last = self.rows.len().saturating_sub(1);
        self.select(moved(self.table().index).min(last));
    }

    pub(crate) fn select(&mut self, index: usize) {
        let key = self.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
        table.is_chosen = true;
        self.keep_in_view();
    }

    /// Moves the table so that the selected row is on the screen.
    pub(crate) fn keep_in_view(&mut self) {
        if self.tab == Tab::Health {
            return;
        }
        let page = areas(self).page().max(1);
        let rows = self.rows.len();
        let table = self.table_mut();
        table.offset = table.offset.clamp((table.index + 1).saturating_sub(page), table.index);
        table.offset = table.offset.min(rows.saturating_sub(page));
        self.make_visible(page);
    }

    /// Sums are made only where they are looked at.
    fn make_visible(&mut self, page: usize) {
        // A line above the table may go without anything else that happens.
        let page = page + 3;
        let offset = self.table().offset;
        let made = match &self.rows {
            Rows::Sums(sums) if !sums.has_made(offset, page) => sums.make(self, offset, page),
            _ => return,
        };
        if let Rows::Sums(sums) = &mut self.rows {
            sums.keep(made);
        }
    }

    fn open(&mut self) {
        match self.table().selected {
            _ if self.detail.is_some() || self.tab == Tab::Health => {}
            Some(RowKey::Flow(id, _)) => self.detail = Some(Detail { id, scroll: 0 }),
            // From a sum to its connections.
            Some(RowKey::Sum(key)) => self.narrow_to(key),
            None => {}
        }
    }

    fn narrow_to(&mut self, key: SumKey) {
        if self.mask.is_on() {
            self.say("the privacy mask is on: a filter would show the name");
            return;
        }
        let filter = match key {
            SumKey::Path { interface, local, remote, .. } => {
                let interface = interface.map(|name| format!(" iface:{name}")).unwrap_or_default();
                format!("local:{local} peer:{remote}{interface}")
            }
            SumKey::Peer(ip) => ip.map(|ip| format!("peer:{ip}")).unwrap_or_default(),
            SumKey::Process(name) => name.map(|name| format!("proc:{name}")).unwrap_or_default(),
            SumKey::Namespace(_) => {
                let netns = self.filtered().map(|(_, one)| one).find(|one| key.holds(*one));
                netns.map(|one| format!("netns:{}", one.connection.netns)).unwrap_or_default()
            }
        };
        if !filter.is_empty() && Filter::parse(&filter).is_ok() {
            self.tab = Tab::Connections;
            self.set_filter(&filter);
        } else {
            self.say("no filter can say this name");
        }
    }

    fn back(&mut self) {
        if self.detail.take().is_some() {
            self.keep_in_view();
        } else if !self.filter_text.is_empty() {
            self.set_filter("");
        }
    }

    fn fold(&mut self, action: Action) {
        if self.tab != Tab::Connections || self.detail.is_some() {
            return;
        }
        if action == Action::FoldAll {
            self.all_folded = !self.all_folded;
            self.folded.clear();
        } else if let Some(RowKey::Flow(id, _)) = self.table().selected {
            let wanted = action == Action::Fold;
            if self.is_folded(id) != wanted && !self.folded.remove(&id) {
                self.folded.insert(id);
            }
        }
        self.rebuild();
    }
}
