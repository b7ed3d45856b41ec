// SPDX-License-Identifier: MIT OR Apache-2.0
//! How events change the state. What is to be done outside is returned, never done here.

use std::time::Duration;

use mpwatch_model::filter::Filter;
use mpwatch_model::snapshot::{Report, Run};
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::app::{
    App, Closed, Detail, Event, ExportFormat, Feed, Link, Mode, Notice, Origin, Pick, Request, Tab, Typing,
};
use super::areas::areas;
use super::columns;
use super::edit::Edit;
use super::key::{Action, Chord};
use super::rows::RowKey;

/// Intervals that the two keys go through.
const INTERVALS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

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
            Feed::Snapshot(snapshot) => {
                self.mask.learn(&snapshot.connections);
                if !matches!(self.link, Link::Up(_)) {
                    self.link = Link::Up(self.settings.origin.clone());
                }
                let before = self.history.latest();
                let turn = self.history.add(snapshot);
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

    fn in_help(&mut self, scroll: usize, action: Action) -> Option<Request> {
        let page = usize::from(self.size.1).saturating_sub(4).max(1);
        self.mode = match action {
            Action::Up => Mode::Help(scroll.saturating_sub(1)),
            Action::Down => Mode::Help(scroll + 1),
            Action::PageUp => Mode::Help(scroll.saturating_sub(page)),
            Action::PageDown => Mode::Help(scroll + page),
            Action::First => Mode::Help(0),
            Action::Help | Action::Back | Action::Open => Mode::Table,
            other => {
                self.mode = Mode::Table;
                return self.act(other);
            }
        };
        if let Mode::Help(scroll) = &mut self.mode {
            *scroll = (*scroll).min(super::draw::popup::help_height(self.size).saturating_sub(page));
        }
        None
    }

    fn in_list(&mut self, pick: Pick, place: usize, action: Action) -> Option<Request> {
        let count = self.choices(pick).len();
        let last = count.saturating_sub(1);
        match action {
            Action::Up => self.mode = Mode::Pick(pick, place.saturating_sub(1)),
            Action::Down => self.mode = Mode::Pick(pick, (place + 1).min(last)),
            Action::PageUp => self.mode = Mode::Pick(pick, place.saturating_sub(10)),
            Action::PageDown => self.mode = Mode::Pick(pick, (place + 10).min(last)),
            Action::First => self.mode = Mode::Pick(pick, 0),
            Action::Last => self.mode = Mode::Pick(pick, last),
            Action::Reverse if pick == Pick::Sort => {
                self.table_mut().reverse = !self.table().reverse;
                self.rebuild();
            }
            // The space bar chooses too, as in every other list of boxes to tick.
            Action::Open | Action::Pause => return self.choose(pick, place),
            Action::Quit => return Some(Request::Quit { keep: false }),
            _ => self.mode = Mode::Table,
        }
        None
    }

    /// The lines of a list: what it chooses, and whether it is chosen at present.
    pub(crate) fn choices(&self, pick: Pick) -> Vec<(String, String, bool)> {
        match pick {
            Pick::Export => ExportFormat::ALL
                .iter()
                .map(|format| (format.words().0.to_owned(), format!(".{}", format.words().1), false))
                .collect(),
            Pick::Sort => {
                let state = self.table();
                let usual = ("activity".to_owned(), "the usual order".to_owned(), state.sort.is_none());
                let of = columns::of_tab(self.tab).into_iter();
                let all = of.map(|c| (c.title.to_owned(), c.help.to_owned(), state.sort == Some(c.key)));
                std::iter::once(usual).chain(all).collect()
            }
            Pick::Columns => {
                let shown = columns::shown(self, self.tab);
                let is_shown = |key| shown.iter().any(|choice| choice.key == key);
                let of = columns::of_tab(self.tab).into_iter();
                of.map(|c| (c.title.to_owned(), c.help.to_owned(), is_shown(c.key))).collect()
            }
        }
    }

    fn choose(&mut self, pick: Pick, place: usize) -> Option<Request> {
        match pick {
            Pick::Sort => {
                let key =
                    place.checked_sub(1).and_then(|at| columns::of_tab(self.tab).get(at).map(|c| c.key));
                self.sort_by(key);
                self.mode = Mode::Table;
                None
            }
            Pick::Columns => {
                let key = columns::of_tab(self.tab).get(place).map(|c| c.key)?;
                let is_shown = columns::shown(self, self.tab).iter().any(|choice| choice.key == key);
                let table = self.table_mut();
                table.columns.retain(|(other, _)| *other != key);
                table.columns.push((key, !is_shown));
                None
            }
            Pick::Export => {
                self.mode = Mode::Table;
                let format = *ExportFormat::ALL.get(place)?;
                self.export(format)
            }
        }
    }

    /// The same column once more turns the order round.
    fn sort_by(&mut self, key: Option<&'static str>) {
        let table = self.table_mut();
        table.reverse = table.sort == key && key.is_some() && !table.reverse;
        table.sort = key;
        self.rebuild();
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
            Action::Sort if has_table => self.mode = Mode::Pick(Pick::Sort, 0),
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
                self.say(&format!("theme: {}", self.settings.theme.word()));
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
            self.mask.learn(&frame.connections);
            self.mask.learn(self.history.closed());
        }
        self.say(if self.mask.is_on() { "privacy mask on" } else { "privacy mask off" });
        self.rebuild();
    }

    fn time(&mut self, action: Action) -> Option<Request> {
        match action {
            Action::Pause => {
                self.frozen = if self.frozen.is_some() { None } else { Some(self.history.latest()) };
                self.rebuild();
                let plays = self.frozen.is_none();
                self.is_replay().then_some(Request::Play(plays))
            }
            Action::StepBack => {
                let was_running = self.frozen.is_none();
                let turn = self.turn().saturating_sub(1).max(self.history.oldest());
                self.frozen = Some(turn);
                self.rebuild();
                (was_running && self.is_replay()).then_some(Request::Play(false))
            }
            Action::StepForward => {
                let turn = self.turn();
                let was_running = self.frozen.is_none();
                if turn < self.history.latest() {
                    self.frozen = Some(turn + 1);
                    self.rebuild();
                    return None;
                }
                self.frozen = Some(turn);
                match (self.is_replay(), was_running) {
                    (true, true) => Some(Request::Play(false)),
                    (true, false) => Some(Request::Step),
                    (false, _) => None,
                }
            }
            _ => self.pace(action == Action::Slower),
        }
    }

    fn pace(&mut self, slower: bool) -> Option<Request> {
        if let Origin::Daemon(_) = self.settings.origin {
            self.say("the interval is the daemon's: set `interval` in its configuration");
            return None;
        }
        let shown = self.snapshot().map_or(1.0, |snapshot| snapshot.interval_s);
        let current = self.interval.map_or(shown, |interval| interval.as_secs_f64());
        let millis = |place: &u64| *place as f64 / 1e3;
        let next = if slower {
            INTERVALS.iter().find(|place| millis(place) > current * 1.2)
        } else {
            INTERVALS.iter().rev().find(|place| millis(place) < current * 0.8)
        };
        let interval = Duration::from_millis(*next?);
        self.interval = Some(interval);
        let what = if self.is_replay() { "a snapshot is shown for" } else { "interval" };
        self.say(&format!(
            "{what} {}",
            mpwatch_model::metric::display(
                mpwatch_model::metric::Unit::Seconds,
                Some(interval.as_secs_f64())
            )
        ));
        Some(Request::Interval(interval))
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
        if let Some(detail) = &mut self.detail {
            detail.scroll = moved(detail.scroll);
            let most = super::draw::detail::most_scroll(self);
            if let Some(detail) = &mut self.detail {
                detail.scroll = detail.scroll.min(most);
            }
            return;
        }
        if self.tab == Tab::Health {
            let most = super::draw::health::most_scroll(self);
            let table = self.table_mut();
            table.offset = table.offset.saturating_add_signed(rows).min(most);
            return;
        }
        let last = self.rows.len().saturating_sub(1);
        self.select(moved(self.table().index).min(last));
    }

    pub(crate) fn select(&mut self, index: usize) {
        let key = self.rows.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
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
    }

    fn open(&mut self) {
        match self.table().selected.clone() {
            _ if self.detail.is_some() || self.tab == Tab::Health => {}
            Some(RowKey::Flow(id, _)) => self.detail = Some(Detail { id, scroll: 0 }),
            // From a sum to its connections.
            Some(RowKey::Sum(key)) => self.narrow_to(&key),
            None => {}
        }
    }

    fn narrow_to(&mut self, key: &str) {
        if self.mask.is_on() {
            self.say("the privacy mask is on: a filter would show the name");
            return;
        }
        let filter = match self.tab {
            Tab::Paths => {
                let mut parts = key.split(' ').skip(1);
                let (interface, local, remote) = (parts.next(), parts.next(), parts.next());
                let interface =
                    interface.filter(|name| !name.is_empty()).map(|name| format!(" iface:{name}"));
                format!(
                    "local:{} peer:{}{}",
                    local.unwrap_or_default(),
                    remote.unwrap_or_default(),
                    interface.unwrap_or_default()
                )
            }
            _ => match self.grouping {
                super::rows::Grouping::Peer => format!("peer:{key}"),
                super::rows::Grouping::Process => format!("proc:{key}"),
                super::rows::Grouping::Namespace => format!("netns:{key}"),
            },
        };
        if Filter::parse(&filter).is_ok() {
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

    fn export(&mut self, format: ExportFormat) -> Option<Request> {
        if self.mask.is_on() {
            self.say("the privacy mask is on, and a file would hold everything: switch it off first");
            return None;
        }
        let snapshot = self.snapshot()?;
        let connections: Vec<_> = match (&self.detail, &self.table().selected) {
            (None, Some(RowKey::Sum(key))) => {
                let super::rows::Rows::Sums(sums) = &self.rows else { return None };
                let sum = sums.iter().find(|sum| sum.key == *key)?;
                sum.connections.iter().filter_map(|id| self.find(*id)).cloned().collect()
            }
            _ => self.selected().cloned().into_iter().collect(),
        };
        if connections.is_empty() {
            self.say("nothing is selected");
            return None;
        }
        let run = Run { host: snapshot.host.clone(), from: snapshot.at, to: snapshot.at };
        let report = Report {
            schema: snapshot.schema,
            run,
            connections,
            counters: snapshot.counters,
            cpus: snapshot.cpus.clone(),
            energy: snapshot.energy.clone(),
            losses: snapshot.losses,
        };
        Some(Request::Export(Box::new(report), format))
    }

    /// The next row, or the one before, that has the text that is searched for.
    fn hit(&mut self, forward: bool, from_here: bool) {
        if self.search.is_empty() || self.detail.is_some() {
            return;
        }
        let rows = self.rows.len();
        let wanted = self.search.to_lowercase();
        let start = self.table().index;
        let candidates = (0..rows).map(|step| {
            let step = step + usize::from(!from_here);
            if forward { (start + step) % rows } else { (start + rows - step % rows) % rows }
        });
        let found = candidates
            .into_iter()
            .find(|&row| super::draw::table::row_text(self, row).to_lowercase().contains(&wanted));
        match found {
            Some(row) => self.select(row),
            None => self.say(&format!("`{}` is in no row", self.search)),
        }
    }

    fn mouse(&mut self, event: MouseEvent) -> Option<Request> {
        let (column, row) = (event.column, event.row);
        match (event.kind, &self.mode) {
            (MouseEventKind::ScrollDown, Mode::Table) => self.step(3),
            (MouseEventKind::ScrollUp, Mode::Table) => self.step(-3),
            (MouseEventKind::ScrollDown, Mode::Help(_)) => return self.act_in_mode(Action::Down),
            (MouseEventKind::ScrollUp, Mode::Help(_)) => return self.act_in_mode(Action::Up),
            (MouseEventKind::Down(MouseButton::Left), Mode::Table) => self.click(column, row),
            (MouseEventKind::Down(MouseButton::Left), Mode::Help(_) | Mode::Pick(..)) => {
                self.mode = Mode::Table
            }
            _ => {}
        }
        None
    }

    fn act_in_mode(&mut self, action: Action) -> Option<Request> {
        match self.mode {
            Mode::Help(scroll) => self.in_help(scroll, action),
            _ => self.act(action),
        }
    }

    fn click(&mut self, column: u16, row: u16) {
        let areas = areas(self);
        if row == areas.tabs.y {
            if let Some(tab) = super::draw::header::tab_at(column) {
                self.go(tab);
            }
        } else if self.detail.is_none() && row == areas.body.y {
            if let Some(key) = super::draw::table::column_at(self, column) {
                self.sort_by(Some(key));
            }
        } else if self.detail.is_none() && row > areas.body.y && row < areas.body.bottom() {
            let index = self.table().offset + usize::from(row - areas.body.y - 1);
            if index < self.rows.len() {
                // Once more on the same row opens it.
                if index == self.table().index {
                    self.open();
                } else {
                    self.select(index);
                }
            }
        }
    }
}
