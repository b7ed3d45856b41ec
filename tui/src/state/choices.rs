// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of the lists from which the user chooses a column or an export format.

use crate::columns::{COLUMNS, Column};
use crate::state::app::App;
use crate::state::message::ExportFormat;
use crate::state::view::{Pick, Tab};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Chosen,
    /// A column that is shown if there is room for it.
    IfRoom,
    None,
}

pub(crate) struct ListItem {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) mark: Mark,
}

/// The columns that the table of a tab can have.
pub(crate) fn columns_of(tab: Tab) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| tab.has(column.rows)).collect()
}

pub(crate) fn choices(app: &App, pick: Pick) -> Vec<ListItem> {
    let columns = columns_of(app.tab).into_iter();
    let item = |(name, help), mark| ListItem { name, help, mark };
    let texts = |column: &Column| (column.title, column.help);
    match pick {
        Pick::Export => {
            ExportFormat::ALL.iter().map(|format| item(format.description(), Mark::None)).collect()
        }
        Pick::Sort => {
            let mark = |key| if app.table().sort == key { Mark::Chosen } else { Mark::None };
            let default = item(("activity", "the default order"), mark(None));
            let columns = columns.map(|column| item(texts(column), mark(Some(column.key))));
            std::iter::once(default).chain(columns).collect()
        }
        Pick::Columns => columns.map(|column| item(texts(column), mark_of(app, column.key))).collect(),
    }
}

pub(crate) fn mark_of(app: &App, key: &str) -> Mark {
    match app.columns().iter().find(|choice| choice.key == key) {
        Some(choice) if choice.is_extra => Mark::IfRoom,
        Some(_) => Mark::Chosen,
        None => Mark::None,
    }
}
