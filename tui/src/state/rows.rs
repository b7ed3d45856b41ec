// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds and sorts the rows of the table when the data or the choices of the user change, never while drawing.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use mpwatch_model::id::{ConnectionId, Token};
use mpwatch_model::unit::Bytes;

use crate::columns::{Fold, Order, Row, Subject, find, ranks};
use crate::context::Location;
use crate::digest::{Digested, Entry};
use crate::state::aggregates::{Aggregates, Scope};
use crate::state::app::{App, FlowRow, Rows};
use crate::state::view::{ClosedFilter, RowKey, Tab};

impl App {
    pub(crate) fn is_folded(&self, id: ConnectionId) -> bool {
        self.folded.contains(&id) != self.all_folded
    }

    /// The row with the data that its cells read. `None`: the connection is no longer remembered.
    pub(crate) fn flow(&self, row: FlowRow) -> Option<Row<'_>> {
        let fold = match self.tab {
            Tab::Energy => Fold::Never,
            _ if self.is_folded(row.id) => Fold::Folded,
            _ => Fold::Open,
        };
        row.row(self.context(), fold)
    }

    pub(crate) fn key(&self, index: usize) -> Option<RowKey> {
        match &self.rows {
            Rows::None => None,
            Rows::Aggregates(aggregates) => aggregates.key(index).map(RowKey::Aggregate),
            Rows::Flows(rows) => {
                let row = *rows.get(index)?;
                let subflow = self.flow(row).and_then(|row| match row.subject {
                    Subject::Subflow { subflow, .. } => Some(subflow.id),
                    _ => None,
                });
                Some(RowKey::Flow(row.id, subflow))
            }
        }
    }

    /// The index of the row with this key. For a hidden subflow: the row of its connection. `None`: no such row.
    pub(crate) fn row_of(&self, key: &RowKey) -> Option<usize> {
        match (&self.rows, key) {
            (Rows::Flows(rows), RowKey::Flow(id, subflow)) => {
                let first = rows.iter().position(|row| row.id == *id)?;
                let number = match (subflow, self.flow(rows[first])?.subject) {
                    (Some(id), Subject::Connection(connection, _)) => connection.subflow_number(*id),
                    _ => None,
                };
                let row = first + number.unwrap_or(0);
                Some(if rows.get(row).is_some_and(|row| row.id == *id) { row } else { first })
            }
            (Rows::Aggregates(aggregates), RowKey::Aggregate(key)) => aggregates.row_of(key),
            _ => None,
        }
    }

    /// Builds the rows. If possible, aggregates keep their numbers from the previous rows `before`.
    pub(crate) fn build_rows(&self, before: Rows) -> Rows {
        match self.tab {
            Tab::Health => Rows::None,
            Tab::Connections | Tab::Energy => Rows::Flows(self.flow_rows()),
            Tab::Paths | Tab::Peers => {
                let before =
                    if let Rows::Aggregates(before) = before { *before } else { Aggregates::default() };
                let scope = Scope {
                    tab: self.tab,
                    grouping: self.grouping,
                    closed: self.closed,
                    filter: self.filter_text.clone(),
                };
                let sort = (self.table().sort, self.table().reverse);
                Rows::Aggregates(Box::new(before.update(self.context(), scope, self.filtered(), sort)))
            }
        }
    }

    pub(crate) fn filtered(&self) -> impl Iterator<Item = (Location, Entry<'_>)> {
        let matches = |entry: &Entry<'_>| {
            (entry.digest.is_open || self.closed != ClosedFilter::Hidden)
                && self.filter.matches(entry.connection)
        };
        let shown = (0..).zip(self.digested().into_iter().flat_map(Digested::entries));
        let shown = shown.map(|(index, entry)| (Location::Shown(index), entry));
        shown.chain(self.closed_before()).filter(move |(_, entry)| matches(entry))
    }

    /// Remembered connections that closed before the shown snapshot. Empty unless the user chose to see all closed connections.
    fn closed_before(&self) -> impl Iterator<Item = (Location, Entry<'_>)> {
        let frame = self.digested().filter(|_| self.closed == ClosedFilter::All);
        frame.into_iter().flat_map(|frame| {
            let closed = frame.entries().filter(|entry| !entry.digest.is_open);
            let in_frame: HashSet<ConnectionId> = closed.map(|entry| entry.digest.id).collect();
            self.history.closed_with_numbers().filter_map(move |(number, closed)| {
                let connection = &closed.connection;
                let is_before = connection.closed_at.is_some_and(|at| at <= frame.snapshot.at);
                let entry = closed.entry().filter(|_| is_before && !in_frame.contains(&connection.id))?;
                Some((Location::Closed(number), entry))
            })
        })
    }

    fn flow_rows(&self) -> Vec<FlowRow> {
        let shown: Vec<(Location, Entry<'_>)> = self.filtered().collect();
        let mut rankings = self.rankings(&shown);
        if self.tab == Tab::Connections && self.table().sort.is_none() {
            put_ends_together(&shown, &mut rankings);
        }
        rankings.sort_unstable();
        let rows = rankings.into_iter().flat_map(|Ranking { index, .. }| {
            let (location, entry) = shown[index as usize];
            let id = entry.digest.id;
            let is_folded = self.tab != Tab::Connections || self.is_folded(id);
            let subflows = (0..if is_folded { 0 } else { entry.subflows().len() }).map(Some);
            std::iter::once(None).chain(subflows).map(move |subflow| FlowRow { location, id, subflow })
        });
        rows.collect()
    }

    fn rankings(&self, shown: &[(Location, Entry<'_>)]) -> Vec<Ranking> {
        let (state, context) = (self.table(), self.context());
        let is_default = state.sort.is_none();
        let column = find(state.sort.unwrap_or(self.default_sort()));
        let order = |(_, entry): &(Location, Entry<'_>)| {
            let order = || {
                let subject = Subject::Connection(entry.connection, Fold::Never);
                column.map_or(Order::Unknown, |column| column.order(&Row { context, subject }))
            };
            match (is_default, self.tab) {
                (false, _) => order(),
                // By default, connections are sorted by steps of activity, so that small changes of rates do not reorder them.
                (true, Tab::Connections) => {
                    let track = self.history.connections.get(entry.digest.id);
                    Order::Number(track.map_or(0.0, |track| f64::from(track.activity(context.tick))))
                }
                (true, _) => order().in_steps(),
            }
        };
        let orders: Vec<Order> = shown.iter().map(order).collect();
        let ranks = ranks(&orders, state.reverse);
        let ranking = |((index, (_, entry)), rank): ((u32, &(Location, Entry<'_>)), u64)| Ranking {
            is_closed: is_default && !entry.digest.is_open,
            rank,
            payload: Reverse(entry.digest.payload),
            id: entry.digest.id,
            is_server: entry.digest.is_server,
            index,
        };
        (0..).zip(shown).zip(ranks).map(ranking).collect()
    }
}

/// The values by which connections are sorted, most important first. In the default order, closed connections come last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ranking {
    is_closed: bool,
    rank: u64,
    payload: Reverse<Bytes>,
    id: ConnectionId,
    is_server: bool,
    /// Index of the connection in the parameter `shown` of `rankings`.
    index: u32,
}

/// If both ends of a connection are on this machine, the server gets the ranking of the client, so that its row is below the client's row.
fn put_ends_together(shown: &[(Location, Entry<'_>)], rankings: &mut [Ranking]) {
    if !shown.iter().any(|(_, entry)| entry.digest.is_server) {
        return;
    }
    let clients = rankings.iter().filter(|ranking| !ranking.is_server);
    let by_tokens = clients.filter_map(|ranking| {
        let client = shown[ranking.index as usize].1.connection;
        Some(((client.token?, client.remote_token?), *ranking))
    });
    let clients: HashMap<(Token, Token), Ranking> = by_tokens.collect();
    for ranking in rankings.iter_mut().filter(|ranking| ranking.is_server) {
        let server = shown[ranking.index as usize].1.connection;
        let client = server.remote_token.zip(server.token).and_then(|tokens| clients.get(&tokens));
        if let Some(client) = client.filter(|client| client.is_closed == ranking.is_closed) {
            *ranking = Ranking { is_server: true, index: ranking.index, ..*client };
        }
    }
}
