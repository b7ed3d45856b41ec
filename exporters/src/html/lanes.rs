// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of a connection with a lane for each subflow: what it carried and when, when it came, when it died, who shares a bottleneck,
//! what it cost. Drawn twice, for broad screens and paper and for phones; the style sheet shows one of them.

use std::fmt::Write as _;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::metric::{self, SUBFLOW, Unit};
use mpwatch_model::outage;
use mpwatch_model::subflow::Subflow;
use mpwatch_model::timeline::TimelineEvent;

use super::drawing::{Scale, colour, figure, name, seconds, svg};
use super::escape;
use mpwatch_model::series::{CounterSample, CounterSeries};

/// Into so many steps at most a life is drawn: more could not be seen, and a week would make a file that nobody can open.
const STEPS: f64 = 160.0;
/// Room for the longest gap's label, above the lanes.
const BAND: f64 = 18.0;
const BAR: f64 = 30.0;
/// Between two columns of brackets, and from the last to the right edge.
const BRACKET: f64 = 6.0;

/// Measures of a drawing, in its own units.
struct Layout {
    /// For which screens.
    class: &'static str,
    width: f64,
    /// Where time begins.
    left: f64,
    /// From one lane to the next.
    lane: f64,
    /// From the top of a lane to its bar.
    bar: f64,
    /// Parts of the axis.
    parts: u32,
    /// Baselines of the words on a lane, and where the last of them stand.
    words: [f64; 3],
    last: (f64, &'static str),
}

/// Words beside the lanes.
const BROAD: Layout = Layout {
    class: " class=\"broad\"",
    width: 900.0,
    left: 165.0,
    lane: 48.0,
    bar: 9.0,
    parts: 8,
    words: [14.0, 29.0, 44.0],
    last: (0.0, "start"),
};
/// Words above the lanes.
const NARROW: Layout = Layout {
    class: " class=\"narrow\"",
    width: 340.0,
    left: 2.0,
    lane: 72.0,
    bar: 36.0,
    parts: 4,
    words: [14.0, 30.0, 14.0],
    last: (320.0, "end"),
};

/// A lane for each subflow from its SYN to its end.
pub(super) fn lanes(connection: &Connection, samples: &CounterSeries) -> String {
    let Some(clock) = Clock::of(connection).filter(|_| !connection.subflows.is_empty()) else {
        return String::new();
    };
    let rates = |subflow: &Subflow| {
        let of_it = samples.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice);
        let mut steps = steps(subflow, of_it, &clock);
        if let Some(death) = outage::path_failure(connection, subflow) {
            end_with(clock.at(death.at), &mut steps);
        }
        steps
    };
    let rates: Vec<Vec<Step>> = connection.subflows.iter().map(rates).collect();
    let fastest = rates.iter().flatten().map(Step::rate).fold(0.0, f64::max);
    let life = Life { connection, clock, rates, fastest };
    let caption = life.caption();
    let drawings: String = [BROAD, NARROW].iter().map(|layout| life.draw(layout, &caption)).collect();
    figure("lanes", &caption, &drawings)
}

/// Time of a connection from its beginning, in seconds.
struct Clock {
    beginning: Timestamp,
    end: f64,
}

impl Clock {
    fn of(connection: &Connection) -> Option<Self> {
        let first = connection.timeline.first().map(|entry| entry.at);
        let beginning = connection.opened_at.or(first).or(connection.closed_at)?;
        let since = |at: Timestamp| at.duration_since(beginning).as_secs_f64();
        let told = connection.timeline.iter().map(|entry| since(entry.at));
        let end = told.fold(connection.age_s, f64::max);
        Some(Self { beginning, end })
    }

    fn at(&self, time: Timestamp) -> f64 {
        time.duration_since(self.beginning).as_secs_f64()
    }
}

/// What was carried in a time.
struct Step {
    from: f64,
    to: f64,
    bytes: u64,
}

impl Step {
    fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / (self.to - self.from)
    }
}

/// What was carried between samples, from the SYN to the end. Empty without samples.
fn steps(subflow: &Subflow, samples: &[CounterSample], clock: &Clock) -> Vec<Step> {
    if samples.is_empty() {
        return Vec::new();
    }
    let start = subflow.created_at.map(|at| (clock.at(at), 0));
    let known = samples.iter().map(|one| (clock.at(one.at), one.bytes_sent.0 + one.bytes_received.0));
    let last = subflow.closed.map_or(clock.end, |closed| clock.at(closed.at));
    let end = (last, subflow.bytes_sent.0 + subflow.bytes_received.0);
    let mut points = start.into_iter().chain(known).chain([end]);
    let Some(mut before) = points.next() else { return Vec::new() };
    let mut steps: Vec<Step> = Vec::new();
    for (at, bytes) in points.filter(|(at, _)| *at > before.0).collect::<Vec<_>>() {
        let carried = bytes.saturating_sub(before.1);
        match steps.last_mut().filter(|step| at - step.from < clock.end / STEPS) {
            Some(step) => (step.to, step.bytes) = (at, step.bytes + carried),
            None => steps.push(Step { from: before.0, to: at, bytes: carried }),
        }
        before = (at, bytes);
    }
    steps
}

