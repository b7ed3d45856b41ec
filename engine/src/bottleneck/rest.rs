// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a connection need not be watched closely: its verdicts have been standing for a while, or have not come although it was watched
//! for long. Then its paths are sampled thinly for a time, and nobody looks; after that they are sampled and looked at as ever, and if
//! everything still stands, or is still open, there is another, longer rest. What is sampled meanwhile shows whether the rates or the RTTs
//! become others, which ends a rest at once. Pure.

use std::collections::{BTreeMap, VecDeque};

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::id::SubflowId;
use mpwatch_model::sample::DelaySample;
use mpwatch_model::unit::{Micros, Nanos};

use super::PairEvaluation;

/// Verdicts that have been standing for so long are settled; those that have not come in so long, or are still in doubt, will not come
/// soon.
const STANDING: Nanos = Nanos(3_000_000_000);
const NOT_COMING: Nanos = Nanos(12_000_000_000);
/// A verdict with a probability between this and its complement is in doubt.
const SURE: f64 = 0.9;
/// The first rest. Each next one is twice as long as the one before; the longest eight times this, or sixteen times where there is no verdict
/// that could have become wrong.
const FIRST: u64 = 4_000_000_000;
const LONGEST: u32 = 3;
const LONGEST_UNKNOWN: u32 = 4;
/// So long paths are sampled as ever between two rests: to see whether verdicts still stand, and to see whether open ones can be reached
/// now, which takes the longest window (3 s) and looks that agree. Looks begin when there is half of that to be seen.
const CHECKED: Nanos = Nanos(3_000_000_000);
const SEARCHED: Nanos = Nanos(5_000_000_000);
/// Searching, looks are so far apart: most of them find nothing, and there are as many as it takes to give a verdict up.
const SEARCH_PACE: Nanos = Nanos(750_000_000);
/// What gets through is a rate over so long: the longer one where a verdict is open, so that only what lasts is a change.
const NOW: Nanos = Nanos(750_000_000);
const LASTING: Nanos = Nanos(3_000_000_000);
/// Which rates were usual is seen over so long before a rest.
const BEFORE: u64 = 2_000_000_000;
/// In a rest, points are so many times closer together than it is long, between these two: the longer everything has been as it is, the less
/// closely it is watched. After one with an RTT that is news, the next one is not later than the closest (`REST_NEWS_US` of sample.bpf.h).
const POINTS: u64 = 32;
const CLOSEST: u64 = 250_000_000;
const FARTHEST: u64 = 1_000_000_000;
/// Orders are told once a tick: by then the kernel has heard.
const TOLD: Nanos = Nanos(1_000_000_000);
/// A path without a point for so long stands still, at rest or not.
const SILENT: Nanos = Nanos(2_500_000_000);
/// So much more than the highest of these rates, or so much less than the lowest, is a change; the second one where a verdict is open, as it is
/// mostly among many whose rates go up and down.
const OTHER_RATE: f64 = 1.3;
const OTHER_RATE_OPEN: f64 = 2.0;
/// Where a verdict is open, such a rise shows at once that more goes on now than a trickle: many times the highest rate, and segments enough
/// to be compared.
const RISE: f64 = 4.0;
const NO_TRICKLE: f64 = 15.0;
/// So many points show that a silence is over.
const SPOKEN: usize = 15;
/// So many RTTs in a row that are news are no accident.
const IN_A_ROW: u32 = 3;
/// The beats that are kept of each path are so far apart.
const BEAT: u64 = 250_000_000;
/// Beats kept: more than what is looked back.
const KEPT: usize = 28;

