// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latest values of many flows. They lie by time first: a snapshot writes each column from its beginning to its end, and what looks at
//! all flows reads it so. With ten thousand flows anything else is spent waiting for memory.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use mpwatch_model::unit::{BitsPerSecond, Microjoules, Micros};

use super::activity::Activity;
use super::{SAMPLES, Series, Turn};

/// Ids are numbers of the kernel: no attack is to be feared, and there are tens of thousands of them a snapshot.
type Quick = BuildHasherDefault<Mixer>;

/// Multiplies and rotates.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// What a snapshot says of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// Sent and received.
    pub(super) rate: BitsPerSecond,
    pub(super) rtt: Option<Micros>,
    /// Energy above idle so far.
    pub(super) active: Option<Microjoules>,
}

/// A place in the columns, and whose it is at present. A place that is given to another flow keeps the values of the one before: `since` says
/// which ones are not its own.
#[derive(Clone, Copy, Debug)]
struct Slot<Id> {
    id: Id,
    /// Its first turn; `Turn::MAX`: nobody's.
    since: Turn,
    /// The latest turn that told of it.
    last: Turn,
    active: Option<Microjoules>,
    activity: Activity,
}

/// The values of a turn by slot; `NaN`: not known. What came later has none here.
#[derive(Clone, Debug, Default)]
struct Column {
    rate: Vec<f32>,
    rtt: Vec<f32>,
    watts: Vec<f32>,
    step: Vec<i16>,
}

impl Column {
    fn clear(&mut self, slots: usize) {
        self.step.clear();
        self.step.resize(slots, 0);
        for values in [&mut self.rate, &mut self.rtt, &mut self.watts] {
            values.clear();
            values.resize(slots, f32::NAN);
        }
    }

    fn of(&self, series: Series) -> &[f32] {
        match series {
            Series::Rate => &self.rate,
            Series::Rtt => &self.rtt,
            Series::Watts => &self.watts,
        }
    }

    fn at(&self, series: Series, slot: usize) -> f32 {
        self.of(series).get(slot).copied().unwrap_or(f32::NAN)
    }
}

/// The latest columns, the latest last: that of `turn`.
#[derive(Clone, Debug, Default)]
struct Columns {
    turn: Turn,
    all: VecDeque<Column>,
}

impl Columns {
    fn begin(&mut self, turn: Turn, slots: usize) {
        let reused = if self.all.len() == SAMPLES { self.all.pop_front() } else { None };
        let mut column = reused.unwrap_or_default();
        column.clear(slots);
        self.all.push_back(column);
        self.turn = turn;
    }

    /// Those of some turns, as far as they are kept.
    fn between(&self, from: Turn, to: Turn) -> impl DoubleEndedIterator<Item = &Column> + ExactSizeIterator {
        let oldest = self.turn + 1 - self.all.len() as Turn;
        let place = |turn: Turn| usize::try_from(turn.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let end = if to < oldest { 0 } else { place(to + 1).min(self.all.len()) };
        self.all.range(place(from).min(end)..end)
    }
}

/// Values of a flow that no snapshot tells of any more, but which is remembered.
#[derive(Clone, Debug)]
struct Kept {
    last: Turn,
    /// Rate, RTT, power of each turn, the latest last.
    values: Vec<[f32; 3]>,
}

/// The values of all flows of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Tracks<Id> {
    places: HashMap<Id, u32, Quick>,
    slots: Vec<Slot<Id>>,
    free: Vec<u32>,
    columns: Columns,
    kept: HashMap<Id, Kept, Quick>,
    /// The slot after the one that was found last: flows are mostly asked for in the order in which they were told, and what is next to
    /// each other needs no search.
    next: Cell<usize>,
}

impl<Id> Default for Tracks<Id> {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            columns: Columns::default(),
            kept: HashMap::default(),
            next: Cell::new(0),
        }
    }
}

impl<Id: Copy + Eq + Hash> Tracks<Id> {
    /// Begins a turn, of which nothing is known yet.
    pub(super) fn begin(&mut self, turn: Turn) {
        self.columns.begin(turn, self.slots.len());
        self.next.set(0);
    }

    /// What the turn that has begun tells of a flow; `interval`: seconds since the turn before.
    #[expect(clippy::cast_possible_truncation, reason = "to be drawn")]
    pub(super) fn add(&mut self, id: Id, interval: f64, value: Value) {
        let place = self.slot(id).unwrap_or_else(|| self.take_in(id));
        let slot = &mut self.slots[place];
        slot.last = self.columns.turn;
        let grown = value.active.zip(slot.active).map(|(now, then)| now.since(then));
        slot.active = value.active;
        let rate = value.rate.0 as f32;
        slot.activity.take(rate);
        let step = slot.activity.step();
        let Some(column) = self.columns.all.back_mut() else { return };
        column.step[place] = step;
        column.rate[place] = rate;
        column.rtt[place] = value.rtt.map_or(f32::NAN, |rtt| (rtt.0 as f64 / 1e6) as f32);
        let watts = grown.filter(|_| interval > 0.0).map(|grown| grown.joules() / interval);
        column.watts[place] = watts.map_or(f32::NAN, |watts| watts as f32);
    }

