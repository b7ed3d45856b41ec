// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the paths and peers views, up to one row per flow. Only members and rates are stored. Sums are computed for the rows on screen
//! and for the sort column. An aggregate keeps its number as long as possible. All aggregates share a few vectors, to save allocations.

use std::collections::HashMap;

use mpwatch_model::finding;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::unit::BitsPerSecond;

use crate::aggregate::{Aggregate, AggregateKey, Grouping, Member, SharedPath, ShownAggregate, TREND};
use crate::columns::{Column, Order, Row, find, ranks};
use crate::context::{Context, Location};
use crate::digest::Entry;
use crate::history::{Activity, Series, Tick};
use crate::state::view::{ClosedFilter, Tab};

/// Which flows are aggregated, and by which property. If the scope changes, aggregates get new numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) tab: Tab,
    pub(crate) grouping: Grouping,
    pub(crate) closed: ClosedFilter,
    pub(crate) filter: String,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    keys: Vec<AggregateKey>,
    of_key: HashMap<AggregateKey, u32>,
    /// The number that the next key probably has. Keys mostly arrive in the order of the previous snapshot, so this guess saves most
    /// lookups in `of_key`.
    next: u32,
}

impl Numbers {
    fn number(&mut self, key: &AggregateKey) -> u32 {
        let number = if self.keys.get(self.next as usize) == Some(key) {
            self.next
        } else {
            let new = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            let number = *self.of_key.entry(*key).or_insert(new);
            if number == new {
                self.keys.push(*key);
            }
            number
        };
        self.next = number + 1;
        number
    }
}

/// All aggregates of a view, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregates {
    scope: Scope,
    /// Tick at which `activities` were last updated.
    tick: Tick,
    numbers: Numbers,
    /// Sum of send and receive rate of each aggregate, bit/s, indexed by its number.
    rates: Vec<u64>,
    activities: Vec<Activity>,
    /// The subflows in the order of the snapshot, each with the number of its aggregate.
    found: Vec<(u32, Member)>,
    /// The subflows grouped by aggregate, in the order of numbers. Group `n` is `members[ends[n]..ends[n + 1]]`.
    members: Vec<Member>,
    ends: Vec<u32>,
    /// The bottleneck group of each path, indexed by its number. Empty: no paths share a bottleneck.
    shared: Vec<Option<SharedPath>>,
    /// The number of the aggregate in each row.
    order: Vec<u32>,
}

impl Aggregates {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn key(&self, row: usize) -> Option<AggregateKey> {
        self.numbers.keys.get(*self.order.get(row)? as usize).copied()
    }

    pub(crate) fn members(&self, row: usize) -> &[Member] {
        self.order.get(row).map(|number| self.members_of(*number)).unwrap_or_default()
    }

    pub(crate) fn row_of(&self, key: &AggregateKey) -> Option<usize> {
        let number = *self.numbers.of_key.get(key)?;
        self.order.iter().position(|at| *at == number)
    }

    /// A row with its sums.
    pub(crate) fn shown(&self, context: Context<'_>, row: usize) -> Option<ShownAggregate> {
        let number = *self.order.get(row)?;
        let subflows = self.members_of(number).iter().filter_map(|member| member.digest(context));
        let ids = subflows.map(|subflow| subflow.id);
        let rates = context.history.subflows.sums(ids, Series::Rate, context.tick, TREND);
        Some(ShownAggregate { sums: self.sums(context, number), rates })
    }

    /// A row with its names but without its sums, for the search.
    pub(crate) fn empty(&self, row: usize) -> Option<Aggregate> {
        let number = *self.order.get(row)?;
        let example = self.members_of(number).first().map(|member| member.connection);
        Some(Aggregate::empty(self.numbers.keys[number as usize], example))
    }

    fn members_of(&self, number: u32) -> &[Member] {
        let number = number as usize;
        let Some([from, to]) = self.ends.get(number..number + 2) else { return &[] };
        &self.members[*from as usize..*to as usize]
    }

    fn sums(&self, context: Context<'_>, number: u32) -> Aggregate {
        let mut sums =
            Aggregate::from_members(context, self.numbers.keys[number as usize], self.members_of(number));
        sums.shared = self.shared(number);
        sums
    }

    fn shared(&self, number: u32) -> Option<SharedPath> {
        self.shared.get(number as usize).copied().flatten()
    }

