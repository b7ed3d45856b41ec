// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view: tabs, tables, the selection, and popups above them.

use mpwatch_model::id::{ConnectionId, SubflowId};

use crate::aggregate::AggregateKey;
use crate::columns::{AGGREGATES_BY_PATH, AGGREGATES_BY_PEER, CONNECTIONS, Choice, ENERGY, RowKind};
use crate::state::edit::Edit;

mpwatch_model::words! {
    /// The five views in the order of their keys, with their titles.
    #[derive(Default)]
    pub enum Tab {
        /// Connections and their subflows.
        #[default]
        Connections = "Connections",
        /// Interfaces and pairs of addresses.
        Paths = "Paths",
        /// Zones and consumers of energy.
        Energy = "Energy",
        /// Peers, processes, namespaces, control groups.
        Peers = "Peers",
        /// The state of mpwatch itself.
        Health = "Health",
    }
}

impl Tab {
    /// The tab this many places further; after the last comes the first.
    pub(crate) fn after(self, places: usize) -> Self {
        Self::ALL[(self as usize + places) % Self::ALL.len()]
    }

    /// The columns that its table shows by default.
    pub(crate) fn columns(self) -> &'static [Choice] {
        match self {
            Self::Connections => CONNECTIONS,
            Self::Energy => ENERGY,
            Self::Paths => AGGREGATES_BY_PATH,
            Self::Peers => AGGREGATES_BY_PEER,
            Self::Health => &[],
        }
    }

    /// Whether its table can show the columns of some rows.
    pub(crate) fn has(self, rows: RowKind) -> bool {
        match self {
            Self::Connections | Self::Energy => rows != RowKind::Aggregates,
            Self::Paths | Self::Peers => rows != RowKind::Flows,
            Self::Health => false,
        }
    }
}

mpwatch_model::words! {
    /// The closed connections that are listed.
    #[derive(Default)]
    pub(crate) enum ClosedFilter {
        /// Closed connections of the snapshot.
        #[default]
        Recent = "recent",
        /// All that are remembered.
        All = "all",
        Hidden = "none",
    }
}

/// The subject of a row; the same in every snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Flow(ConnectionId, Option<SubflowId>),
    Aggregate(AggregateKey),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TableState {
    /// The column to sort by. `None`: by activity.
    pub(crate) sort: Option<&'static str>,
    pub(crate) reverse: bool,
    pub(crate) selected: Option<RowKey>,
    /// The user selected a row. Until then the selection is the top row.
    pub(crate) is_chosen: bool,
    pub(crate) index: usize,
    /// The first row that is drawn.
    pub(crate) offset: usize,
    /// Columns that the user shows or hides.
    pub(crate) columns: Vec<(&'static str, bool)>,
}

/// The popup or input line above the table.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// The help, scrolled by some lines.
    Help(usize),
    /// A list to choose from, and the selected line.
    Pick(Pick, usize),
    Type(Prompt, Edit),
}

mpwatch_model::words! {
    /// The lists to choose from, with their titles.
    pub(crate) enum Pick {
        Sort = "Sort by (enter; again to reverse)",
        Columns = "Columns (enter shows or hides; · if there is room)",
        Export = "Export the selection as",
    }
}

mpwatch_model::words! {
    /// The lines of text that the user types, with the words before them.
    pub(crate) enum Prompt {
        Filter = "filter: ",
        Search = "find: ",
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) id: ConnectionId,
    /// Lines of its timeline below the view; 0 shows the latest.
    pub(crate) scroll: usize,
}