/// Whether paths rest, of one connection.
#[derive(Default)]
pub(super) struct Rest {
    state: State,
    /// The verdicts that are standing, of which two subflows each is, and since when none has become another.
    verdicts: Vec<(SubflowId, SubflowId, Verdict)>,
    since: Nanos,
    /// Rests in a row.
    rests: u32,
    /// The last one began although a verdict was open.
    was_open: bool,
    /// The last look.
    looked: Nanos,
    pulses: BTreeMap<SubflowId, Pulse>,
    /// Lowest and highest rate of all subflows together before the rest, in segments a second.
    usual: (f64, f64),
    /// Points since then.
    came: usize,
    disturbed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Sampled densely from then on; a verdict is open, or has not been standing for long.
    Watching {
        from: Nanos,
    },
    Resting {
        from: Nanos,
        until: Nanos,
    },
    /// Sampled densely from then on, to see whether everything is as it was.
    Checking {
        from: Nanos,
    },
    /// The same after a rest that began although a verdict was open, and of which nothing has disturbed.
    Searching {
        from: Nanos,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Watching { from: Nanos(0) }
    }
}

/// What is to be done at a time at which a method could look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Look,
    LookAfter(Rested),
    Leave,
}

/// A rest that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rested {
    /// How long it was.
    pub time: Nanos,
    /// From when on paths are sampled densely again.
    pub until: Nanos,
    /// Something has changed; else its time was over.
    pub is_disturbed: bool,
}

/// RTTs from one to another, both included.
#[derive(Clone, Copy)]
struct RttRange {
    from: Micros,
    to: Micros,
}

impl RttRange {
    fn holds(&self, rtt: Micros) -> bool {
        (self.from..=self.to).contains(&rtt)
    }
}

/// One subflow, four times a second at most.
#[derive(Default)]
struct Pulse {
    beats: VecDeque<Beat>,
    /// The shortest and the longest RTT so far.
    rtts: Option<RttRange>,
    /// Points in a row with an RTT that is news.
    news: u32,
}

#[derive(Clone, Copy)]
struct Beat {
    at: Nanos,
    delivered: u32,
}

impl Rest {
    /// Takes note of points, whether its path is at rest or not.
    pub(super) fn take(&mut self, subflow: SubflowId, points: &[DelaySample]) {
        let is_resting = matches!(self.state, State::Resting { .. });
        let is_new = !self.pulses.contains_key(&subflow);
        let pulse = self.pulses.entry(subflow).or_default();
        for point in points {
            pulse.push(point);
        }
        self.came += points.len();
        let is_news = is_new || pulse.news >= IN_A_ROW || (self.was_silent() && self.came >= SPOKEN);
        self.disturbed |= is_resting && is_news;
    }

