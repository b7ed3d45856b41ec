// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latest values of many flows, a column per tick, read front to back: with ten thousand flows, any other order waits for memory.

use std::cell::Cell;
use std::hash::Hash;

use mpwatch_model::unit::{BitsPerSecond, Microjoules, Micros};
use rustc_hash::FxHashMap;

use super::activity::Activity;
use super::series::{Column, Columns, Series, Span, Tick};

/// The values of a flow in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// Sent and received.
    pub(super) rate: BitsPerSecond,
    pub(super) rtt: Option<Micros>,
    /// Total energy above idle.
    pub(super) active: Option<Microjoules>,
}

/// A row of the columns and the flow that uses it. In columns before `since`, the row has values of an earlier flow.
#[derive(Clone, Copy, Debug)]
struct Slot<Id> {
    id: Id,
    /// Its first tick; [`FREE`] for an unused slot.
    since: Tick,
    /// The latest tick with the flow.
    last: Tick,
    active: Option<Microjoules>,
    activity: Activity,
}

/// The `since` of an unused slot.
const FREE: Tick = Tick::MAX;

/// Values of a closed flow that is remembered.
#[derive(Clone, Debug)]
struct Kept {
    last: Tick,
    /// Rate, RTT and power of each tick, the latest last.
    values: Vec<[f32; 3]>,
    /// The interval of each.
    spans: Vec<Span>,
}

/// The values of all flows of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Tracks<Id> {
    /// A fast hash: ids are numbers of the kernel, so that collisions are no attack; tens of thousands are looked up in each snapshot.
    slot_of: FxHashMap<Id, u32>,
    slots: Vec<Slot<Id>>,
    free: Vec<u32>,
    columns: Columns,
    kept: FxHashMap<Id, Kept>,
    /// The slot after the one found last: flows are mostly looked up in the order of the snapshot.
    next: Cell<usize>,
}

impl<Id> Default for Tracks<Id> {
    fn default() -> Self {
        Self {
            slot_of: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            columns: Columns::default(),
            kept: FxHashMap::default(),
            next: Cell::new(0),
        }
    }
}

impl<Id: Copy + Eq + Hash> Tracks<Id> {
    /// Starts a tick.
    pub(super) fn begin(&mut self, tick: Tick, span: Span) {
        self.columns.begin(tick, span, self.slots.len());
        self.next.set(0);
    }

    /// Adds a flow of the current tick. `interval`: time since the previous tick, in seconds.
    #[expect(clippy::cast_possible_truncation, reason = "for drawing")]
    pub(super) fn add(&mut self, id: Id, interval: f64, value: Value) {
        let index = self.slot(id).unwrap_or_else(|| self.insert(id));
        let slot = &mut self.slots[index];
        slot.last = self.columns.tick;
        let grown = value.active.zip(slot.active).map(|(now, then)| now.since(then));
        slot.active = value.active;
        let rate = value.rate.0 as f32;
        slot.activity.add(rate);
        let step = slot.activity.step();
        let Some(column) = self.columns.all.back_mut() else { return };
        column.step[index] = step;
        column.rate[index] = rate;
        column.rtt[index] = value.rtt.map_or(f32::NAN, |rtt| rtt.seconds() as f32);
        let watts = grown.filter(|_| interval > 0.0).map(|grown| grown.joules() / interval);
        column.watts[index] = watts.map_or(f32::NAN, |watts| watts as f32);
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
                for values in [&mut column.rate, &mut column.rtt, &mut column.watts] {
                    values.push(f32::NAN);
                }
                column.step.push(0);
            }
            self.slots.len() - 1
        };
        self.slot_of.insert(id, u32::try_from(index).unwrap_or(u32::MAX));
        self.kept.remove(&id);
        self.next.set(index + 1);
        index
    }

    /// The slot of a flow of the latest snapshots.
    fn slot(&self, id: Id) -> Option<usize> {
        let guess = self.next.get();
        let hit = self.slots.get(guess).is_some_and(|slot| slot.id == id && slot.since != FREE);
        let index = if hit { guess } else { *self.slot_of.get(&id)? as usize };
        self.next.set(index + 1);
        Some(index)
    }

    /// Frees the slots of flows not seen since `old`. Keeps the values of flows to be remembered.
    pub(super) fn forget(&mut self, old: Tick, is_kept: impl Fn(&Id) -> bool) {
        for index in 0..self.slots.len() {
            let Slot { id, since, last, .. } = self.slots[index];
            if since == FREE || last >= old {
                continue;
            }
            if is_kept(&id) {
                let each =
                    |column: &Column| [Series::Rate, Series::Rtt, Series::Watts].map(|s| column.at(s, index));
                let columns = || self.columns.between(since, last);
                let (values, spans) =
                    (columns().map(each).collect(), columns().map(|one| one.span).collect());
                self.kept.insert(id, Kept { last, values, spans });
            }
            self.slots[index].since = FREE;
            self.slot_of.remove(&id);
            self.free.extend(u32::try_from(index));
        }
        self.kept.retain(|id, _| is_kept(id));
    }

    /// The sums of the values of some flows for at most `max` ticks up to `until`, the latest last.
    pub(crate) fn sums(
        &self,
        ids: impl Iterator<Item = Id>,
        series: Series,
        until: Tick,
        max: usize,
    ) -> Vec<f32> {
        // Live flows are read column by column, as they are in memory; the few remembered ones one by one.
        let (mut live, mut remembered) = (Vec::new(), Vec::new());
        for track in ids.filter_map(|id| self.get(id)) {
            match track.0 {
                Source::Live { index, since, last, .. } if last >= until => live.push((index, since)),
                _ => remembered.push(track),
            }
        }
        let mut sums = vec![0.0; max];
        let first = live.iter().map(|(_, since)| *since).min().unwrap_or(Tick::MAX);
        let columns = self.columns.between(first, until).rev().map(|column| column.of(series));
        let mut longest = columns.len().min(max);
        for (sum, (values, tick)) in sums.iter_mut().rev().zip(columns.zip((0..=until).rev())) {
            let there = live.iter().filter(|(_, since)| *since <= tick);
            let values = there.filter_map(|(index, _)| values.get(*index)).filter(|value| !value.is_nan());
            *sum = values.fold(0.0, |sum, value| sum + value);
        }
        for track in remembered {
            longest = longest.max(track.add_to(&mut sums, series, until));
        }
        sums.split_off(max - longest)
    }

    /// The values of a flow. `None`: there are none.
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

