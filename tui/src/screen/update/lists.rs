// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is open above the table: the help, and the lists to choose from.

use super::super::app::{App, ExportFormat, Mode, Pick, Request};
use super::super::columns::{self, Choice};
use super::super::draw::popup;
use super::super::key::Action;

/// How far a line of a list is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    Yes,
    /// A column that is shown where there is room for it.
    WithRoom,
    No,
}

impl Chosen {
    fn of(key: &str, shown: &[Choice]) -> Self {
        match shown.iter().find(|choice| choice.key == key) {
            Some(choice) if choice.extra => Self::WithRoom,
            Some(_) => Self::Yes,
            None => Self::No,
        }
    }

    /// What stands before the line.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Yes => "✓ ",
            Self::WithRoom => "· ",
            Self::No => "  ",
        }
    }
}

impl App {
    pub(super) fn in_help(&mut self, scroll: usize, action: Action) -> Option<Request> {
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
            *scroll = (*scroll).min(popup::help_height(self.size).saturating_sub(page));
        }
        None
    }

    pub(super) fn in_list(&mut self, pick: Pick, place: usize, action: Action) -> Option<Request> {
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

    /// The lines of a list: what it chooses, and how far it is chosen at present.
    pub(crate) fn choices(&self, pick: Pick) -> Vec<(String, String, Chosen)> {
        match pick {
            Pick::Export => ExportFormat::ALL
                .iter()
                .map(|format| {
                    (format.description().0.to_owned(), format!(".{}", format.description().1), Chosen::No)
                })
                .collect(),
            Pick::Sort => {
                let state = self.table();
                let chosen = |key| if state.sort == key { Chosen::Yes } else { Chosen::No };
                let usual = ("activity".to_owned(), "the usual order".to_owned(), chosen(None));
                let of = columns::of_tab(self.tab).into_iter();
                let all = of.map(|c| (c.title.to_owned(), c.help.to_owned(), chosen(Some(c.key))));
                std::iter::once(usual).chain(all).collect()
            }
            Pick::Columns => {
                let shown = columns::shown(self, self.tab);
                let of = columns::of_tab(self.tab).into_iter();
                of.map(|c| (c.title.to_owned(), c.help.to_owned(), Chosen::of(c.key, &shown))).collect()
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
                let is_shown = Chosen::of(key, &columns::shown(self, self.tab)) == Chosen::Yes;
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
    pub(super) fn sort_by(&mut self, key: Option<&'static str>) {
        let table = self.table_mut();
        table.reverse = table.sort == key && key.is_some() && !table.reverse;
        table.sort = key;
        self.rebuild();
    }
}