    /// Removes all subflows. Aggregates keep their numbers if the scope is unchanged and most aggregates still have members.
    fn emptied(mut self, scope: Scope) -> Self {
        let live = self.order.len();
        // Bounds the memory of aggregates that no longer have members.
        if self.scope != scope || self.numbers.keys.len() > 2 * live + 1_000 {
            self = Self { scope, ..Self::default() };
        }
        self.numbers.next = 0;
        self.rates.iter_mut().for_each(|rate| *rate = 0);
        self.found.clear();
        self.order.clear();
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

    /// Must be called after all subflows were added. `links`: pairs of paths that share a bottleneck.
    fn finish(&mut self, tick: Tick, links: &[(u32, u32)]) {
        let aggregates = self.numbers.keys.len();
        by_number(&self.found, aggregates, &mut self.members, &mut self.ends);
        self.shared = connected(aggregates, links);
        self.activities.resize(aggregates, Activity::default());
        if tick > self.tick {
            self.tick = tick;
            let rates = self.activities.iter_mut().zip(&self.rates);
            rates.for_each(|(activity, rate)| activity.add(*rate as f32));
        }
    }
}

/// Sorts values by the number of their aggregate (counting sort). Aggregate `n` gets `sorted[ends[n]..ends[n + 1]]`.
fn by_number<T: Copy>(values: &[(u32, T)], aggregates: usize, sorted: &mut Vec<T>, ends: &mut Vec<u32>) {
    ends.clear();
    ends.resize(aggregates + 1, 0);
    sorted.clear();
    let Some((_, any)) = values.first() else { return };
    sorted.resize(values.len(), *any);
    for (number, _) in values {
        ends[*number as usize + 1] += 1;
    }
    let mut begin = 0;
    for end in ends.iter_mut() {
        begin += *end;
        *end = begin;
    }
    let mut next = ends.clone();
    for (number, value) in values {
        let next = &mut next[*number as usize];
        sorted[*next as usize] = *value;
        *next += 1;
    }
}

/// The representative of the set that contains `at` (union-find).
fn root(parent: &mut [u32], mut at: u32) -> u32 {
    while parent[at as usize] != at {
        parent[at as usize] = parent[parent[at as usize] as usize];
        at = parent[at as usize];
    }
    at
}

/// For each path, its place in the set of paths that links connect (union-find). `None`: the path has no link.
fn connected(paths: usize, links: &[(u32, u32)]) -> Vec<Option<SharedPath>> {
    if links.is_empty() {
        return Vec::new();
    }
    let all = || 0..u32::try_from(paths).unwrap_or(u32::MAX);
    let mut parent: Vec<u32> = all().collect();
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut sizes = vec![0; paths];
    all().for_each(|at| sizes[root(&mut parent, at) as usize] += 1);
    let mut numbers: HashMap<u32, (u32, u32)> = HashMap::new();
    let shared = |at: u32| {
        let first = root(&mut parent, at);
        let size = sizes[first as usize];
        if size < 2 {
            return None;
        }
        let new = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let (group, index) = numbers.entry(first).or_insert((new, 0));
        *index += 1;
        Some(SharedPath { group: *group, index: *index - 1, size })
    };
    all().map(shared).collect()
}

impl Aggregates {
    /// The aggregates of a new snapshot, sorted. Whether they keep their numbers: see [`Self::emptied`].
    pub(crate) fn update<'a>(
        self,
        context: Context<'a>,
        scope: Scope,
        entries: impl Iterator<Item = (Location, Entry<'a>)>,
        (sort, reverse): (Option<&'static str>, bool),
    ) -> Self {
        let (is_by_path, grouping) = (scope.tab == Tab::Paths, scope.grouping);
        let mut all = self.emptied(scope);
        let mut links = Vec::new();
        for (connection, entry) in entries.filter(|(_, entry)| !entry.subflows().is_empty()) {
            let first = all.found.len();
            let peer = (!is_by_path).then(|| all.numbers.number(&AggregateKey::new(entry.digest, grouping)));
            for ((subflow, path), index) in entry.subflows().iter().zip(entry.paths()).zip(0..) {
                let number = peer.unwrap_or_else(|| all.numbers.number(&AggregateKey::Path(*path)));
                let (send, receive) = subflow.current().unwrap_or_default();
                all.add(number, Member { connection, subflow: index }, send + receive);
            }
            if is_by_path && entry.digest.has_shared {
                link(entry.connection, &all.found[first..], &mut links);
            }
        }
        all.finish(context.tick, &links);
        all.order = all.sorted(context, sort.and_then(find), reverse);
        all
    }

    /// The aggregates that have members, sorted.
    fn sorted(&self, context: Context<'_>, column: Option<&Column>, reverse: bool) -> Vec<u32> {
        let numbers = 0..u32::try_from(self.numbers.keys.len()).unwrap_or(u32::MAX);
        let live: Vec<u32> = numbers.filter(|number| !self.members_of(*number).is_empty()).collect();
        let order = |number: &u32| match column {
            // By default, rows are sorted by steps of activity, so that small changes of rates do not reorder them.
            None => Order::Number(f64::from(self.activities[*number as usize].step)),
            Some(column) if column.key == "rate" => Order::Number(self.rates[*number as usize] as f64),
            Some(column) => {
                let sums = self.sums(context, *number);
                let recent =
                    if column.key == "rates" { recent(context, self.members_of(*number)) } else { 0.0 };
                column.order(&Row::aggregate(context, &sums, recent))
            }
        };
        let orders: Vec<Order> = live.iter().map(order).collect();
        let ranks = ranks(&orders, reverse);
        if self.shared.is_empty() || column.is_some() {
            let mut order: Vec<(u64, u32)> = ranks.into_iter().zip(live).collect();
            // A stable sort keeps aggregates of equal rank in the order of their numbers.
            order.sort_by_key(|(rank, _)| *rank);
            return order.into_iter().map(|(_, number)| number).collect();
        }
        with_groups_together(self, &live, &ranks)
    }
}

fn recent(context: Context<'_>, members: &[Member]) -> f64 {
    let subflows = members.iter().filter_map(|member| member.digest(context));
    let tracks = subflows.filter_map(|subflow| context.history.subflows.get(subflow.id));
    tracks.map(|track| track.recent(context.tick)).sum()
}

/// Adds a link for the paths of a connection that share a bottleneck. `own`: its subflows with the numbers of their paths.
fn link(connection: &Connection, own: &[(u32, Member)], links: &mut Vec<(u32, u32)>) {
    let path = |number: usize| own.get(number.checked_sub(1)?).map(|(path, _)| *path);
    for group in finding::shared_groups(connection) {
        let mut members = group.iter().filter_map(|id| path(connection.subflow_number(*id)?));
        if let Some(first) = members.next() {
            links.extend(members.map(|other| (first, other)));
        }
    }
}

/// Sorts paths by rank, but places paths that share a bottleneck together, at the position of the best-ranked path among them.
fn with_groups_together(all: &Aggregates, live: &[u32], ranks: &[u64]) -> Vec<u32> {
    let mut best: HashMap<u32, u64> = HashMap::new();
    for (number, rank) in live.iter().zip(ranks) {
        if let Some(shared) = all.shared(*number) {
            best.entry(shared.group).and_modify(|kept| *kept = (*kept).min(*rank)).or_insert(*rank);
        }
    }
    let ranked = |(number, own): (&u32, &u64)| match all.shared(*number) {
        None => (*own, u32::MAX, 0, *number),
        Some(SharedPath { group, index, .. }) => {
            (best.get(&group).copied().unwrap_or(*own), group, index, *number)
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
    fn values_are_sorted_by_their_numbers() {
        let (mut values, mut ends) = (vec!['z'], vec![7]);
        by_number(&[(2, 'a'), (0, 'b'), (2, 'c'), (0, 'd')], 4, &mut values, &mut ends);
        assert_eq!((&*values, &*ends), (&['b', 'd', 'a', 'c'][..], &[0, 2, 2, 4, 4][..]));
        by_number(&[], 2, &mut values, &mut ends);
        assert_eq!((values.len(), &*ends), (0, &[0, 0, 0][..]));
    }

    #[test]
    fn linked_paths_share_a_number() {
        let paths = connected(7, &[(5, 3), (2, 6), (3, 4), (1, 1)]);
        let shared = |group, index, size| Some(SharedPath { group, index, size });
        assert_eq!(paths[..3], [None, None, shared(0, 0, 2)]);
        assert_eq!(paths[3..], [shared(1, 0, 3), shared(1, 1, 3), shared(1, 2, 3), shared(0, 1, 2)]);
        assert!(connected(7, &[]).is_empty());
    }

    #[test]
    fn an_aggregate_keeps_its_number() {
        let mut numbers = Numbers::default();
        let keys = [5, 7, 6, 7].map(AggregateKey::Namespace);
        assert_eq!(keys.map(|key| numbers.number(&key)), [0, 1, 2, 1]);
        numbers.next = 0;
        let reversed = [8, 7, 6, 5].map(AggregateKey::Namespace);
        assert_eq!(reversed.map(|key| numbers.number(&key)), [3, 1, 2, 0]);
        assert_eq!(numbers.keys.len(), 4);
    }
}