/// What a path carried until the first sample after its death it carried before that.
fn end_with(death: f64, steps: &mut Vec<Step>) {
    if let Some(last) =
        steps.iter_mut().find(|step| (step.from..step.to).contains(&death) && step.from < death)
    {
        last.to = death;
        steps.retain(|step| step.to <= death || step.bytes > 0);
    }
}

/// Everything that is drawn of a connection.
struct Life<'a> {
    connection: &'a Connection,
    clock: Clock,
    rates: Vec<Vec<Step>>,
    fastest: f64,
}

impl Life<'_> {
    fn caption(&self) -> String {
        let top = metric::display(Unit::BitsPerSecond, Some(self.fastest));
        let height = if self.rates.iter().all(Vec::is_empty) {
            String::new()
        } else {
            format!("; a full lane is {top}")
        };
        let groups = self.connection.bottlenecks.iter().flat_map(|found| &found.groups);
        let shared = if groups.into_iter().any(|group| group.len() > 1) {
            " Bracket: these share one bottleneck."
        } else {
            ""
        };
        format!(
            "What each path carried, over time{height}. Dots: a path came up or changed. \
             Red: something failed, or no path made progress.{shared}"
        )
    }

    fn draw(&self, layout: &Layout, caption: &str) -> String {
        let scale = Scale { to: self.clock.end, left: layout.left, width: layout.width, parts: layout.parts };
        let on = On { life: self, layout, scale, band: self.band() };
        let bottom = on.bottom();
        let mut body = scale.axis(bottom, seconds);
        for place in 0..self.connection.subflows.len() {
            body.push_str(&on.words(place));
            body.push_str(&on.lane(place));
        }
        body.push_str(&on.outages());
        body.push_str(&on.events());
        body.push_str(&on.brackets());
        svg(layout.class, caption, (layout.width, bottom + 20.0), &body)
    }

    fn band(&self) -> f64 {
        if outage::outages(self.connection).is_empty() { 0.0 } else { BAND }
    }

    /// When a subflow began and ended to carry data.
    fn span(&self, subflow: &Subflow) -> (f64, f64) {
        let death = outage::path_failure(self.connection, subflow).map(|death| death.at);
        let end = death.or(subflow.closed.map(|closed| closed.at));
        let begin = subflow.created_at.map_or(0.0, |at| self.clock.at(at));
        (begin, end.map_or(self.clock.end, |at| self.clock.at(at)).max(begin))
    }
}

/// A drawing in the making.
struct On<'a> {
    life: &'a Life<'a>,
    layout: &'a Layout,
    scale: Scale,
    /// Room above the lanes.
    band: f64,
}

