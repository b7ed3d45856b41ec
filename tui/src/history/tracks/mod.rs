// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latest values of many flows, stored as a column per tick. Read each column from front to back: any other order is slow.

use std::cell::Cell;
use std::hash::Hash;

use mpwatch_model::unit::{BitsPerSecond, Microjoules, Micros};
use rustc_hash::FxHashMap;

use super::activity::Activity;
use super::series::{Series, Span, Tick, TickColumns, Values};

/// The values of a flow in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowValues {
    /// Sum of the send and receive rates, bit/s. `None`: unknown.
    pub(super) rate: Option<BitsPerSecond>,
    pub(super) rtt: Option<Micros>,
    /// Total energy above idle while mpwatch observed the flow. `None`: unknown.
    pub(super) active: Option<Microjoules>,
}

/// The flow that uses an index of the columns. In columns before tick `since`, the values at this index belong to an earlier flow.
#[derive(Clone, Copy, Debug)]
struct Slot<Id> {
    id: Id,
    /// The first tick with the flow; [`FREE`] for an unused slot.
    since: Tick,
    /// The latest tick with the flow.
    last: Tick,
    active: Option<Microjoules>,
    activity: Activity,
}

/// The time over which power is averaged, in seconds.
const POWER_WINDOW: f64 = 5.0;

/// The `since` of an unused slot.
const FREE: Tick = Tick::MAX;

/// The values of a remembered closed flow, copied before its slot is freed.
#[derive(Clone, Debug)]
struct Kept {
    last: Tick,
    /// The interval of each tick and the flow's values in it, the latest last.
    values: Vec<(Span, Values)>,
}

/// The values of all connections, or of all subflows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks<Id> {
    /// A fast hash, because each snapshot needs tens of thousands of lookups. The kernel assigns the ids: peers cannot provoke collisions.
    slot_of: FxHashMap<Id, u32>,
    slots: Vec<Slot<Id>>,
    free: Vec<u32>,
    columns: TickColumns,
    kept: FxHashMap<Id, Kept>,
    /// The slot after the last one found, tried first: flows are mostly looked up in the order of their slots.
    next: Cell<usize>,
}

impl<Id: Copy + Eq + Hash> Tracks<Id> {
    /// Begins a tick, whose interval is `span`.
    pub(super) fn begin(&mut self, tick: Tick, span: Span) {
        self.columns.begin(tick, span, self.slots.len());
        self.next.set(0);
    }

    /// Adds the values of a flow in the current tick. `interval`: the length of the tick's interval in seconds.
    #[expect(clippy::cast_possible_truncation, reason = "f32 is precise enough for drawing")]
    pub(super) fn add(&mut self, id: Id, interval: f64, value: FlowValues) {
        let index = self.slot(id).unwrap_or_else(|| self.insert(id));
        let slot = &mut self.slots[index];
        slot.last = self.columns.tick;
        let grown = value.active.zip(slot.active).map(|(now, then)| now.since(then));
        slot.active = value.active;
        if let Some(rate) = value.rate {
            slot.activity.add(rate.0 as f32);
        }
        let step = slot.activity.step;
        let Some(column) = self.columns.all.back_mut() else { return };
        column.step[index] = step;
        let watts = grown.filter(|_| interval > 0.0).map(|grown| grown.joules() / interval);
        let values = [value.rate.map(|rate| rate.0 as f64), value.rtt.map(Micros::seconds), watts];
        for (column, value) in column.values.iter_mut().zip(values) {
            column[index] = value.map_or(f32::NAN, |value| value as f32);
        }
    }

    fn insert(&mut self, id: Id) -> usize {
        let tick = self.columns.tick;
        let slot = Slot { id, since: tick, last: tick, active: None, activity: Activity::default() };
        let index = if let Some(index) = self.free.pop().map(|index| index as usize) {
            self.slots[index] = slot;
            index
        } else {
            self.slots.push(slot);
            if let Some(column) = self.columns.all.back_mut() {
                column.resize(self.slots.len());
            }
            self.slots.len() - 1
        };
        self.slot_of.insert(id, u32::try_from(index).unwrap_or(u32::MAX));
        self.kept.remove(&id);
        self.next.set(index + 1);
        index
    }

    /// The slot of a flow. `None`: the flow has no slot, because it is new or its slot was freed.
    fn slot(&self, id: Id) -> Option<usize> {
        let guess = self.next.get();
        let hit = self.slots.get(guess).is_some_and(|slot| slot.id == id && slot.since != FREE);
        let index = if hit { guess } else { *self.slot_of.get(&id)? as usize };
        self.next.set(index + 1);
        Some(index)
    }

    /// Frees the slots of flows that no snapshot since `old` contains. Copies the values of the flows for which `is_kept` is true.
    pub(super) fn forget(&mut self, old: Tick, is_kept: impl Fn(&Id) -> bool) {
        for index in 0..self.slots.len() {
            let Slot { id, since, last, .. } = self.slots[index];
            if since == FREE || last >= old {
                continue;
            }
            if is_kept(&id) {
                let columns = self.columns.between(since, last);
                let values = columns.map(|column| (column.span, column.at(index))).collect();
                self.kept.insert(id, Kept { last, values });
            }
            self.slots[index].since = FREE;
            self.slot_of.remove(&id);
            self.free.extend(u32::try_from(index));
        }
        self.kept.retain(|id, _| is_kept(id));
    }

