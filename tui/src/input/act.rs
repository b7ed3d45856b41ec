// SPDX-License-Identifier: MIT OR Apache-2.0
//! Performs the actions of the user.

use mpwatch_model::filter::Filter;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::Report;

use crate::aggregate::AggregateKey;
use crate::digest::PathKey;
use crate::history::MAX_CLOSED;
use crate::state::app::{App, FlowRow, Rows};
use crate::state::choices::{Mark, choices};
use crate::state::edit::Edit;
use crate::state::key::Action;
use crate::state::message::{ExportFormat, Request};
use crate::state::view::{ClosedFilter, Detail, Mode, Pick, Prompt, RowKey, Tab};

impl App {
    pub(super) fn act_in_mode(&mut self, action: Action) -> Option<Request> {
        match self.mode {
            Mode::Help(scroll) => self.in_help(scroll, action),
            Mode::Pick(pick, line) => self.in_list(pick, line, action),
            Mode::Table | Mode::Type(..) => self.act(action),
        }
    }

    pub(super) fn act(&mut self, action: Action) -> Option<Request> {
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
            Action::Connections | Action::Paths | Action::Energy | Action::Peers | Action::Health => {
                self.show_tab(Tab::ALL[action as usize - Action::Connections as usize]);
            }
            Action::NextView => self.show_tab(self.tab.next()),
            Action::PreviousView => {
                self.show_tab(Tab::ALL[(self.tab as usize + Tab::ALL.len() - 1) % Tab::ALL.len()]);
            }
            Action::Pause | Action::StepBack | Action::StepForward | Action::Slower | Action::Faster => {
                return self.time(action);
            }
            other => self.show(other),
        }
        None
    }

    /// Performs the actions that change the content of the table or its format.
    fn show(&mut self, action: Action) {
        let has_table = self.tab != Tab::Health && self.detail.is_none();
        match action {
            Action::Filter => self.mode = Mode::Type(Prompt::Filter, Edit::new(&self.filter_text)),
            Action::Search if has_table => self.mode = Mode::Type(Prompt::Search, Edit::new(&self.search)),
            Action::NextProblem => self.next_problem(),
            Action::NextHit => self.find_row(true, false),
            Action::PreviousHit => self.find_row(false, false),
            Action::Sort if has_table => {
                let chosen = choices(self, Pick::Sort).iter().position(|item| item.mark == Mark::Chosen);
                self.mode = Mode::Pick(Pick::Sort, chosen.unwrap_or(0));
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
            Action::Closed => self.show_closed(),
            Action::Bits => self.settings.units.bytes = !self.settings.units.bytes,
            Action::EnergyUnit => self.settings.units.watt_hours = !self.settings.units.watt_hours,
            Action::Theme => {
                self.settings.theme = self.settings.theme.next();
                self.notify(&format!("theme: {}", self.settings.theme.as_str()));
            }
            Action::Mask => self.toggle_mask(),
            _ => {}
        }
    }

    /// Selects the next connection with a problem.
    fn next_problem(&mut self) {
        if self.tab != Tab::Connections || self.detail.is_some() {
            self.show_tab(Tab::Connections);
        }
        let Rows::Flows(rows) = &self.rows else { return };
        let has_problem = |row: &FlowRow| {
            let entry = self.context().entry(row.location).filter(|_| row.subflow.is_none());
            entry.is_some_and(|entry| entry.digest.problem.is_some())
        };
        let after = (self.table().index + 1..rows.len()).chain(0..rows.len());
        match after.into_iter().find(|index| has_problem(&rows[*index])) {
            Some(index) => self.select(index),
            None => self.notify("no connection in the table has a problem"),
        }
    }

    fn show_closed(&mut self) {
        self.closed = self.closed.next();
        let most =
            if self.closed == ClosedFilter::All { format!(", up to {MAX_CLOSED}") } else { String::new() };
        self.notify(&format!("closed connections: {}{most}", self.closed.as_str()));
        self.rebuild();
    }

    fn toggle_mask(&mut self) {
        self.mask.is_on = !self.mask.is_on;
        if let Some(frame) = self.history.frame(self.tick()).cloned() {
            self.mask.learn(&frame.snapshot.connections);
            self.mask.learn(self.history.closed());
        }
        self.notify(if self.mask.is_on { "privacy mask on" } else { "privacy mask off" });
        self.rebuild();
    }

    pub(super) fn show_tab(&mut self, tab: Tab) {
        self.detail = None;
        self.tab = tab;
        self.rebuild();
    }

    /// Opens the detail view of the selected connection, or filters by the selected aggregate.
    pub(super) fn open(&mut self) {
        match self.table().selected {
            _ if self.detail.is_some() || self.tab == Tab::Health => {}
            Some(RowKey::Flow(id, _)) => {
                self.table_mut().is_chosen = true;
                self.detail = Some(Detail { id, scroll: 0 });
            }
            Some(RowKey::Aggregate(key)) => self.filter_by(key),
            None => {}
        }
    }

    fn filter_by(&mut self, key: AggregateKey) {
        if self.mask.is_on {
            self.notify("the privacy mask is on: a filter would show the name");
            return;
        }
        let filter = match key {
            AggregateKey::Path(PathKey { interface, local, remote, .. }) => {
                let interface = interface.map(|name| format!(" iface:={name}")).unwrap_or_default();
                Some(format!("local:{local} peer:{remote}{interface}"))
            }
            AggregateKey::Peer(ip) => ip.map(|ip| format!("peer:{ip}")),
            AggregateKey::Process(name) => name.map(|name| format!("proc:={name}")),
            AggregateKey::Namespace(_) | AggregateKey::ControlGroup(_) => {
                let mut entries = self.filtered().map(|(_, entry)| entry);
                let example = entries.find(|entry| key.contains(*entry)).map(|entry| entry.connection);
                example.and_then(|connection| match key {
                    AggregateKey::Namespace(_) => Some(format!("netns:={}", connection.netns)),
                    _ => Some(format!("cgroup:={}", connection.cgroup.as_ref()?)),
                })
            }
        };
        match filter.filter(|filter| Filter::parse(filter).is_ok()) {
            Some(filter) => {
                self.tab = Tab::Connections;
                self.set_filter(&filter);
            }
            None => self.notify("no filter can express this name"),
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
            self.table_mut().is_chosen = true;
            let wanted = action == Action::Fold;
            if self.is_folded(id) != wanted && !self.folded.remove(&id) {
                self.folded.insert(id);
            }
        }
        self.rebuild();
    }

    /// A request to export the selected connection or the connections of the selected aggregate. `None`: nothing is selected.
    pub(super) fn export(&mut self, format: ExportFormat) -> Option<Request> {
        let connections: Vec<Connection> = match (&self.detail, &self.table().selected) {
            (None, Some(RowKey::Aggregate(key))) => {
                let entries = self.filtered().map(|(_, entry)| entry).filter(|entry| key.contains(*entry));
                entries.map(|entry| entry.connection.clone()).collect()
            }
            _ => self.selected().cloned().into_iter().collect(),
        };
        let snapshot = self.snapshot()?;
        let report = Report::from_snapshot(snapshot, connections);
        if report.connections.is_empty() {
            self.notify("nothing is selected");
            return None;
        }
        let report = if self.mask.is_on { self.mask.report(report) } else { report };
        Some(Request::Export(Box::new(report), format))
    }
}
