// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen. Events change the state, drawing reads it. The state performs no I/O and reads no clock.

use std::collections::HashSet;
use std::time::Duration;

use mpwatch_model::filter::{Filter, FilterError};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::id::ConnectionId;
use mpwatch_model::snapshot::Snapshot;

use crate::aggregate::Grouping;
use crate::columns::{Choice, Fold, Row, Subject, chosen, find, is_of_energy, known};
use crate::context::{Context, Location};
use crate::digest::{Digested, Totals};
use crate::history::{History, Tick};
use crate::mask::Mask;
use crate::state::aggregates::Aggregates;
use crate::state::message::{Link, Notice};
use crate::state::settings::{Origin, Settings};
use crate::state::view::{ClosedFilter, Detail, Mode, RowKey, Tab, TableState};

/// A row of the connections view: a connection, or one of its subflows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRow {
    pub(crate) location: Location,
    pub(crate) id: ConnectionId,
    /// Index of the subflow. `None`: the row of the connection itself.
    pub(crate) subflow: Option<usize>,
}

impl FlowRow {
    /// The row with the data that its cells read. `None`: the connection is no longer remembered.
    pub(crate) fn row(self, context: Context<'_>, fold: Fold) -> Option<Row<'_>> {
        let connection = context.find(self.id, Some(self.location))?;
        let subject = match self.subflow {
            None => Subject::Connection(connection, fold),
            Some(index) => Subject::Subflow { connection, index, subflow: connection.subflows.get(index)? },
        };
        Some(Row { context, subject })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Rows {
    #[default]
    None,
    Flows(Vec<FlowRow>),
    Aggregates(Box<Aggregates>),
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Flows(rows) => rows.len(),
            Self::Aggregates(aggregates) => aggregates.len(),
        }
    }

    fn flow(&self, index: usize) -> Option<FlowRow> {
        if let Self::Flows(rows) = self { rows.get(index).copied() } else { None }
    }
}

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct App {
    pub(crate) settings: Settings,
    /// Columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    pub(crate) link: Link,
    pub(crate) history: History,
    /// The tick that is shown while the screen is frozen. `None`: the latest snapshot is shown.
    pub(crate) frozen: Option<Tick>,
    /// The interval that the user chose. `None`: the user has not chosen an interval.
    pub(crate) interval: Option<Duration>,
    /// The tab that is shown.
    pub tab: Tab,
    pub(crate) tables: [TableState; 5],
    pub(crate) grouping: Grouping,
    pub(crate) detail: Option<Detail>,
    pub(crate) mode: Mode,
    pub(crate) filter: Filter,
    pub(crate) filter_text: String,
    pub(crate) filter_error: Option<FilterError>,
    pub(crate) search: String,
    /// Connections whose fold differs from `all_folded`.
    pub(crate) folded: HashSet<ConnectionId>,
    pub(crate) all_folded: bool,
    pub(crate) closed: ClosedFilter,
    pub(crate) mask: Mask,
    pub(crate) notice: Option<Notice>,
    pub(crate) rows: Rows,
}

impl App {
    /// The state of a screen of `size` (columns, rows) before the first snapshot.
    pub fn new(settings: Settings, size: (u16, u16)) -> Self {
        let mut app = Self { size, filter_text: settings.filter.clone(), ..Self::default() };
        for table in &mut app.tables {
            table.columns = known(&settings.columns);
        }
        app.tables[0].sort = settings.sort.as_deref().and_then(find).map(|column| column.key);
        app.filter = Filter::parse(&app.filter_text).unwrap_or_default();
        app.settings = settings;
        app
    }

    pub(crate) fn tick(&self) -> Tick {
        self.frozen.unwrap_or_else(|| self.history.latest())
    }

    /// The snapshot that is shown, with its digest. `None`: no snapshot has arrived.
    pub(crate) fn digested(&self) -> Option<&Digested> {
        self.history.frame(self.tick()).map(AsRef::as_ref)
    }

    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.digested().map(|frame| &*frame.snapshot)
    }

    pub(crate) fn totals(&self) -> Totals {
        self.digested().map(|frame| frame.digest.totals).unwrap_or_default()
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            frame: self.digested(),
            history: &self.history,
            tick: self.tick(),
            mask: &self.mask,
            units: self.settings.units,
        }
    }

    /// Frees memory that is no longer needed. To be called after drawing, because freeing can take longer than drawing.
    pub fn tidy(&mut self) {
        self.history.tidy();
    }

    pub(crate) fn table(&self) -> &TableState {
        &self.tables[self.tab as usize]
    }

    pub(crate) fn table_mut(&mut self) -> &mut TableState {
        &mut self.tables[self.tab as usize]
    }

    /// The columns of the table that is shown. While energy is unknown, energy columns are left out unless the user added them.
    pub(crate) fn columns(&self) -> Vec<Choice> {
        let by_user = &self.table().columns;
        let mut choices = chosen(self.tab.columns(), by_user);
        choices.retain(|column| self.has_values(*column) || by_user.contains(&(column.key, true)));
        choices
    }

    /// Whether a column has values: energy columns have none while energy is unknown.
    pub(crate) fn has_values(&self, column: Choice) -> bool {
        !is_of_energy(column.key) || self.knows_energy()
    }

    /// The column by which the table is sorted unless the user chose another column.
    pub(crate) fn default_sort(&self) -> &'static str {
        match self.tab {
            Tab::Energy if self.knows_energy() => "watts",
            Tab::Energy => "cpu_seconds_total",
            Tab::Connections | Tab::Paths | Tab::Peers | Tab::Health => "rates",
        }
    }

    /// Whether the shown snapshot has energy figures, measured or estimated.
    pub(crate) fn knows_energy(&self) -> bool {
        let energy = self.snapshot().and_then(|snapshot| snapshot.energy.as_ref());
        energy.is_some_and(|energy| energy.source != EnergySource::Absent)
    }

    /// The connection of the detail view or, without a detail view, the selected connection.
    pub(crate) fn selected(&self) -> Option<&Connection> {
        let id = match (self.detail, self.table().selected) {
            (Some(detail), _) => detail.id,
            (None, Some(RowKey::Flow(id, _))) => id,
            (None, Some(RowKey::Aggregate(_)) | None) => return None,
        };
        let row = self.rows.flow(self.table().index).filter(|row| row.id == id);
        self.context().find(id, row.map(|row| row.location))
    }

    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.settings.origin, Origin::Replay(_))
    }
}
