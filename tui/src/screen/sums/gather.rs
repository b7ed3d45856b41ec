// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which flows belong to which sum, and in which order the sums stand. A sum has a number that it keeps from snapshot to snapshot; nothing is
//! allocated for each of them.

use std::collections::HashMap;

use mpwatch_model::connection::Connection;
use mpwatch_model::unit::BitsPerSecond;

use super::super::app::{App, Closed, Tab};
use super::super::columns::{Order, ranks};
use super::super::digest::Flow;
use super::super::flows::groups;
use super::super::history::{Activity, Turn};
use super::super::rows::{Grouping, Place, find};
use super::{Made, SUM_COLUMNS, Sum, SumKey, SumView};

/// A subflow that belongs to a sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Its connection.
    pub(super) place: Place,
    /// Its place there.
    subflow: u32,
}

impl Member {
    /// The subflow. `None`: not remembered any more.
    pub(super) fn flow(self, app: &App) -> Option<&Flow> {
        app.brief(self.place)?.flows().get(self.subflow as usize)
    }
}

/// Paths behind one bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Which one.
    pub(super) number: u32,
    /// Which of its paths this is, and how many there are.
    pub(super) position: u32,
    pub(super) size: u32,
}

/// What is summed up, and of what: numbers of sums mean something only as long as it is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Subject {
    tab: Tab,
    grouping: Grouping,
    closed: Closed,
    filter: String,
}

/// Which number a sum has.
#[derive(Clone, Debug, Default)]
struct Numbers {
    keys: Vec<SumKey>,
    places: HashMap<SumKey, u32>,
    /// The one after the latest: sums mostly come in the order in which they came before, and what comes as expected needs no search.
    next: u32,
}

impl Numbers {
    fn of(&mut self, key: &SumKey) -> u32 {
        let number = if self.keys.get(self.next as usize) == Some(key) {
            self.next
        } else {
            let new = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            let number = *self.places.entry(*key).or_insert(new);
            if number == new {
                self.keys.push(*key);
            }
            number
        };
        self.next = number + 1;
        number
    }
}

/// All sums of a view, in an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    subject: Subject,
    /// The turn that they are of.
    turn: Turn,
    numbers: Numbers,
    /// Sent and received now, bit/s, by number.
    rates: Vec<u64>,
    activities: Vec<Activity>,
    /// The subflows as they were found, with the numbers of their sums.
    found: Vec<(u32, Member)>,
    /// The subflows of the first sum, then those of the second, and so on; and where each begins and ends.
    members: Vec<Member>,
    ends: Vec<u32>,
    /// The paths behind one bottleneck by number; empty where there are none.
    groups: Vec<Option<Group>>,
    /// Which of them stands in which row.
    order: Vec<u32>,
    /// Those on the screen, from this row on.
    made: (usize, Vec<Made>),
}

impl Sums {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// What the sum of a row is about.
    pub(crate) fn key(&self, row: usize) -> Option<SumKey> {
        self.numbers.keys.get(*self.order.get(row)? as usize).copied()
    }

    /// The row of a sum.
    pub(crate) fn row(&self, key: &SumKey) -> Option<usize> {
        let number = *self.numbers.places.get(key)?;
        self.order.iter().position(|at| *at == number)
    }

    /// The sum of a row that is on the screen, with all that its cells need.
    pub(crate) fn view<'a>(&'a self, app: &'a App, row: usize) -> Option<SumView<'a>> {
        let (from, made) = &self.made;
        let made = made.get(row.checked_sub(*from)?)?;
        Some(SumView { app, sum: &made.sum, rates: &made.rates, recent: 0.0 })
    }

    /// The names of any row, from the longest form to the shortest.
    pub(crate) fn names(&self, app: &App, row: usize) -> Vec<String> {
        let Some(number) = self.order.get(row) else { return Vec::new() };
        let sum = Sum {
            example: self.of(*number).first().map(|member| member.place),
            ..Sum::new(self.numbers.keys[*number as usize])
        };
        SumView { app, sum: &sum, rates: &[], recent: 0.0 }.names()
    }

    /// Whether these rows are made, as far as there are any.
    pub(crate) fn has_made(&self, from: usize, count: usize) -> bool {
        let (first, made) = &self.made;
        *first <= from && (from + count).min(self.len()) <= first + made.len()
    }

    /// Makes these rows.
    pub(crate) fn make(&self, app: &App, from: usize, count: usize) -> (usize, Vec<Made>) {
        let made = self.order.iter().skip(from).take(count).map(|number| {
            let members = self.of(*number);
            Made::of(app, self.sum(app, *number), members)
        });
        (from, made.collect())
    }

    /// Takes those that [`Self::make`] has made.
    pub(crate) fn keep(&mut self, made: (usize, Vec<Made>)) {
        self.made = made;
    }

