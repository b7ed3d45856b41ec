// SPDX-License-Identifier: MIT OR Apache-2.0
//! The selections of the user: tab, sort column, row, and the open popup or input line.

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
    /// The columns that the table of this tab has by default.
    pub(crate) fn columns(self) -> &'static [Choice] {
        match self {
            Self::Connections => CONNECTIONS,
            Self::Energy => ENERGY,
            Self::Paths => AGGREGATES_BY_PATH,
            Self::Peers => AGGREGATES_BY_PEER,
            Self::Health => &[],
        }
    }

    /// Whether the table of this tab can have columns for this kind of rows.
    pub(crate) fn has(self, rows: RowKind) -> bool {
        match self {
            Self::Connections | Self::Energy => rows != RowKind::Aggregates,
            Self::Paths | Self::Peers => rows != RowKind::Flows,
            Self::Health => false,
        }
    }
}

mpwatch_model::words! {
    /// Which closed connections the tables list.
    #[derive(Default)]
    pub(crate) enum ClosedFilter {
        /// The closed connections in the shown snapshot.
        #[default]
        Recent = "recent",
        /// All remembered closed connections.
        All = "all",
        Hidden = "none",
    }
}

/// Identifies the connection, subflow or aggregate of a row across snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Flow(ConnectionId, Option<SubflowId>),
    Aggregate(AggregateKey),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TableState {
    /// The key of the column by which rows are sorted. `None`: the default order of the tab.
    pub(crate) sort: Option<&'static str>,
    pub(crate) reverse: bool,
    pub(crate) selected: Option<RowKey>,
    /// Whether the user has selected a row. If not, the top row is selected.
    pub(crate) is_chosen: bool,
    pub(crate) index: usize,
    /// Index of the first row that is drawn.
    pub(crate) offset: usize,
    /// Columns that the user added or removed, and whether each is shown.
    pub(crate) columns: Vec<(&'static str, bool)>,
}

/// The part of the screen that receives the keys: the table, or an open popup or input line.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// The help, scrolled by this number of lines.
    Help(usize),
    /// A list from which the user chooses, and its selected line.
    Pick(Pick, usize),
    Type(Prompt, Edit),
}

mpwatch_model::words! {
    /// The lists from which the user chooses, with their titles.
    pub(crate) enum Pick {
        Sort = "Sort by (enter; again to reverse)",
        Columns = "Columns (enter shows or hides; · if there is room)",
        Export = "Export the selection as",
    }
}

mpwatch_model::words! {
    /// The input lines, with the prompt before the text.
    pub(crate) enum Prompt {
        Filter = "filter: ",
        Search = "find: ",
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) id: ConnectionId,
    /// Number of lines by which the timeline is scrolled up from its latest event.
    pub(crate) scroll: usize,
}