    /// A subflow has ended: those that are left get other rates.
    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.disturbed |= self.pulses.remove(&subflow).is_some();
    }

    /// From when on the kernel would take the next point after this one, had it been told at once.
    pub(super) fn due_after(&self, subflow: SubflowId, point: &DelaySample) -> Nanos {
        let State::Resting { from, until } = self.state else { return point.at };
        if !(from..until).contains(&point.at) || self.was_silent() {
            return point.at;
        }
        let is_news = self.pulses.get(&subflow).is_some_and(|pulse| !pulse.usual().holds(point.rtt));
        until.min(point.at + if is_news { Nanos(CLOSEST) } else { self.pause() })
    }

    /// Time between the points of a path at rest.
    fn pause(&self) -> Nanos {
        let State::Resting { from, until } = self.state else { return Nanos(CLOSEST) };
        Nanos((until.since(from).0 / POINTS).clamp(CLOSEST, FARTHEST))
    }

    /// Asked before each look.
    pub(super) fn advise(&mut self, at: Nanos) -> Advice {
        let (from, until) = match self.state {
            State::Resting { from, until } => (from, until),
            State::Searching { .. } if at.since(self.looked) < SEARCH_PACE && at >= self.looked => {
                return Advice::Leave;
            }
            _ => return Advice::Look,
        };
        // Rates are known once for each point.
        if at < from || self.disturbed || (at.0.is_multiple_of(self.pause().0) && self.is_other_rate(at)) {
            self.disturbed = false;
            if self.was_silent() {
                self.state = State::Checking { from: at };
                return Advice::LookAfter(Rested { time: Nanos(0), until: from.min(at), is_disturbed: true });
            }
            // By when the kernel was told, and takes the point after the last one of the rest.
            self.state = State::Checking { from: at + TOLD + self.pause() };
            return Advice::LookAfter(Rested { time: at.since(from), until: at, is_disturbed: true });
        }
        if at.0 < until.0 + self.dense_time().0 / 2 {
            return Advice::Leave;
        }
        self.state =
            if self.was_open { State::Searching { from: until } } else { State::Checking { from: until } };
        let time = if self.was_silent() { Nanos(0) } else { until.since(from) };
        Advice::LookAfter(Rested { time, until, is_disturbed: false })
    }

    /// Told after each look. Whether a cap still holds shows in dense samples only.
    pub(super) fn looked(&mut self, at: Nanos, evaluations: &[PairEvaluation], is_capped: bool) {
        let verdicts: Vec<_> =
            evaluations.iter().map(|evaluation| (evaluation.a, evaluation.b, evaluation.verdict)).collect();
        self.compare(at, verdicts);
        self.looked = at;
        // What the search was to find begins only now.
        if matches!(self.state, State::Searching { .. } | State::Checking { .. }) && self.has_risen(at) {
            (self.state, self.rests) = (State::Watching { from: at }, 0);
        }
        let is_new = at.since(self.since) < STANDING;
        let stands = !is_new && !evaluations.iter().any(is_open);
        // What was reached last may be taken back soon.
        let searched = if is_new { SEARCHED + STANDING } else { SEARCHED };
        let is_enough = match self.state {
            // Of many verdicts there may always be one that comes or goes.
            State::Watching { from } => stands || at.since(from) >= NOT_COMING,
            State::Searching { from } => at.since(from) >= searched,
            State::Checking { from } if self.was_open => at.since(from) >= searched,
            // A doubt that came in the meantime is given the time of one that is new.
            State::Checking { from } => at.since(from) >= if stands { CHECKED } else { NOT_COMING },
            State::Resting { .. } => false,
        };
        if is_enough && !is_capped && !evaluations.is_empty() {
            let is_known = evaluations.iter().any(|evaluation| evaluation.verdict != Verdict::Unknown);
            self.begin(at, !stands, if is_known { LONGEST } else { LONGEST_UNKNOWN });
        }
    }

    /// Takes note of what became of the verdicts.
    fn compare(&mut self, at: Nanos, verdicts: Vec<(SubflowId, SubflowId, Verdict)>) {
        if verdicts == self.verdicts && at >= self.since {
            return;
        }
        let pairs = |verdicts: &[(SubflowId, SubflowId, Verdict)]| -> Vec<(SubflowId, SubflowId)> {
            verdicts.iter().map(|(a, b, _)| (*a, *b)).collect()
        };
        let are_others = at < self.since || pairs(&verdicts) != pairs(&self.verdicts);
        let was_standing = matches!(self.state, State::Checking { .. }) && !self.was_open;
        if are_others || was_standing {
            (self.state, self.rests) = (State::Watching { from: at }, 0);
        }
        (self.verdicts, self.since) = (verdicts, at);
    }

    /// How long paths are sampled densely after a rest.
    fn dense_time(&self) -> Nanos {
        if self.was_open { SEARCHED } else { CHECKED }
    }

    fn begin(&mut self, at: Nanos, is_open: bool, longest: u32) {
        if is_open != self.was_open {
            self.rests = 0;
        }
        let until = Nanos(at.0 + (FIRST << self.rests.min(longest)));
        self.rests = (self.rests + 1).min(longest);
        self.was_open = is_open;
        self.state = State::Resting { from: at, until };
        self.disturbed = false;
        (self.usual, self.came) = (self.usual_rates(at), 0);
        // Of a silence there is nothing to be left out, and how it ends is seen as soon as without a rest: only nobody looks.
        for pulse in self.pulses.values_mut() {
            pulse.news = 0;
        }
    }

    /// Segments a second of all subflows together, over so long. `None`: of none it is known.
    fn rate(&self, at: Nanos, over: Nanos) -> Option<f64> {
        self.pulses.values().filter_map(|pulse| pulse.rate(at, over)).reduce(|sum, rate| sum + rate)
    }

    /// Nothing got through before the rest, or too little came to have a rate.
    fn was_silent(&self) -> bool {
        self.usual.1 <= 0.0
    }

    /// Over how long a rate is taken.
    fn rated(&self) -> Nanos {
        if self.was_open { LASTING } else { NOW }
    }

    /// None, where too little came to have a rate.
    fn usual_rates(&self, at: Nanos) -> (f64, f64) {
        let times = (0..=BEFORE / BEAT).map(|beats| Nanos(at.0.saturating_sub(beats * BEAT)));
        // A sum of others is no rate of all.
        let known =
            |at: Nanos| self.pulses.values().filter(|pulse| pulse.rate(at, self.rated()).is_some()).count();
        let all = known(at);
        let rates = times.filter(|at| known(*at) == all).filter_map(|at| self.rate(at, self.rated()));
        let range = rates.map(|rate| (rate, rate));
        range.reduce(|(low, high), (rate, _)| (low.min(rate), high.max(rate))).unwrap_or_default()
    }

    fn is_other_rate(&self, at: Nanos) -> bool {
        if self.was_silent() {
            return self.rate(at, NOW).is_some_and(|rate| rate > NO_TRICKLE);
        }
        let (low, high) = self.usual;
        let factor = if self.was_open { OTHER_RATE_OPEN } else { OTHER_RATE };
        let is_other = |rate: f64| rate > high * factor || rate * factor < low;
        self.rate(at, self.rated()).is_some_and(is_other) || self.has_risen(at)
    }

    fn has_risen(&self, at: Nanos) -> bool {
        let least = (self.usual.1 * RISE).max(NO_TRICKLE);
        self.was_open && self.rate(at, NOW).is_some_and(|rate| rate > least)
    }
}