/// The values of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Live { columns: &'a Columns, index: usize, since: Tick, last: Tick },
    Kept(&'a Kept),
}

impl<'a> Track<'a> {
    /// The values up to a tick, the latest first.
    fn back_from(self, series: Series, until: Tick) -> impl Iterator<Item = f32> + use<'a> {
        let (live, kept) = match self.0 {
            Source::Live { columns, index, since, last } => {
                let these = columns.between(since, until.min(last)).rev();
                (Some(these.map(move |column| column.at(series, index))), None)
            }
            Source::Kept(kept) => {
                let late = usize::try_from(kept.last.saturating_sub(until)).unwrap_or(usize::MAX);
                (None, Some(kept.values.iter().rev().skip(late).map(move |values| values[series as usize])))
            }
        };
        live.into_iter().flatten().chain(kept.into_iter().flatten())
    }

    /// The values up to a tick, the latest last; `NaN`: unknown.
    pub(crate) fn values(self, series: Series, until: Tick) -> Vec<f32> {
        let mut values: Vec<f32> = self.back_from(series, until).collect();
        values.reverse();
        values
    }

    /// The intervals of these values.
    pub(crate) fn spans(self, until: Tick) -> Vec<Span> {
        match self.0 {
            Source::Live { columns, since, last, .. } => {
                columns.between(since, until.min(last)).map(|column| column.span).collect()
            }
            Source::Kept(kept) => {
                let late = usize::try_from(kept.last.saturating_sub(until)).unwrap_or(usize::MAX);
                kept.spans.iter().take(kept.spans.len().saturating_sub(late)).copied().collect()
            }
        }
    }

    /// Adds the values up to a tick to `sums`, whose last element is that of the tick. Returns the number of values.
    fn add_to(self, sums: &mut [f32], series: Series, until: Tick) -> usize {
        let mut count = 0;
        for (sum, value) in sums.iter_mut().rev().zip(self.back_from(series, until)) {
            *sum += if value.is_nan() { 0.0 } else { value };
            count += 1;
        }
        count
    }

    /// Power at a tick. `None`: unknown.
    pub(crate) fn watts(self, at: Tick) -> Option<f64> {
        self.back_from(Series::Watts, at).next().filter(|watts| !watts.is_nan()).map(f64::from)
    }

    /// The activity step at a tick; 0 for an idle flow.
    pub(crate) fn activity(self, at: Tick) -> i16 {
        match self.0 {
            Source::Live { columns, index, since, last } => {
                let column = columns.between(since, at.min(last)).next_back();
                column.and_then(|column| column.step.get(index)).copied().unwrap_or(0)
            }
            Source::Kept(_) => 0,
        }
    }

    /// Mean rate of the latest ten values.
    pub(crate) fn recent(self, until: Tick) -> f64 {
        let latest = self.back_from(Series::Rate, until).take(10).filter(|rate| !rate.is_nan());
        let (sum, count) = latest.fold((0.0, 0), |(sum, count), rate| (sum + f64::from(rate), count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::SAMPLES;
    use super::*;

    fn span(tick: u32) -> Span {
        (f64::from(tick) - 1.0, f64::from(tick))
    }

    fn value(rate: u64) -> Value {
        Value { rate: BitsPerSecond(rate), rtt: None, active: None }
    }

    #[test]
    fn a_reused_slot_shows_nothing_of_the_flow_before() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for tick in 1..=5 {
            tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
            tracks.add(1, 1.0, value(tick * 10));
        }
        tracks.begin(6, (5.0, 6.0));
        tracks.forget(6, |_| false);
        assert!(tracks.get(1).is_none());
        tracks.add(2, 1.0, value(7));
        assert_eq!(tracks.slots.len(), 1, "the slot is reused");
        let track = tracks.get(2).unwrap();
        assert_eq!(track.values(Series::Rate, 6), [7.0]);
        assert!(track.values(Series::Rate, 5).is_empty());
        assert!((track.recent(6) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_remembered_flow_keeps_its_values_when_its_slot_is_freed() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for tick in 1..=3 {
            tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
            let (rtt, active) = (Some(Micros(tick * 1000)), Some(Microjoules(tick * 2_000_000)));
            tracks.add(1, 1.0, Value { rate: BitsPerSecond(tick), rtt, active });
        }
        let ticks = 3 + SAMPLES as Tick * 2;
        for tick in 4..=ticks {
            tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
            tracks.forget(tick.saturating_sub(16), |id| *id == 1);
        }
        let track = tracks.get(1).unwrap();
        assert_eq!(track.values(Series::Rate, ticks), [1.0, 2.0, 3.0]);
        assert_eq!(track.values(Series::Rtt, 2), [0.001, 0.002]);
        assert_eq!(track.spans(ticks), [1, 2, 3].map(span));
        assert_eq!(track.spans(2), [1, 2].map(span));
        assert_eq!((track.watts(ticks), track.watts(1)), (Some(2.0), None));
        tracks.forget(ticks, |_| false);
        assert!(tracks.get(1).is_none() && tracks.kept.is_empty());
    }

    #[test]
    fn flows_are_found_in_any_order() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for tick in 1..=3 {
            tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
            for id in if tick == 2 { [3, 1, 2] } else { [1, 2, 3] } {
                tracks.add(id, 1.0, value(id * tick));
            }
        }
        for id in [2, 3, 1, 3, 2] {
            let values = tracks.get(id).unwrap().values(Series::Rate, 3);
            assert_eq!(values, [1.0, 2.0, 3.0].map(|tick| tick * f32::from(u8::try_from(id).unwrap())));
        }
        assert_eq!(tracks.sums([2, 1].into_iter(), Series::Rate, 3, 4), [3.0, 6.0, 9.0]);
    }

    #[test]
    fn sums_contain_each_flow_in_its_own_time() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for tick in 1..=5 {
            tracks.begin(tick, (tick as f64 - 1.0, tick as f64));
            tracks.add(1, 1.0, value(tick));
            if tick > 2 {
                tracks.add(2, 1.0, value(tick * 10));
            }
            if tick < 4 {
                tracks.add(3, 1.0, value(tick * 100));
            }
        }
        let sums = |ids: &[u64], until, most| {
            let sums = tracks.sums(ids.iter().copied(), Series::Rate, until, most);
            sums.into_iter().map(f64::from).collect::<Vec<_>>()
        };
        assert_eq!(sums(&[1, 2], 5, 40), [1.0, 2.0, 33.0, 44.0, 55.0]);
        assert_eq!(sums(&[2, 1], 5, 2), [44.0, 55.0]);
        assert_eq!(sums(&[2, 9], 4, 40), [30.0, 40.0]);
        assert_eq!(sums(&[1, 3, 2], 2, 40), [101.0, 202.0]);
        // The values of a closed flow end where those of the others end.
        assert_eq!(sums(&[2, 3], 5, 40), [130.0, 240.0, 350.0]);
        assert!(sums(&[], 5, 40).is_empty() && sums(&[9], 5, 40).is_empty());
    }
}
