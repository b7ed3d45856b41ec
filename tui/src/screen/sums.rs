// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that sum up flows: a path (interface and pair of addresses), a peer, a process, a namespace. There may be as many of them as flows:
//! what only the rows on the screen need (names, what was over time) is made when they are drawn, and nothing is allocated for each.

mod cells;

use std::collections::HashMap;
use std::net::IpAddr;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::energy::{FlowEnergy, Source};
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Bytes, Micros};

use super::app::{App, Tab};
use super::columns::{Order, ranks};
use super::history::{Found, Track};
use super::rows::{Grouping, Place, Rows, find};
pub(crate) use cells::{PATHS, PEERS, SUM_COLUMNS, SumColumn, SumView};

/// Which sum it is, also after a new snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SumKey {
    /// Interface and pair of addresses, in a namespace.
    Path { netns: u32, interface: Option<Name>, local: IpAddr, remote: IpAddr },
    /// Remote address.
    Peer(Option<IpAddr>),
    /// Name of a process.
    Process(Option<Name>),
    /// Inode of a namespace.
    Namespace(u32),
}

impl SumKey {
    fn path(connection: &Connection, subflow: &Subflow) -> Self {
        Self::Path {
            netns: connection.netns_inode,
            interface: subflow.interface,
            local: subflow.local.ip(),
            remote: subflow.remote.ip(),
        }
    }

    fn peer(connection: &Connection, by: Grouping) -> Self {
        match by {
            Grouping::Peer => Self::Peer(connection.remote.map(|remote| remote.ip())),
            Grouping::Process => Self::Process(connection.process.map(|process| process.comm)),
            Grouping::Namespace => Self::Namespace(connection.netns_inode),
        }
    }

    /// Whether a connection has a part in it.
    pub(crate) fn holds(self, connection: &Connection) -> bool {
        match self {
            Self::Path { .. } => {
                connection.subflows.iter().any(|subflow| Self::path(connection, subflow) == self)
            }
            Self::Peer(_) => Self::peer(connection, Grouping::Peer) == self,
            Self::Process(_) => Self::peer(connection, Grouping::Process) == self,
            Self::Namespace(_) => Self::peer(connection, Grouping::Namespace) == self,
        }
    }
}

/// What several subflows are together.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    pub(crate) key: SumKey,
    /// The first of its connections: what the key does not say can be read there.
    example: (Place, ConnectionId),
    /// The latest of its connections, so that each counts once.
    latest: ConnectionId,
    connections: usize,
    open: usize,
    failed: usize,
    send: u64,
    receive: u64,
    sent: u64,
    received: u64,
    again: u64,
    watts: Option<f64>,
    energy: Option<FlowEnergy>,
    /// Median of the smoothed RTTs.
    rtt: Option<Micros>,
    lowest_rtt: Option<Micros>,
    /// Where its subflows begin and end among those of all sums.
    members: (usize, usize),
    /// The paths behind one bottleneck: which group, and which of how many in it.
    pub(crate) group: Option<(usize, usize, usize)>,
    /// What is known where it is in no group.
    apart: Option<Verdict>,
}

impl Sum {
    fn new(key: SumKey, place: Place, connection: &Connection) -> Self {
        Self {
            key,
            example: (place, connection.id),
            latest: connection.id,
            connections: 1,
            open: 0,
            failed: 0,
            send: 0,
            receive: 0,
            sent: 0,
            received: 0,
            again: 0,
            watts: None,
            energy: None,
            rtt: None,
            lowest_rtt: None,
            members: (0, 0),
            group: None,
            apart: None,
        }
    }

    fn add(&mut self, connection: &Connection, subflow: &Subflow) {
        if self.latest != connection.id {
            self.latest = connection.id;
            self.connections += 1;
        }
        let is_open = subflow.closed.is_none();
        self.open += usize::from(is_open);
        let failed = subflow.closed.is_some_and(|closed| closed.reason.is_failure()) || subflow.stale;
        self.failed += usize::from(failed && connection.is_open());
        self.send = self.send.saturating_add(subflow.send.0);
        self.receive = self.receive.saturating_add(subflow.receive.0);
        self.sent = self.sent.saturating_add(subflow.bytes_sent.0);
        self.received = self.received.saturating_add(subflow.bytes_received.0);
        self.again = self.again.saturating_add(subflow.bytes_retransmitted.0);
        if let Some(energy) = &subflow.energy {
            self.energy = Some(self.energy.map_or(*energy, |sum| FlowEnergy::sum([&sum, energy])));
        }
    }

    fn add_watts(&mut self, watts: Option<f64>) {
        if let Some(watts) = watts {
            *self.watts.get_or_insert(0.0) += watts;
        }
    }