    fn of(&self, number: u32) -> &[Member] {
        let number = number as usize;
        let Some([from, to]) = self.ends.get(number..number + 2) else { return &[] };
        &self.members[*from as usize..*to as usize]
    }

    fn sum(&self, app: &App, number: u32) -> Sum {
        let sum = Sum::of(app, self.numbers.keys[number as usize], self.of(number));
        Sum { group: self.group(number), ..sum }
    }

    fn group(&self, number: u32) -> Option<Group> {
        self.groups.get(number as usize).copied().flatten()
    }

    /// Without any flow; sums of the same subject keep their numbers.
    fn emptied(mut self, subject: Subject) -> Self {
        let live = self.order.len();
        // Sums that are long gone must not fill the memory.
        if self.subject != subject || self.numbers.keys.len() > 2 * live + 1_000 {
            self = Self { subject, ..Self::default() };
        }
        self.numbers.next = 0;
        self.rates.iter_mut().for_each(|rate| *rate = 0);
        self.found.clear();
        self.order.clear();
        self.made = (0, Vec::new());
        self
    }

    fn add(&mut self, number: u32, member: Member, sent_and_received: BitsPerSecond) {
        if self.rates.len() <= number as usize {
            self.rates.resize(number as usize + 1, 0);
        }
        let rate = &mut self.rates[number as usize];
        *rate = rate.saturating_add(sent_and_received.0);
        self.found.push((number, member));
    }

    /// After all were added; `links`: pairs of sums behind one bottleneck.
    fn finish(&mut self, turn: Turn, links: &[(u32, u32)]) {
        let sums = self.numbers.keys.len();
        by_sum(&self.found, sums, &mut self.members, &mut self.ends);
        self.groups = grouped(sums, links);
        self.activities.resize(sums, Activity::default());
        if turn > self.turn {
            self.turn = turn;
            let told = self.activities.iter_mut().zip(&self.rates);
            told.for_each(|(activity, rate)| activity.take(*rate as f32));
        }
    }
}

/// Values with the numbers of their sums, as those of the first sum, then those of the second, and so on; and where each begins and ends.
fn by_sum<T: Copy>(values: &[(u32, T)], sums: usize, sorted: &mut Vec<T>, ends: &mut Vec<u32>) {
    ends.clear();
    ends.resize(sums + 1, 0);
    sorted.clear();
    let Some((_, any)) = values.first() else { return };
    sorted.resize(values.len(), *any);
    for (sum, _) in values {
        ends[*sum as usize + 1] += 1;
    }
    let mut begin = 0;
    for end in ends.iter_mut() {
        begin += *end;
        *end = begin;
    }
    let mut next = ends.clone();
    for (sum, value) in values {
        let next = &mut next[*sum as usize];
        sorted[*next as usize] = *value;
        *next += 1;
    }
}

