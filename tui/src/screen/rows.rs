// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rows a table has, in which order, and which one is selected. Built when data or the wishes of the user change, never while
//! drawing.

use mpwatch_model::connection::Connection;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::lifecycle::Role;

use super::app::{App, Closed, Tab, Totals};
use super::columns::{Column, Order};
use super::flows::{FLOW_COLUMNS, FlowView};
use super::sums::{self, SUM_COLUMNS, Sum, SumView};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the snapshot that is shown.
    Shown(usize),
    /// Among the closed ones that are remembered.
    Past(usize),
}

/// A row of the tables of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRow {
    pub(crate) place: Place,
    pub(crate) id: ConnectionId,
    /// The subflow's place in its connection; `None`: the connection's own row.
    pub(crate) subflow: Option<(usize, SubflowId)>,
}

/// What a row is about, from snapshot to snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Flow(ConnectionId, Option<SubflowId>),
    Sum(String),
}

/// By what the peers view sums up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Grouping {
    #[default]
    Peer,
    Process,
    Namespace,
}

impl Grouping {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Peer => Self::Process,
            Self::Process => Self::Namespace,
            Self::Namespace => Self::Peer,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Process => "process",
            Self::Namespace => "namespace",
        }
    }
}

/// The rows of the table that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rows {
    #[default]
    None,
    Flows(Vec<FlowRow>),
    Sums(Vec<Sum>),
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Flows(rows) => rows.len(),
            Self::Sums(rows) => rows.len(),
        }
    }

    pub(crate) fn key(&self, index: usize) -> Option<RowKey> {
        match self {
            Self::None => None,
            Self::Flows(rows) => {
                rows.get(index).map(|row| RowKey::Flow(row.id, row.subflow.map(|(_, id)| id)))
            }
            Self::Sums(rows) => rows.get(index).map(|row| RowKey::Sum(row.key.clone())),
        }
    }

    fn find(&self, key: &RowKey) -> Option<usize> {
        match (self, key) {
            (Self::Flows(rows), RowKey::Flow(id, subflow)) => {
                let exact = |row: &FlowRow| row.id == *id && row.subflow.map(|(_, id)| id) == *subflow;
                // A subflow that is folded away leaves its connection selected.
                rows.iter().position(exact).or_else(|| rows.iter().position(|row| row.id == *id))
            }
            (Self::Sums(rows), RowKey::Sum(key)) => rows.iter().position(|row| row.key == *key),
            _ => None,
        }
    }
}

impl FlowRow {
    /// With all that its cells need.
    pub(crate) fn view(self, app: &App) -> Option<FlowView<'_>> {
        // While the screen stands, closed ones may move up.
        let here = app.connection(self.place).filter(|connection| connection.id == self.id);
        let connection = here.or_else(|| app.find(self.id))?;
        let subflow = match self.subflow {
            None => None,
            Some((index, _)) => Some((index, connection.subflows.get(index)?)),
        };
        let last = subflow.is_some_and(|(index, _)| index + 1 == connection.subflows.len());
        let folded = app.is_folded(self.id) || app.tab == Tab::Energy;
        Some(FlowView { app, connection, subflow, last, folded })
    }
}

impl App {
    pub(crate) fn is_folded(&self, id: ConnectionId) -> bool {
        self.folded.contains(&id) != self.all_folded
    }

    /// Builds the rows anew and finds the selected flow in them again.
    pub(crate) fn rebuild(&mut self) {
        self.totals = self.snapshot().map(Totals::of).unwrap_or_default();
        self.rows = if self.tab == Tab::Health { Rows::None } else { self.built() };
        let found = self.table().selected.clone().and_then(|key| self.rows.find(&key));
        let last = self.rows.len().saturating_sub(1);
        let rows = &self.rows;
        let index = found.unwrap_or_else(|| self.table().index.min(last));
        let key = rows.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
        self.keep_in_view();
    }

    fn built(&self) -> Rows {
        let shown = self.filtered();
        match self.tab {
            Tab::Health => Rows::None,
            Tab::Connections | Tab::Energy => Rows::Flows(self.flow_rows(shown)),
            Tab::Paths | Tab::Peers => {
                let connections: Vec<&Connection> =
                    shown.iter().filter_map(|(place, _)| self.connection(*place)).collect();
                let sums = match self.tab {
                    Tab::Paths => sums::paths(self, &connections),
                    _ => sums::peers(self, &connections, self.grouping),
                };
                Rows::Sums(self.sorted_sums(sums))
            }
        }
    }