    fn take_in(&mut self, id: Id) -> usize {
        let turn = self.columns.turn;
        let slot = Slot { id, since: turn, last: turn, active: None, activity: Activity::default() };
        let place = if let Some(place) = self.free.pop().map(|place| place as usize) {
            self.slots[place] = slot;
            place
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
        self.places.insert(id, u32::try_from(place).unwrap_or(u32::MAX));
        self.kept.remove(&id);
        self.next.set(place + 1);
        place
    }

    /// Its place, while snapshots tell of it.
    fn slot(&self, id: Id) -> Option<usize> {
        let guess = self.next.get();
        let hit = self.slots.get(guess).is_some_and(|slot| slot.id == id && slot.since != Turn::MAX);
        let place = if hit { guess } else { *self.places.get(&id)? as usize };
        self.next.set(place + 1);
        Some(place)
    }

    /// Makes room: flows of which nothing was told since `old` go. Of those that are to be kept the values stay.
    pub(super) fn forget(&mut self, old: Turn, is_kept: impl Fn(&Id) -> bool) {
        for place in 0..self.slots.len() {
            let Slot { id, since, last, .. } = self.slots[place];
            if since == Turn::MAX || last >= old {
                continue;
            }
            if is_kept(&id) {
                let each =
                    |column: &Column| [Series::Rate, Series::Rtt, Series::Watts].map(|s| column.at(s, place));
                let values = self.columns.between(since, last).map(each).collect();
                self.kept.insert(id, Kept { last, values });
            }
            self.slots[place].since = Turn::MAX;
            self.places.remove(&id);
            self.free.extend(u32::try_from(place));
        }
        self.kept.retain(|id, _| is_kept(id));
    }

    /// The sums of the latest values of some flows up to a turn, the latest last: at most so many.
    pub(crate) fn sums(
        &self,
        ids: impl Iterator<Item = Id>,
        series: Series,
        until: Turn,
        most: usize,
    ) -> Vec<f32> {
        // What the turn tells of is read column by column, as it lies in memory; the few that are only remembered, one by one.
        let (mut told, mut remembered) = (Vec::new(), Vec::new());
        for track in ids.filter_map(|id| self.get(id)) {
            match track.0 {
                Of::Told { place, since, last, .. } if last >= until => told.push((place, since)),
                _ => remembered.push(track),
            }
        }
        let mut sums = vec![0.0; most];
        let first = told.iter().map(|(_, since)| *since).min().unwrap_or(Turn::MAX);
        let columns = self.columns.between(first, until).rev().map(|column| column.of(series));
        let mut longest = columns.len().min(most);
        for (sum, (values, turn)) in sums.iter_mut().rev().zip(columns.zip((0..=until).rev())) {
            let there = told.iter().filter(|(_, since)| *since <= turn);
            let values = there.filter_map(|(place, _)| values.get(*place)).filter(|value| !value.is_nan());
            *sum = values.fold(0.0, |sum, value| sum + value);
        }
        for track in remembered {
            longest = longest.max(track.add_to(&mut sums, series, until));
        }
        sums.split_off(most - longest)
    }

    /// What is remembered of a flow. `None`: nothing.
    pub(crate) fn get(&self, id: Id) -> Option<Track<'_>> {
        Some(Track(match self.slot(id) {
            Some(place) => {
                let Slot { since, last, .. } = self.slots[place];
                Of::Told { columns: &self.columns, place, since, last }
            }
            None => Of::Kept(self.kept.get(&id)?),
        }))
    }
}

/// The values of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a>(Of<'a>);