    fn example<'a>(&self, app: &'a App) -> Option<&'a Connection> {
        let (place, id) = self.example;
        app.connection(place).filter(|one| one.id == id).or_else(|| app.find(id))
    }

    fn rate(&self) -> u64 {
        self.send.saturating_add(self.receive)
    }

    /// Part of the payload that had to be sent again.
    fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.again as f64 / self.sent as f64)
    }

    fn energy(&self) -> Option<FlowEnergy> {
        let payload = Bytes(self.sent.saturating_sub(self.again) + self.received);
        self.energy.map(|energy| energy.over(payload))
    }

    fn tilde(&self) -> &'static str {
        let estimated = |energy: FlowEnergy| energy.source != Source::Absent && !energy.source.is_measured();
        if self.energy.is_some_and(estimated) { "~" } else { "" }
    }
}

/// All sums of a view, in an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    all: Vec<Sum>,
    /// Which of them stands in which row.
    order: Vec<usize>,
    /// The subflows of the first sum, then those of the second, and so on.
    members: Vec<Found<SubflowId>>,
}

impl Sums {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The sum of a row.
    pub(crate) fn get(&self, row: usize) -> Option<&Sum> {
        self.all.get(*self.order.get(row)?)
    }

    /// From the first row on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sum> {
        self.order.iter().filter_map(|place| self.all.get(*place))
    }

    /// With all that its cells need.
    pub(crate) fn view<'a>(&'a self, app: &'a App, sum: &'a Sum) -> SumView<'a> {
        SumView { app, sums: self, sum }
    }

    fn tracks<'a>(&'a self, app: &'a App, sum: &Sum) -> impl Iterator<Item = Track<'a>> {
        let members = self.members.get(sum.members.0..sum.members.1).unwrap_or_default();
        members.iter().filter_map(|found| app.history.subflows().at(*found))
    }
}

/// What is gathered on the way over all flows, each value with the number of its sum.
struct Gathered {
    all: Vec<Sum>,
    places: HashMap<SumKey, usize>,
    members: Vec<(usize, Found<SubflowId>)>,
    rtts: Vec<(usize, Micros)>,
    /// Paths that a connection has found behind one bottleneck.
    links: Vec<(usize, usize)>,
}

impl Gathered {
    /// With room for about as many as there were the last time.
    fn with_room(app: &App) -> Self {
        let (sums, flows) =
            if let Rows::Sums(sums) = &app.rows { (sums.all.len(), sums.members.len()) } else { (0, 0) };
        let more = |number: usize| number + number / 8;
        Self {
            all: Vec::with_capacity(more(sums)),
            places: HashMap::with_capacity(more(sums)),
            members: Vec::with_capacity(more(flows)),
            rtts: Vec::with_capacity(more(flows)),
            links: Vec::new(),
        }
    }

    fn place(&mut self, key: SumKey, place: Place, connection: &Connection) -> usize {
        *self.places.entry(key).or_insert_with(|| {
            self.all.push(Sum::new(key, place, connection));
            self.all.len() - 1
        })
    }

    fn add(&mut self, app: &App, sum: usize, connection: &Connection, subflow: &Subflow) {
        self.all[sum].add(connection, subflow);
        if let Some(srtt) = subflow.srtt.filter(|_| subflow.closed.is_none()) {
            self.rtts.push((sum, srtt));
        }
        let tracks = app.history.subflows();
        if let Some(found) = tracks.find(subflow.id) {
            self.members.push((sum, found));
            self.all[sum].add_watts(tracks.at(found).and_then(|track| track.watts(app.turn())));
        }
    }

    /// What a connection knows of the bottlenecks of its paths; `own`: the sums of its subflows.
    fn judge(&mut self, connection: &Connection, own: &[(SubflowId, usize)]) {
        let Some(found) = &connection.bottlenecks else { return };
        let sum_of = |id: SubflowId| own.iter().find(|(subflow, _)| *subflow == id).map(|(_, sum)| *sum);
        for group in &found.groups {
            let mut members = group.iter().filter_map(|id| sum_of(*id));
            if let Some(first) = members.next() {
                self.links.extend(members.map(|other| (first, other)));
            }
        }
        for pair in found.pairs.iter().filter(|pair| pair.verdict != Verdict::Shared) {
            for sum in [pair.a, pair.b].into_iter().filter_map(sum_of) {
                self.all[sum].apart.get_or_insert(pair.verdict);
            }
        }
    }

    fn finish(mut self) -> Sums {
        let (mut rtts, ends) = by_sum(&self.rtts, self.all.len());
        for (sum, end) in self.all.iter_mut().zip(ends.windows(2)) {
            let own = &mut rtts[end[0]..end[1]];
            if !own.is_empty() {
                let middle = own.len() / 2;
                let (below, median, _) = own.select_nth_unstable(middle);
                sum.rtt = Some(*median);
                sum.lowest_rtt = Some(below.iter().min().copied().unwrap_or(*median));
            }
        }
        let (members, ends) = by_sum(&self.members, self.all.len());
        self.all.iter_mut().zip(ends.windows(2)).for_each(|(sum, end)| sum.members = (end[0], end[1]));
        grouped(&mut self.all, &self.links);
        Sums { order: (0..self.all.len()).collect(), all: self.all, members }
    }
}