/// Not known, or in doubt.
fn is_open(evaluation: &PairEvaluation) -> bool {
    match evaluation.verdict {
        // Nothing new that speaks for it is doubt as well.
        Verdict::Shared => evaluation.probability.is_none_or(|probability| probability < SURE),
        Verdict::Disjoint => evaluation.probability.is_none_or(|probability| probability > 1.0 - SURE),
        Verdict::NoBottleneck => false,
        Verdict::Unknown => true,
    }
}

impl Pulse {
    fn push(&mut self, point: &DelaySample) {
        self.news = if self.usual().holds(point.rtt) { 0 } else { self.news + 1 };
        // One alone is an accident: it does not become usual at once.
        if self.news == 0 || self.news >= IN_A_ROW {
            let RttRange { from, to } = self.rtts.unwrap_or(RttRange { from: point.rtt, to: point.rtt });
            self.rtts = Some(RttRange { from: from.min(point.rtt), to: to.max(point.rtt) });
        }
        let beat = Beat { at: point.at, delivered: point.delivered };
        match self.beats.back_mut() {
            // A clock that was set back.
            Some(last) if point.at < last.at => self.beats.clear(),
            Some(last) if last.at.0 / BEAT == point.at.0 / BEAT => {
                *last = beat;
                return;
            }
            _ => {}
        }
        self.beats.push_back(beat);
        if self.beats.len() > KEPT {
            self.beats.pop_front();
        }
    }

    /// RTTs that are no news: from a fifth shorter than any of this path so far to a quarter longer.
    fn usual(&self) -> RttRange {
        let all = RttRange { from: Micros(0), to: Micros(u64::MAX) };
        self.rtts.map_or(all, |RttRange { from, to }| RttRange {
            from: Micros(from.0 / 5 * 4),
            to: Micros(to.0.saturating_add(to.0 / 4)),
        })
    }

    /// Segments a second over so long before `at`; none if it stands still. `None`: not known for so long.
    fn rate(&self, at: Nanos, over: Nanos) -> Option<f64> {
        let until = self.beats.iter().rfind(|beat| beat.at <= at)?;
        if at.since(until.at) > SILENT {
            return Some(0.0);
        }
        let from = self.beats.iter().rfind(|beat| until.at.since(beat.at) >= over)?;
        let seconds = until.at.since(from.at).0 as f64 / 1e9;
        Some(f64::from(until.delivered.wrapping_sub(from.delivered)) / seconds)
    }
}