impl On<'_> {
    fn top(&self, place: usize) -> f64 {
        self.band + self.layout.lane * place as f64
    }

    fn bottom(&self) -> f64 {
        self.top(self.life.connection.subflows.len())
    }

    fn middle(&self, place: usize) -> f64 {
        self.top(place) + self.layout.bar + BAR / 2.0
    }

    /// Which path it is, what it carried and cost, when it came or died.
    fn words(&self, place: usize) -> String {
        let connection = self.life.connection;
        let Some(subflow) = connection.subflows.get(place) else { return String::new() };
        let lines = self.layout.words.map(|line| self.top(place) + line);
        let mut text = format!(
            "<text class=\"name\" x=\"0\" y=\"{:.1}\">{}</text>\n<text class=\"soft\" x=\"0\" y=\"{:.1}\">{}</text>\n",
            lines[0],
            name(subflow, place),
            lines[1],
            carried(subflow, connection)
        );
        if let Some((class, words)) = came_or_went(subflow, connection) {
            let (x, anchor) = self.layout.last;
            let _ = writeln!(
                text,
                "<text class=\"{class}\" x=\"{x}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
                lines[2]
            );
        }
        text
    }

    fn lane(&self, place: usize) -> String {
        let (Some(subflow), Some(steps)) =
            (self.life.connection.subflows.get(place), self.life.rates.get(place))
        else {
            return String::new();
        };
        let top = self.top(place) + self.layout.bar;
        let (begin, end) = self.life.span(subflow);
        let [begin, end] = [begin, end].map(|at| self.scale.place(at));
        let class = colour(place);
        let mut text = String::new();
        let _ = writeln!(
            text,
            "<rect class=\"f{class}\" opacity=\"{}\" x=\"{begin:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            if steps.is_empty() { "0.75" } else { "0.18" },
            (end - begin).max(1.0)
        );
        let Some(first) = steps.first() else { return text };
        let floor = top + BAR;
        let mut path = format!("M{:.1} {floor:.1}", self.scale.place(first.from));
        for step in steps {
            let part = if self.life.fastest > 0.0 { step.rate() / self.life.fastest } else { 0.0 };
            let _ = write!(path, "V{:.1}H{:.1}", floor - BAR * part, self.scale.place(step.to));
        }
        let _ = writeln!(text, "<path class=\"f{class}\" opacity=\"0.85\" d=\"{path}V{floor:.1}Z\"/>");
        text
    }

    /// Times in which no path made progress; the one that matters most with its length.
    fn outages(&self) -> String {
        let connection = self.life.connection;
        let outages = outage::outages(connection);
        let told = outage::outage_of_failure(connection, &outages);
        outages.iter().fold(String::new(), |mut text, gap| {
            let from = self.life.clock.at(gap.from);
            let long = gap.long.0 as f64 / 1e6;
            let [x, end] = [from, from + long].map(|at| self.scale.place(at));
            let _ = writeln!(
                text,
                "<rect class=\"gap\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                self.band,
                (end - x).max(1.0),
                self.bottom() - self.band
            );
            if told.as_ref() == Some(gap) {
                let anchor = match (x - self.layout.left) / (self.layout.width - self.layout.left) {
                    part if part < 0.25 => "start",
                    part if part > 0.75 => "end",
                    _ => "middle",
                };
                let _ = writeln!(
                    text,
                    "<text class=\"wrong\" x=\"{:.1}\" y=\"13\" text-anchor=\"{anchor}\">no progress for {}</text>",
                    f64::midpoint(x, end),
                    seconds(long)
                );
            }
            text
        })
    }

    fn events(&self) -> String {
        let connection = self.life.connection;
        let named =
            |id| connection.subflow_number(id).map_or_else(|| format!("{id}"), |place| place.to_string());
        let mut text = String::new();
        for entry in &connection.timeline {
            let (id, is_bad) = match entry.event {
                TimelineEvent::SubflowStale { subflow, stale } => (subflow, stale),
                TimelineEvent::SubflowClosed { subflow, reason } => (subflow, reason.is_failure()),
                TimelineEvent::SubflowEstablished { subflow }
                | TimelineEvent::PriorityChanged { subflow, .. } => (subflow, false),
                _ => continue,
            };
            let Some(place) = connection.subflow_number(id) else { continue };
            let class = if is_bad { "bad" } else { "mark" };
            let _ = writeln!(
                text,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>",
                self.scale.place(self.life.clock.at(entry.at)),
                self.middle(place - 1),
                escape(&entry.event.sentence(named))
            );
        }
        text
    }

    /// A bracket beside the lanes of each group that shares a bottleneck, a column for each.
    fn brackets(&self) -> String {
        let connection = self.life.connection;
        let Some(found) = &connection.bottlenecks else { return String::new() };
        let groups = found.groups.iter().filter(|group| group.len() > 1);
        groups.zip(0..).fold(String::new(), |mut text, (group, nth)| {
            let places = group.iter().filter_map(|id| connection.subflow_number(*id));
            let heights: Vec<f64> = places.map(|place| self.middle(place - 1)).collect();
            let x = self.layout.width - BRACKET - f64::from(nth % 3) * BRACKET;
            let path = heights.iter().fold(String::new(), |mut path, y| {
                let _ = write!(path, "M{:.1} {y:.1}H{x:.1}", x - 5.0);
                path
            });
            let first = heights.iter().copied().reduce(f64::min);
            let last = heights.iter().copied().reduce(f64::max);
            if let (Some(first), Some(last)) = (first, last) {
                let _ = writeln!(
                    text,
                    "<path class=\"bracket\" d=\"{path}M{x:.1} {first:.1}V{last:.1}\"><title>one bottleneck</title></path>"
                );
            }
            text
        })
    }
}

/// What a subflow carried, its part of all that its connection did, and its energy.
fn carried(subflow: &Subflow, connection: &Connection) -> String {
    let of = |one: &Subflow| (one.unique_sent() + one.bytes_received).0 as f64;
    let all: f64 = connection.subflows.iter().map(of).sum();
    let mut text = metric::display(Unit::Bytes, Some(of(subflow)));
    if all > 0.0 {
        let _ = write!(text, ", {:.0} %", 100.0 * of(subflow) / all);
    }
    let energy = metric::find(SUBFLOW, "mpwatch_subflow_active_joules_total");
    if let Some(energy) = energy.filter(|_| subflow.energy.is_some_and(|energy| energy.active.is_some())) {
        let _ = write!(text, ", {}", energy.display(subflow));
    }
    text
}

/// When a path died, or when it joined, with the class of these words.
fn came_or_went(subflow: &Subflow, connection: &Connection) -> Option<(&'static str, String)> {
    let clock = Clock::of(connection)?;
    if !outage::closed_with_connection(connection, subflow) {
        if let Some(death) = outage::path_failure(connection, subflow) {
            return Some(("wrong", format!("died at {}", seconds(clock.at(death.at)))));
        }
        if subflow.stale && subflow.closed.is_none() {
            return Some(("wrong", "died".to_owned()));
        }
    }
    let after = subflow.joined_after?;
    Some(("soft", format!("joined at {}", seconds(after.0 as f64 / 1e6))))
}