#[derive(Clone, Copy, Debug)]
enum Of<'a> {
    Told { columns: &'a Columns, place: usize, since: Turn, last: Turn },
    Kept(&'a Kept),
}

impl<'a> Track<'a> {
    /// The values up to a turn, the latest first.
    fn back_from(self, series: Series, until: Turn) -> impl Iterator<Item = f32> + use<'a> {
        let (told, kept) = match self.0 {
            Of::Told { columns, place, since, last } => {
                let these = columns.between(since, until.min(last)).rev();
                (Some(these.map(move |column| column.at(series, place))), None)
            }
            Of::Kept(kept) => {
                let late = usize::try_from(kept.last.saturating_sub(until)).unwrap_or(usize::MAX);
                (None, Some(kept.values.iter().rev().skip(late).map(move |values| values[series as usize])))
            }
        };
        told.into_iter().flatten().chain(kept.into_iter().flatten())
    }

    /// The values up to a turn, the latest last; `NaN`: not known then.
    pub(crate) fn values(self, series: Series, until: Turn) -> Vec<f32> {
        let mut values: Vec<f32> = self.back_from(series, until).collect();
        values.reverse();
        values
    }

    /// Adds the latest values up to a turn to sums, of which the last one is that turn's; how many there were.
    fn add_to(self, sums: &mut [f32], series: Series, until: Turn) -> usize {
        let mut count = 0;
        for (sum, value) in sums.iter_mut().rev().zip(self.back_from(series, until)) {
            *sum += if value.is_nan() { 0.0 } else { value };
            count += 1;
        }
        count
    }

    /// Power at a turn. `None`: not known.
    pub(crate) fn watts(self, at: Turn) -> Option<f64> {
        self.back_from(Series::Watts, at).next().filter(|watts| !watts.is_nan()).map(f64::from)
    }

    /// How active it was at a turn, in steps that do not change with every small change of its rate; 0 at rest.
    pub(crate) fn activity(self, at: Turn) -> i16 {
        match self.0 {
            Of::Told { columns, place, since, last } => {
                let column = columns.between(since, at.min(last)).next_back();
                column.and_then(|column| column.step.get(place)).copied().unwrap_or(0)
            }
            Of::Kept(_) => 0,
        }
    }

    /// Mean rate of the latest ten values.
    pub(crate) fn recent(self, until: Turn) -> f64 {
        let latest = self.back_from(Series::Rate, until).take(10).filter(|rate| !rate.is_nan());
        let (sum, count) = latest.fold((0.0, 0), |(sum, count), rate| (sum + f64::from(rate), count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(rate: u64) -> Value {
        Value { rate: BitsPerSecond(rate), rtt: None, active: None }
    }

    #[test]
    fn a_place_that_is_given_to_another_flow_shows_nothing_of_the_one_before() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for turn in 1..=5 {
            tracks.begin(turn);
            tracks.add(1, 1.0, value(turn * 10));
        }
        tracks.begin(6);
        tracks.forget(6, |_| false);
        assert!(tracks.get(1).is_none());
        tracks.add(2, 1.0, value(7));
        assert_eq!(tracks.slots.len(), 1, "the place is used again");
        let track = tracks.get(2).unwrap();
        assert_eq!(track.values(Series::Rate, 6), [7.0]);
        assert!(track.values(Series::Rate, 5).is_empty());
        assert!((track.recent(6) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_remembered_keeps_its_values_when_its_place_goes() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for turn in 1..=3 {
            tracks.begin(turn);
            let (rtt, active) = (Some(Micros(turn * 1000)), Some(Microjoules(turn * 2_000_000)));
            tracks.add(1, 1.0, Value { rate: BitsPerSecond(turn), rtt, active });
        }
        let turns = 3 + SAMPLES as Turn * 2;
        for turn in 4..=turns {
            tracks.begin(turn);
            tracks.forget(turn.saturating_sub(16), |id| *id == 1);
        }
        let track = tracks.get(1).unwrap();
        assert_eq!(track.values(Series::Rate, turns), [1.0, 2.0, 3.0]);
        assert_eq!(track.values(Series::Rtt, 2), [0.001, 0.002]);
        assert_eq!((track.watts(turns), track.watts(1)), (Some(2.0), None));
        tracks.forget(turns, |_| false);
        assert!(tracks.get(1).is_none() && tracks.kept.is_empty());
    }

    #[test]
    fn flows_are_found_in_any_order() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for turn in 1..=3 {
            tracks.begin(turn);
            for id in if turn == 2 { [3, 1, 2] } else { [1, 2, 3] } {
                tracks.add(id, 1.0, value(id * turn));
            }
        }
        for id in [2, 3, 1, 3, 2] {
            let values = tracks.get(id).unwrap().values(Series::Rate, 3);
            assert_eq!(values, [1.0, 2.0, 3.0].map(|turn| turn * f32::from(u8::try_from(id).unwrap())));
        }
        assert_eq!(tracks.sums([2, 1].into_iter(), Series::Rate, 3, 4), [3.0, 6.0, 9.0]);
    }

    #[test]
    fn sums_hold_what_each_flow_had_in_its_time() {
        let mut tracks: Tracks<u64> = Tracks::default();
        for turn in 1..=5 {
            tracks.begin(turn);
            tracks.add(1, 1.0, value(turn));
            if turn > 2 {
                tracks.add(2, 1.0, value(turn * 10));
            }
            if turn < 4 {
                tracks.add(3, 1.0, value(turn * 100));
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
        // What has ended stands with its end where the others are now.
        assert_eq!(sums(&[2, 3], 5, 40), [130.0, 240.0, 350.0]);
        assert!(sums(&[], 5, 40).is_empty() && sums(&[9], 5, 40).is_empty());
    }
}
