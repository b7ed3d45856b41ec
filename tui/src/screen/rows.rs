// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rows a table has, in which order, and which one is selected. Built when data or the wishes of the user change, never while
//! drawing.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::mem;

use mpwatch_model::id::{ConnectionId, SubflowId, Token};
use mpwatch_model::unit::Bytes;

use super::app::{App, Closed, Tab};
use super::areas::areas;
use super::columns::{Column, Order, ranks, usual_sort};
use super::digest::{Brief, Digested};
use super::flows::{FLOW_COLUMNS, FlowView};
use super::history::Past;
use super::sums::{SumKey, Sums};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the snapshot that is shown.
    Shown(u32),
    /// Among the closed ones that are remembered: its number there.
    Past(u32),
}

/// A row of the tables of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRow {
    pub(crate) place: Place,
    pub(crate) id: ConnectionId,
    /// The subflow's place in its connection; `None`: the connection's own row.
    pub(crate) subflow: Option<usize>,
}

/// Rows of connections with their subflows below them. Only where each connection begins is written down: of tens of thousands of rows, some
/// dozens are ever looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowRows {
    heads: Vec<Head>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    place: Place,
    id: ConnectionId,
    /// Its row.
    row: usize,
}

impl FlowRows {
    fn push(&mut self, place: Place, id: ConnectionId, subflows: usize) {
        self.heads.push(Head { place, id, row: self.len });
        self.len += 1 + subflows;
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.heads.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<FlowRow> {
        if index >= self.len {
            return None;
        }
        let head = self.heads.get(self.heads.partition_point(|head| head.row <= index).checked_sub(1)?)?;
        Some(FlowRow { place: head.place, id: head.id, subflow: (index - head.row).checked_sub(1) })
    }

    fn head(&self, id: ConnectionId) -> Option<(usize, FlowRow)> {
        let head = self.heads.iter().find(|head| head.id == id)?;
        Some((head.row, FlowRow { place: head.place, id, subflow: None }))
    }
}

/// What a row is about, from snapshot to snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKey {
    Flow(ConnectionId, Option<SubflowId>),
    Sum(SumKey),
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

    pub(crate) fn as_str(self) -> &'static str {
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
    Flows(FlowRows),
    Sums(Box<Sums>),
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Flows(rows) => rows.len,
            Self::Sums(sums) => sums.len(),
        }
    }

    /// The flow of a row.
    pub(crate) fn flow(&self, index: usize) -> Option<FlowRow> {
        if let Self::Flows(rows) = self { rows.get(index) } else { None }
    }
}

impl FlowRow {
    /// With all that its cells need.
    pub(crate) fn view(self, app: &App) -> Option<FlowView<'_>> {
        let here = app.connection(self.place).filter(|connection| connection.id == self.id);
        let connection = here.or_else(|| app.find(self.id))?;
        let subflow = match self.subflow {
            None => None,
            Some(index) => Some((index, connection.subflows.get(index)?)),
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

    /// What a row is about.
    pub(crate) fn key(&self, index: usize) -> Option<RowKey> {
        match &self.rows {
            Rows::None => None,
            Rows::Sums(sums) => sums.key(index).map(RowKey::Sum),
            Rows::Flows(rows) => {
                let row = rows.get(index)?;
                let subflow = row.view(self).and_then(|view| view.subflow);
                Some(RowKey::Flow(row.id, subflow.map(|(_, subflow)| subflow.id)))
            }
        }
    }

    /// Where something stands; a subflow that is folded away is its connection's row.
    fn row_of(&self, key: &RowKey) -> Option<usize> {
        match (&self.rows, key) {
            (Rows::Flows(rows), RowKey::Flow(id, subflow)) => {
                let (head, row) = rows.head(*id)?;
                let connection = row.view(self)?.connection;
                let place = subflow.and_then(|id| connection.subflow_number(id)).unwrap_or(0);
                let is_there = rows.get(head + place).is_some_and(|row| row.id == *id);
                Some(if is_there { head + place } else { head })
            }
            (Rows::Sums(sums), RowKey::Sum(key)) => sums.row(key),
            _ => None,
        }
    }

    /// Builds the rows anew and finds the selected flow in them again.
    pub(crate) fn rebuild(&mut self) {
        let before = if let Rows::Sums(sums) = mem::take(&mut self.rows) { *sums } else { Sums::default() };
        self.rows = match self.tab {
            Tab::Health => Rows::None,
            Tab::Connections | Tab::Energy => Rows::Flows(self.flow_rows()),
            Tab::Paths | Tab::Peers => Rows::Sums(Box::new(self.sums(before))),
        };
        let found = self.table().selected.and_then(|key| self.row_of(&key));
        let last = self.rows.len().saturating_sub(1);
        let index = match found {
            // Nobody has asked for it, and it would take the top of the table out of view.
            Some(row) if !self.table().is_chosen && row >= areas(self).page() => 0,
            Some(row) => row,
            None => self.table().index.min(last),
        };
        let key = self.key(index);
        let table = self.table_mut();
        table.index = index;
        table.selected = key;
        self.keep_in_view();
    }

    /// The connections that are to be seen.
    pub(crate) fn filtered(&self) -> impl Iterator<Item = (Place, Brief<'_>)> {
        let matches = |one: &Brief<'_>| {
            (one.head.is_open || self.closed != Closed::Hidden) && self.filter.matches(one.connection)
        };
        let shown = (0..).zip(self.digested().into_iter().flat_map(Digested::briefs));
        let shown = shown.map(|(at, one)| (Place::Shown(at), one));
        let past = self.past().filter_map(|(number, one)| Some((Place::Past(number), one.brief()?)));
        shown.chain(past).filter(move |(_, one)| matches(one))
    }