    /// For at most `max` ticks up to `until`, the sum of the known values of the flows `ids`, the latest last. `NaN`: all are unknown.
    pub(crate) fn sums(
        &self,
        ids: impl Iterator<Item = Id>,
        series: Series,
        until: Tick,
        max: usize,
    ) -> Vec<f32> {
        // Live flows are read column by column, in memory order; the few remembered flows are read separately.
        let (mut live, mut remembered) = (Vec::new(), Vec::new());
        for track in ids.filter_map(|id| self.get(id)) {
            match track.0 {
                Source::Live { index, since, last, .. } if last >= until => live.push((index, since)),
                _ => remembered.push(track),
            }
        }
        let mut sums = vec![0.0; max];
        let first = live.iter().map(|(_, since)| *since).min().unwrap_or(Tick::MAX);
        let columns = self.columns.between(first, until).rev().map(|column| &column.values[series as usize]);
        let mut longest = columns.len().min(max);
        for (sum, (values, tick)) in sums.iter_mut().rev().zip(columns.zip((0..=until).rev())) {
            let there = live.iter().filter(|(_, since)| *since <= tick);
            let values = there.filter_map(|(index, _)| values.get(*index).copied());
            *sum = values.reduce(known_sum).unwrap_or(0.0);
        }
        for track in remembered {
            longest = longest.max(track.add_to(&mut sums, series, until));
        }
        sums.split_off(max - longest)
    }

    /// The values of a flow. `None`: no values of this flow are kept.
    pub(crate) fn get(&self, id: Id) -> Option<Track<'_>> {
        Some(Track(match self.slot(id) {
            Some(index) => {
                let Slot { since, last, .. } = self.slots[index];
                Source::Live { columns: &self.columns, index, since, last }
            }
            None => Source::Kept(self.kept.get(&id)?),
        }))
    }
}

/// The sum of the known values among `a` and `b`. `NaN`: both are unknown.
fn known_sum(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => a + b,
    }
}

/// The values of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Live { columns: &'a TickColumns, index: usize, since: Tick, last: Tick },
    Kept(&'a Kept),
}

impl<'a> Track<'a> {
    /// The intervals up to tick `until` with their values, the latest first.
    fn back_from(self, until: Tick) -> impl Iterator<Item = (Span, Values)> + use<'a> {
        let (live, kept) = match self.0 {
            Source::Live { columns, index, since, last } => {
                let these = columns.between(since, until.min(last)).rev();
                (Some(these.map(move |column| (column.span, column.at(index)))), None)
            }
            Source::Kept(kept) => {
                let late = usize::try_from(kept.last.saturating_sub(until)).unwrap_or(usize::MAX);
                (None, Some(kept.values.iter().rev().skip(late).copied()))
            }
        };
        live.into_iter().flatten().chain(kept.into_iter().flatten())
    }

    /// The values up to tick `until` with their intervals, the latest last. `NaN`: unknown.
    pub(crate) fn spans(self, series: Series, until: Tick) -> Vec<(Span, f32)> {
        let latest_first = self.back_from(until).map(|(span, values)| (span, values[series as usize]));
        let mut values: Vec<(Span, f32)> = latest_first.collect();
        values.reverse();
        values
    }

    /// The values up to tick `until`, the latest last. `NaN`: unknown.
    pub(crate) fn values(self, series: Series, until: Tick) -> Vec<f32> {
        self.spans(series, until).into_iter().map(|(_, value)| value).collect()
    }

    /// Adds the values up to tick `until` to `sums`, whose last element belongs to `until`. Returns the number of values.
    fn add_to(self, sums: &mut [f32], series: Series, until: Tick) -> usize {
        let mut count = 0;
        for (sum, (_, values)) in sums.iter_mut().rev().zip(self.back_from(until)) {
            *sum = known_sum(*sum, values[series as usize]);
            count += 1;
        }
        count
    }

    /// Mean power in watts over `POWER_WINDOW`: a sampled ledger charges energy once a second, not in every tick. `None`: unknown.
    pub(crate) fn watts(self, at: Tick) -> Option<f64> {
        let (mut joules, mut seconds, mut end) = (0.0, 0.0, None);
        for ((from, to), values) in self.back_from(at) {
            let watts = f64::from(values[Series::Watts as usize]);
            if *end.get_or_insert(to) - to >= POWER_WINDOW {
                break;
            }
            if !watts.is_nan() {
                joules += watts * (to - from);
                seconds += to - from;
            }
        }
        (seconds > 0.0).then(|| joules / seconds)
    }

    /// The activity step at tick `at`; 0 for an idle flow and for a closed flow without a slot.
    pub(crate) fn activity(self, at: Tick) -> i16 {
        match self.0 {
            Source::Live { columns, index, since, last } => {
                let column = columns.between(since, at.min(last)).next_back();
                column.and_then(|column| column.step.get(index)).copied().unwrap_or(0)
            }
            Source::Kept(_) => 0,
        }
    }

    /// Mean of the known rates in the latest ten ticks up to `until`, bit/s; 0 if none is known.
    pub(crate) fn recent(self, until: Tick) -> f64 {
        let rates = self.back_from(until).take(10).map(|(_, values)| values[Series::Rate as usize]);
        let latest = rates.filter(|rate| !rate.is_nan());
        let (sum, count) = latest.fold((0.0, 0), |(sum, count), rate| (sum + f64::from(rate), count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }
}

#[cfg(test)]
mod tests;
