// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown and selected: tabs, tables, and what is open above them.

use mpwatch_model::id::{ConnectionId, SubflowId};

use crate::aggregate::AggregateKey;
use crate::columns::{AGGREGATES_BY_PATH, AGGREGATES_BY_PEER, CONNECTIONS, Choice, ENERGY, Rows};
use crate::state::edit::Edit;

/// The five views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Connections and their subflows.
    #[default]
    Connections,
    /// Interfaces and pairs of addresses.
    Paths,
    /// Zones and consumers of energy.
    Energy,
    /// Peers, processes, namespaces.
    Peers,
    /// mpwatch itself.
    Health,
}

impl Tab {
    /// In the order of their keys.
    pub const ALL: [Self; 5] = [Self::Connections, Self::Paths, Self::Energy, Self::Peers, Self::Health];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Connections => "Connections",
            Self::Paths => "Paths",
            Self::Energy => "Energy",
            Self::Peers => "Peers",
            Self::Health => "Health",
        }
    }

    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or(0)
    }

    /// The tab this many places further; after the last comes the first.
    pub(crate) fn after(self, places: usize) -> Self {
        Self::ALL[(self.index() + places) % Self::ALL.len()]
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
    pub(crate) fn has(self, rows: Rows) -> bool {
        match self {
            Self::Connections | Self::Energy => rows != Rows::Aggregates,
            Self::Paths | Self::Peers => rows != Rows::Flows,
            Self::Health => false,
        }
    }
}

/// Which closed connections are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Those of the snapshot.
    #[default]
    Recent,
    /// All that are remembered.
    All,
    Hidden,
}

/// What a row is about; the same in every snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Flow(ConnectionId, Option<SubflowId>),
    Aggregate(AggregateKey),
}

/// The table of a tab.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableState {
    /// The column to sort by. `None`: by activity.
    pub(crate) sort: Option<&'static str>,
    pub(crate) reverse: bool,
    pub(crate) selected: Option<RowKey>,
    /// The user selected a row. Until then the top of the table stays in view.
    pub(crate) is_chosen: bool,
    /// The selected row.
    pub(crate) index: usize,
    /// The first row that is drawn.
    pub(crate) offset: usize,
    /// Columns that the user shows or hides.
    pub(crate) columns: Vec<(&'static str, bool)>,
}

/// What is open above the table.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// The help, scrolled by some lines.
    Help(usize),
    /// A list to choose from, and the selected line.
    Pick(Pick, usize),
    /// A line of text.
    Type(Prompt, Edit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    Sort,
    Columns,
    Export,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    Filter,
    Search,
}

/// One connection in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) id: ConnectionId,
    /// Lines of its timeline below the view; 0 shows the latest.
    pub(crate) scroll: usize,
}