/// Values with the numbers of their sums, as those of the first sum, then those of the second, and so on; and where each begins and ends.
fn by_sum<T: Copy>(values: &[(usize, T)], sums: usize) -> (Vec<T>, Vec<usize>) {
    let mut ends = vec![0; sums + 1];
    for (sum, _) in values {
        ends[sum + 1] += 1;
    }
    for sum in 0..sums {
        ends[sum + 1] += ends[sum];
    }
    let Some((_, any)) = values.first() else { return (Vec::new(), ends) };
    let mut sorted = vec![*any; values.len()];
    let mut next = ends.clone();
    for (sum, value) in values {
        sorted[next[*sum]] = *value;
        next[*sum] += 1;
    }
    (sorted, ends)
}

/// The one that stands for all that something is linked to.
fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

/// Gives a number to each set of paths that are linked.
fn grouped(sums: &mut [Sum], links: &[(usize, usize)]) {
    if links.is_empty() {
        return;
    }
    let mut parent: Vec<usize> = (0..sums.len()).collect();
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b)] = a.min(b);
    }
    let mut sizes = vec![0; sums.len()];
    (0..sums.len()).for_each(|at| sizes[root(&mut parent, at)] += 1);
    let mut numbers: HashMap<usize, (usize, usize)> = HashMap::new();
    for (at, sum) in sums.iter_mut().enumerate() {
        let first = root(&mut parent, at);
        if sizes[first] > 1 {
            let number = numbers.len();
            let (number, position) = numbers.entry(first).or_insert((number, 0));
            sum.group = Some((*number, *position, sizes[first]));
            *position += 1;
        }
    }
}

impl App {
    /// The sums of the view that is shown, in its order.
    pub(crate) fn sums(&self) -> Sums {
        let mut gathered = Gathered::with_room(self);
        let mut own = Vec::new();
        for (place, connection) in self.filtered() {
            own.clear();
            for subflow in &connection.subflows {
                let key = match self.tab {
                    Tab::Paths => SumKey::path(connection, subflow),
                    _ => SumKey::peer(connection, self.grouping),
                };
                let sum = gathered.place(key, place, connection);
                gathered.add(self, sum, connection, subflow);
                own.push((subflow.id, sum));
            }
            if self.tab == Tab::Paths {
                gathered.judge(connection, &own);
            }
        }
        self.sorted(gathered.finish())
    }

    fn sorted(&self, mut sums: Sums) -> Sums {
        let state = self.table();
        let column = find(&SUM_COLUMNS, state.sort.unwrap_or("rate"));
        let order = |sum| column.map_or(Order::Unknown, |column| (column.order)(&sums.view(self, sum)));
        let orders: Vec<Order> = sums.all.iter().map(order).collect();
        let ranks = ranks(&orders, state.reverse);
        // A group stands where its first would: unless another order is asked for, it is kept together.
        let together = state.sort.is_none() && self.tab == Tab::Paths;
        let mut best: HashMap<usize, u64> = HashMap::new();
        let group = |sum: &Sum| sum.group.filter(|_| together);
        for (sum, rank) in sums.all.iter().zip(&ranks) {
            if let Some((number, ..)) = group(sum) {
                best.entry(number).and_modify(|kept| *kept = (*kept).min(*rank)).or_insert(*rank);
            }
        }
        let ranked = |at: &usize| {
            let (sum, own) = (&sums.all[*at], ranks[*at]);
            let Some((number, position, _)) = group(sum) else { return (own, usize::MAX, 0, own) };
            (best.get(&number).copied().unwrap_or(own), number, position, own)
        };
        let mut order: Vec<_> = sums.order.iter().map(|at| (ranked(at), *at)).collect();
        order.sort_unstable();
        sums.order = order.into_iter().map(|(_, at)| at).collect();
        sums
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    #[test]
    fn values_are_parted_by_their_sums() {
        let (values, ends) = by_sum(&[(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd')], 4);
        assert_eq!((values, ends), (vec!['b', 'd', 'a', 'c'], vec![0, 2, 2, 4, 4]));
        assert_eq!(by_sum::<u8>(&[], 2), (Vec::new(), vec![0, 0, 0]));
    }

    #[test]
    fn linked_paths_are_one_group() {
        let connection = fixture::connection(1, 1);
        let sum = |_| Sum::new(SumKey::Peer(None), Place::Shown(0), &connection);
        let mut sums: Vec<Sum> = (0..7).map(sum).collect();
        grouped(&mut sums, &[(5, 3), (2, 6), (3, 4), (1, 1)]);
        let groups: Vec<_> = sums.iter().map(|sum| sum.group).collect();
        assert_eq!(groups[..3], [None, None, Some((0, 0, 2))]);
        assert_eq!(groups[3..], [Some((1, 0, 3)), Some((1, 1, 3)), Some((1, 2, 3)), Some((0, 1, 2))]);
    }
}