    /// The connections that are to be seen.
    fn filtered(&self) -> Vec<(Place, ConnectionId)> {
        let Some(snapshot) = self.snapshot() else { return Vec::new() };
        let matches =
            |one: &Connection| (one.is_open() || self.closed != Closed::Hidden) && self.filter.matches(one);
        let shown = snapshot.connections.iter().enumerate();
        let mut all: Vec<(Place, ConnectionId)> =
            shown.filter(|(_, one)| matches(one)).map(|(at, one)| (Place::Shown(at), one.id)).collect();
        if self.closed == Closed::All {
            let closed_here: std::collections::HashSet<ConnectionId> =
                snapshot.connections.iter().filter(|one| !one.is_open()).map(|one| one.id).collect();
            let past = self.history.closed().iter().enumerate();
            let past = past.filter(|(_, one)| {
                one.closed_at.is_some_and(|at| at <= snapshot.at)
                    && !closed_here.contains(&one.id)
                    && matches(one)
            });
            all.extend(past.map(|(at, one)| (Place::Past(at), one.id)));
        }
        all
    }

    fn flow_rows(&self, shown: Vec<(Place, ConnectionId)>) -> Vec<FlowRow> {
        let head = |(place, id): (Place, ConnectionId)| FlowRow { place, id, subflow: None };
        let state = self.table();
        let usual = if self.tab == Tab::Energy { "watts" } else { "rates" };
        let column = find(&FLOW_COLUMNS, state.sort.unwrap_or(usual));
        let mut keyed: Vec<(Ranking, FlowRow)> = shown
            .into_iter()
            .filter_map(|one| {
                let view = head(one).view(self)?;
                let connection = view.connection;
                let order = column.map_or(Order::Unknown, |column| (column.order)(&view));
                let usual = state.sort.is_none();
                let carried =
                    connection.bytes_sent.unwrap_or_default() + connection.bytes_received.unwrap_or_default();
                let ranking = Ranking {
                    // In the usual order what is over stands below, and what is about as fast keeps its place.
                    over: usual && !connection.is_open(),
                    order: if usual { order.about() } else { order },
                    server: connection.role == Some(Role::Server),
                    carried: carried.0,
                };
                Some((ranking, head(one)))
            })
            .collect();
        keyed.sort_by(|(a, row), (b, other)| {
            let order = a.over.cmp(&b.over).then_with(|| a.order.compare(&b.order, state.reverse));
            let order = order.then_with(|| a.server.cmp(&b.server));
            order.then_with(|| b.carried.cmp(&a.carried)).then_with(|| row.id.cmp(&other.id))
        });
        let with_subflows = self.tab == Tab::Connections;
        keyed.into_iter().flat_map(|(_, row)| self.with_subflows(row, with_subflows)).collect()
    }

    fn with_subflows(&self, row: FlowRow, unfolded: bool) -> Vec<FlowRow> {
        let mut rows = vec![row];
        if unfolded
            && !self.is_folded(row.id)
            && let Some(connection) = self.connection(row.place)
        {
            let subflows = connection.subflows.iter().enumerate();
            rows.extend(subflows.map(|(at, one)| FlowRow { subflow: Some((at, one.id)), ..row }));
        }
        rows
    }

    fn sorted_sums(&self, mut sums: Vec<Sum>) -> Vec<Sum> {
        let state = self.table();
        let column = find(&SUM_COLUMNS, state.sort.unwrap_or("rate"));
        let order =
            |sum: &Sum| column.map_or(Order::Unknown, |column| (column.order)(&SumView { app: self, sum }));
        // A group stands where its first would: unless another order is asked for, it is kept together.
        let together = state.sort.is_none() && self.tab == Tab::Paths;
        let mut best: std::collections::HashMap<usize, Order> = std::collections::HashMap::new();
        for (sum, number) in sums.iter().filter_map(|sum| Some((sum, sum.group?.0))).filter(|_| together) {
            let own = order(sum);
            let kept = best.entry(number).or_insert_with(|| own.clone());
            if own.compare(kept, state.reverse).is_lt() {
                *kept = own;
            }
        }
        sums.sort_by_cached_key(|sum| {
            let own = order(sum);
            let group = sum.group.filter(|_| together);
            let lead =
                group.and_then(|(number, ..)| best.get(&number).cloned()).unwrap_or_else(|| own.clone());
            let within = group.map_or((usize::MAX, 0), |(number, position, _)| (number, position));
            Ranked { lead, within, own, key: sum.key.clone(), reverse: state.reverse }
        });
        sums
    }
}

/// What decides on the place of a connection.
struct Ranking {
    over: bool,
    order: Order,
    server: bool,
    carried: u64,
}

/// What decides on the place of a sum.
#[derive(PartialEq)]
struct Ranked {
    lead: Order,
    within: (usize, usize),
    own: Order,
    key: String,
    reverse: bool,
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let lead = self.lead.compare(&other.lead, self.reverse);
        let within = || self.within.cmp(&other.within);
        let own = || self.own.compare(&other.own, self.reverse);
        lead.then_with(within).then_with(own).then_with(|| self.key.cmp(&other.key))
    }
}

pub(crate) fn find<'a, T: ?Sized, O: ?Sized>(
    columns: &'a [Column<T, O>],
    key: &str,
) -> Option<&'a Column<T, O>> {
    columns.iter().find(|column| column.key == key)
}