    /// Connections that had closed before the snapshot that is shown, if those are to be seen.
    fn past(&self) -> impl Iterator<Item = (u32, &Past)> {
        let frame = self.digested().filter(|_| self.closed == Closed::All);
        frame.into_iter().flat_map(|frame| {
            let closed = frame.briefs().filter(|one| !one.head.is_open);
            let closed_here: HashSet<ConnectionId> = closed.map(|one| one.head.id).collect();
            self.history.past().filter(move |(_, past)| {
                let one = past.connection();
                one.closed_at.is_some_and(|at| at <= frame.snapshot.at) && !closed_here.contains(&one.id)
            })
        })
    }

    fn flow_rows(&self) -> FlowRows {
        let shown: Vec<(Place, Brief<'_>)> = self.filtered().collect();
        let mut ranked = self.ranked(&shown);
        if self.tab == Tab::Connections && self.table().sort.is_none() {
            put_ends_together(&shown, &mut ranked);
        }
        ranked.sort_unstable();
        let mut rows = FlowRows { heads: Vec::with_capacity(ranked.len()), len: 0 };
        for Ranking { at, .. } in ranked {
            let (place, one) = shown[at as usize];
            let is_folded = self.tab != Tab::Connections || self.is_folded(one.head.id);
            rows.push(place, one.head.id, if is_folded { 0 } else { one.flows().len() });
        }
        rows
    }

    fn ranked(&self, shown: &[(Place, Brief<'_>)]) -> Vec<Ranking> {
        let state = self.table();
        let is_default = state.sort.is_none();
        let column = find(&FLOW_COLUMNS, state.sort.unwrap_or(usual_sort(self)));
        let order = |(_, one): &(Place, Brief<'_>)| {
            let Brief { connection, head, .. } = *one;
            let view = FlowView { app: self, connection, subflow: None, last: false, folded: false };
            let order = || column.map_or(Order::Unknown, |column| (column.order)(&view));
            // In the usual order what is about as active keeps its place.
            match (is_default, self.tab) {
                (false, _) => order(),
                (true, Tab::Connections) => {
                    let track = self.history.connection(head.id);
                    Order::Number(track.map_or(0.0, |track| f64::from(track.activity(self.turn()))))
                }
                (true, _) => order().about(),
            }
        };
        let orders: Vec<Order> = shown.iter().map(order).collect();
        let ranks = ranks(&orders, state.reverse);
        let ranking = |((at, (_, one)), rank): ((u32, &(Place, Brief<'_>)), u64)| Ranking {
            over: is_default && !one.head.is_open,
            rank,
            carried: Reverse(one.head.carried),
            id: one.head.id,
            server: one.head.is_server,
            at,
        };
        (0..).zip(shown).zip(ranks).map(ranking).collect()
    }
}

/// What decides on the place of a connection, most important first; what is over stands below in the usual order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ranking {
    over: bool,
    rank: u64,
    carried: Reverse<Bytes>,
    id: ConnectionId,
    server: bool,
    at: u32,
}

/// Where both ends of a connection are on this machine, the accepting one stands right below the one that connects, which mostly sends and knows
/// more.
fn put_ends_together(shown: &[(Place, Brief<'_>)], ranked: &mut [Ranking]) {
    if !shown.iter().any(|(_, one)| one.head.is_server) {
        return;
    }
    let clients = ranked.iter().filter(|ranking| !ranking.server);
    let by_tokens = clients.filter_map(|ranking| {
        let one = shown[ranking.at as usize].1.connection;
        Some(((one.token?, one.remote_token?), *ranking))
    });
    let clients: HashMap<(Token, Token), Ranking> = by_tokens.collect();
    for ranking in ranked.iter_mut().filter(|ranking| ranking.server) {
        let one = shown[ranking.at as usize].1.connection;
        let tokens = one.remote_token.zip(one.token);
        let other = tokens.and_then(|tokens| clients.get(&tokens)).filter(|other| other.over == ranking.over);
        if let Some(other) = other {
            *ranking = Ranking { server: true, at: ranking.at, ..*other };
        }
    }
}

pub(crate) fn find<'a, T: ?Sized, O: ?Sized>(
    columns: &'a [Column<T, O>],
    key: &str,
) -> Option<&'a Column<T, O>> {
    columns.iter().find(|column| column.key == key)
}