/// The one that stands for all that something is linked to.
fn root(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

/// Gives a number to each set of paths that are linked.
fn grouped(sums: usize, links: &[(u32, u32)]) -> Vec<Option<Group>> {
    if links.is_empty() {
        return Vec::new();
    }
    let all = || 0..u32::try_from(sums).unwrap_or(u32::MAX);
    let mut parent: Vec<u32> = all().collect();
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut sizes = vec![0; sums];
    all().for_each(|at| sizes[root(&mut parent, at) as usize] += 1);
    let mut numbers: HashMap<u32, (u32, u32)> = HashMap::new();
    let group = |at: u32| {
        let first = root(&mut parent, at);
        let size = sizes[first as usize];
        if size < 2 {
            return None;
        }
        let new = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let (number, position) = numbers.entry(first).or_insert((new, 0));
        *position += 1;
        Some(Group { number: *number, position: *position - 1, size })
    };
    all().map(group).collect()
}

impl App {
    /// The sums of the view that is shown, in its order; what was shown before has its numbers.
    pub(crate) fn sums(&self, before: Sums) -> Sums {
        let subject = Subject {
            tab: self.tab,
            grouping: self.grouping,
            closed: self.closed,
            filter: self.filter_text.clone(),
        };
        let mut sums = before.emptied(subject);
        let mut links = Vec::new();
        let of_paths = self.tab == Tab::Paths;
        for (place, one) in self.filtered().filter(|(_, one)| !one.flows().is_empty()) {
            let first = sums.found.len();
            let peer = (!of_paths).then(|| sums.numbers.of(&SumKey::peer(one.head, self.grouping)));
            for ((flow, path), at) in one.flows().iter().zip(one.paths()).zip(0..) {
                let number = peer.unwrap_or_else(|| sums.numbers.of(path));
                sums.add(number, Member { place, subflow: at }, flow.rate());
            }
            if of_paths && one.head.has_groups {
                link(one.connection, &sums.found[first..], &mut links);
            }
        }
        sums.finish(self.turn(), &links);
        sums.order = self.order(&sums);
        sums
    }

    /// Which sums there are, in the order that is asked for.
    fn order(&self, sums: &Sums) -> Vec<u32> {
        let state = self.table();
        let column = state.sort.and_then(|key| find(&SUM_COLUMNS, key));
        let all = || 0..u32::try_from(sums.numbers.keys.len()).unwrap_or(u32::MAX);
        let live: Vec<u32> = all().filter(|number| !sums.of(*number).is_empty()).collect();
        let order = |number: &u32| match column {
            // In the usual order what is about as active keeps its place.
            None => Order::Number(f64::from(sums.activities[*number as usize].step())),
            Some(column) if column.key == "rate" => Order::Number(sums.rates[*number as usize] as f64),
            Some(column) => {
                let sum = sums.sum(self, *number);
                let recent = if column.key == "rates" { self.recent(sums.of(*number)) } else { 0.0 };
                (column.order)(&SumView { app: self, sum: &sum, rates: &[], recent })
            }
        };
        let orders: Vec<Order> = live.iter().map(order).collect();
        let ranks = ranks(&orders, state.reverse);
        if sums.groups.is_empty() || column.is_some() {
            let mut order: Vec<(u64, u32)> = ranks.into_iter().zip(live).collect();
            // Stable, so that equals stay in the order of their numbers. There are few different ranks mostly, and many equals.
            order.sort_by_key(|(rank, _)| *rank);
            return order.into_iter().map(|(_, number)| number).collect();
        }
        together(sums, &live, &ranks)
    }

    /// Mean rate of the latest ten values.
    fn recent(&self, members: &[Member]) -> f64 {
        let flows = members.iter().filter_map(|member| member.flow(self));
        let tracks = flows.filter_map(|flow| self.history.subflow(flow.id));
        tracks.map(|track| track.recent(self.turn())).sum()
    }
}

/// Paths that a connection has found behind one bottleneck; `own`: the sums of its subflows.
fn link(connection: &Connection, own: &[(u32, Member)], links: &mut Vec<(u32, u32)>) {
    let sum = |place: usize| own.get(place.checked_sub(1)?).map(|(sum, _)| *sum);
    for (_, group) in groups(connection) {
        let mut members = group.iter().filter_map(|id| sum(connection.subflow_number(*id)?));
        if let Some(first) = members.next() {
            links.extend(members.map(|other| (first, other)));
        }
    }
}

/// A group stands where its first would: unless another order is asked for, it is kept together.
fn together(sums: &Sums, live: &[u32], ranks: &[u64]) -> Vec<u32> {
    let mut best: HashMap<u32, u64> = HashMap::new();
    for (number, rank) in live.iter().zip(ranks) {
        if let Some(group) = sums.group(*number) {
            best.entry(group.number).and_modify(|kept| *kept = (*kept).min(*rank)).or_insert(*rank);
        }
    }
    let ranked = |(number, own): (&u32, &u64)| match sums.group(*number) {
        None => (*own, u32::MAX, 0, *number),
        Some(Group { number: group, position, .. }) => {
            (best.get(&group).copied().unwrap_or(*own), group, position, *number)
        }
    };
    let mut order: Vec<_> = live.iter().zip(ranks).map(ranked).collect();
    order.sort_unstable();
    order.into_iter().map(|(.., number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parted_by_their_sums() {
        let (mut values, mut ends) = (vec!['z'], vec![7]);
        by_sum(&[(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd')], 4, &mut values, &mut ends);
        assert_eq!((&*values, &*ends), (&['b', 'd', 'a', 'c'][..], &[0, 2, 2, 4, 4][..]));
        by_sum(&[], 2, &mut values, &mut ends);
        assert_eq!((values.len(), &*ends), (0, &[0, 0, 0][..]));
    }

    #[test]
    fn linked_paths_are_one_group() {
        let groups = grouped(7, &[(5, 3), (2, 6), (3, 4), (1, 1)]);
        let group = |number, position, size| Some(Group { number, position, size });
        assert_eq!(groups[..3], [None, None, group(0, 0, 2)]);
        assert_eq!(groups[3..], [group(1, 0, 3), group(1, 1, 3), group(1, 2, 3), group(0, 1, 2)]);
        assert!(grouped(7, &[]).is_empty());
    }

    #[test]
    fn a_sum_keeps_its_number() {
        let mut numbers = Numbers::default();
        let keys = [5, 7, 6, 7].map(SumKey::Namespace);
        assert_eq!(keys.map(|key| numbers.of(&key)), [0, 1, 2, 1]);
        numbers.next = 0;
        let turned = [8, 7, 6, 5].map(SumKey::Namespace);
        assert_eq!(turned.map(|key| numbers.of(&key)), [3, 1, 2, 0]);
        assert_eq!(numbers.keys.len(), 4);
    }
}
