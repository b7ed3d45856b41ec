// SPDX-License-Identifier: MIT OR Apache-2.0
//! The drawings of a connection: its life with a lane for each subflow, the RTTs, the energy. Every drawing has its numbers in the
//! tables beside it; unknown values are left out.

use std::fmt::Write as _;

use jiff::Timestamp;
use mpwatch_model::connection::Connection;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::timeline::What;
use mpwatch_model::unit::{Microjoules, Micros};

use super::escape;
use crate::store::{Sample, Samples};

/// Measures of a drawing, in its own units.
const WIDTH: f64 = 900.0;
const HALF: f64 = 440.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 20.0;
/// From the right edge to the bracket around those that share a bottleneck.
const BRACKET: f64 = 6.0;
const LANE: f64 = 40.0;
const BAR: f64 = 28.0;
const ROW: f64 = 26.0;
/// Colours in the style sheet.
const COLOURS: usize = 6;

fn colour(place: usize) -> usize {
    place % COLOURS + 1
}

/// From a value, zero or more, to a place.
#[derive(Clone, Copy)]
struct Scale {
    to: f64,
    width: f64,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        let part = if self.to > 0.0 { value / self.to } else { 0.0 };
        LEFT + part.clamp(0.0, 1.0) * (self.width - LEFT - RIGHT)
    }

    /// Lines and their values, from the first to the last.
    fn axis(self, bottom: f64, show: impl Fn(f64) -> String) -> String {
        // More would run into each other.
        let parts = if self.width > HALF { 4 } else { 2 };
        (0..=parts).fold(String::new(), |mut text, nth| {
            let value = self.to * f64::from(nth) / f64::from(parts);
            let x = self.place(value);
            let anchor = if nth == parts { "end" } else { "middle" };
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 15.0,
                show(value)
            );
            text
        })
    }
}

fn seconds(value: f64) -> String {
    metric::display(Unit::Seconds, Some(value))
}

fn figure(class: &str, caption: &str, size: (f64, f64), body: &str) -> String {
    let (width, height) = size;
    format!(
        "<figure class=\"{class}\"><figcaption>{caption}</figcaption>\
         <svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{caption}\">\n{body}</svg></figure>\n"
    )
}

/// The name of a lane: place and interface.
fn label(subflow: &Subflow, place: usize, y: f64) -> String {
    let over = subflow.interface.map(|name| {
        let name = name.text();
        format!(" {}", mpwatch_model::endpoint::printable(&name))
    });
    let name = format!("{}{}", place + 1, over.unwrap_or_default());
    format!("<text x=\"0\" y=\"{y:.1}\">{}</text>\n", escape(&name))
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

/// A lane for each subflow from its SYN to its end: how fast it was, what happened to it, and when nothing went on at all.
pub(super) fn lanes(connection: &Connection, samples: &Samples) -> String {
    let Some(clock) = Clock::of(connection).filter(|_| !connection.subflows.is_empty()) else {
        return String::new();
    };
    let scale = Scale { to: clock.end, width: WIDTH };
    let rates: Vec<Vec<Step>> = connection
        .subflows
        .iter()
        .map(|subflow| {
            let of_it = samples.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice);
            steps(subflow, of_it, &clock)
        })
        .collect();
    let fastest = rates.iter().flatten().map(|step| step.rate).fold(0.0, f64::max);
    let bottom = LANE * connection.subflows.len() as f64;
    let mut body = scale.axis(bottom, seconds);
    for (place, (subflow, rates)) in connection.subflows.iter().zip(&rates).enumerate() {
        let middle = LANE * (place as f64 + 0.5);
        body.push_str(&label(subflow, place, middle - 3.0));
        let _ = writeln!(
            body,
            "<text class=\"soft\" x=\"0\" y=\"{:.1}\">{}</text>",
            middle + 12.0,
            carried(subflow, connection)
        );
        body.push_str(&lane(subflow, place, rates, fastest, (&clock, scale)));
    }
    body.push_str(&events(connection, &clock, scale, bottom));
    let brackets = brackets(connection);
    body.push_str(&brackets);
    let top = metric::display(Unit::BitsPerSecond, Some(fastest));
    let height =
        if rates.iter().all(Vec::is_empty) { String::new() } else { format!("; a full lane is {top}") };
    let shared = if brackets.is_empty() { "" } else { " Bracket: these share one bottleneck." };
    let caption = format!(
        "What each path carried, over time{height}. Dots: a path came up or changed. \
         Red: something failed, or no path made progress.{shared}"
    );
    figure("lanes", &caption, (WIDTH, bottom + 20.0), &body)
}

/// A time in which the rate is known.
struct Step {
    from: f64,
    to: f64,
    rate: f64,
}

/// Mean rates between samples, from the SYN to the end. Empty without samples.
fn steps(subflow: &Subflow, samples: &[Sample], clock: &Clock) -> Vec<Step> {
    if samples.is_empty() {
        return Vec::new();
    }
    let start = subflow.created_at.map(|at| (clock.at(at), 0));
    let known = samples.iter().map(|one| (clock.at(one.at), one.bytes_sent.0 + one.bytes_received.0));
    let last = subflow.closed.map_or(clock.end, |closed| clock.at(closed.at));
    let end = (last, subflow.bytes_sent.0 + subflow.bytes_received.0);
    let points: Vec<(f64, u64)> = start.into_iter().chain(known).chain([end]).collect();
    let step = |pair: &[(f64, u64)]| {
        let [(from, before), (to, after)] = *pair else { return None };
        (to > from).then(|| Step { from, to, rate: after.saturating_sub(before) as f64 * 8.0 / (to - from) })
    };
    points.windows(2).filter_map(step).collect()
}

/// A bracket beside the lanes of each group that shares a bottleneck, a column for each.
fn brackets(connection: &Connection) -> String {
    let Some(found) = &connection.bottlenecks else { return String::new() };
    let groups = found.groups.iter().filter(|group| group.len() > 1);
    groups.zip(0..).fold(String::new(), |mut text, (group, nth)| {
        let places: Vec<usize> = group.iter().filter_map(|id| connection.place(*id)).collect();
        let x = WIDTH - BRACKET - f64::from(nth % 3) * BRACKET;
        let middle = |place: &usize| LANE * (*place as f64 - 0.5);
        let path = places.iter().fold(String::new(), |mut path, place| {
            let _ = write!(path, "M{:.1} {y:.1}H{x:.1}", x - 5.0, y = middle(place));
            path
        });
        if let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) {
            let _ = writeln!(
                text,
                "<path class=\"bracket\" d=\"{path}M{x:.1} {:.1}V{:.1}\"><title>one bottleneck</title></path>",
                middle(first),
                middle(last)
            );
        }
        text
    })
}

/// What a subflow carried, and its part of all that its connection did.
fn carried(subflow: &Subflow, connection: &Connection) -> String {
    let of = |one: &Subflow| (one.unique_sent() + one.bytes_received).0 as f64;
    let all: f64 = connection.subflows.iter().map(of).sum();
    let bytes = metric::display(Unit::Bytes, Some(of(subflow)));
    if all > 0.0 { format!("{bytes}, {:.0} %", 100.0 * of(subflow) / all) } else { bytes }
}

fn lane(subflow: &Subflow, place: usize, steps: &[Step], fastest: f64, on: (&Clock, Scale)) -> String {
    let (clock, scale) = on;
    let top = LANE * place as f64 + (LANE - BAR) / 2.0;
    let begin = scale.place(subflow.created_at.map_or(0.0, |at| clock.at(at)));
    let end = scale.place(subflow.closed.map_or(clock.end, |closed| clock.at(closed.at)));
    let class = colour(place);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<rect class=\"f{class}\" opacity=\"{}\" x=\"{begin:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
        if steps.is_empty() { "0.75" } else { "0.18" },
        (end - begin).max(1.0)
    );
    if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
        let floor = top + BAR;
        let mut path = format!("M{:.1} {floor:.1}", scale.place(first.from));
        for step in steps {
            let y = floor - BAR * if fastest > 0.0 { step.rate / fastest } else { 0.0 };
            let _ = write!(path, "L{:.1} {y:.1}L{:.1} {y:.1}", scale.place(step.from), scale.place(step.to));
        }
        let _ = write!(path, "L{:.1} {floor:.1}Z", scale.place(last.to));
        let _ = writeln!(text, "<path class=\"f{class}\" opacity=\"0.85\" d=\"{path}\"/>");
    }
    text
}

fn events(connection: &Connection, clock: &Clock, scale: Scale, bottom: f64) -> String {
    let mut text = String::new();
    for entry in &connection.timeline {
        let at = clock.at(entry.at);
        let x = scale.place(at);
        let lane = |id| connection.place(id).map(|place| LANE * (place as f64 - 0.5));
        let (subflow, is_bad) = match entry.what {
            What::Stalled { gap } => {
                let width = (scale.place(at + gap.0 as f64 / 1e6) - x).max(1.0);
                let _ = writeln!(
                    text,
                    "<rect class=\"gap\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{bottom:.1}\"/>"
                );
                continue;
            }
            What::SubflowStale { subflow, stale } => (subflow, stale),
            What::SubflowClosed { subflow, reason } => (subflow, reason.is_failure()),
            What::SubflowEstablished { subflow } | What::PriorityChanged { subflow, .. } => (subflow, false),
            _ => continue,
        };
        let Some(y) = lane(subflow) else { continue };
        let class = if is_bad { "bad" } else { "mark" };
        let sentence =
            entry.what.sentence(|id| connection.place(id).map_or_else(|| id.to_string(), |n| n.to_string()));
        let _ = writeln!(
            text,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}</title></circle>",
            escape(&sentence)
        );
    }
    text
}

/// What a bar shows: from the least to the most, and the value in between.
struct Range {
    low: f64,
    value: f64,
    high: f64,
}

fn ranges(
    connection: &Connection,
    caption: &str,
    read: impl Fn(&Subflow) -> Option<Range>,
    show: impl Fn(f64) -> String,
) -> String {
    let known: Vec<(usize, &Subflow, Range)> = connection
        .subflows
        .iter()
        .enumerate()
        .filter_map(|(place, subflow)| Some((place, subflow, read(subflow)?)))
        .collect();
    let highest = known.iter().map(|(_, _, range)| range.high).fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let scale = Scale { to: highest, width: HALF };
    let bottom = ROW * known.len() as f64;
    let mut body = scale.axis(bottom, show);
    for (row, (place, subflow, range)) in known.iter().enumerate() {
        let y = ROW * (row as f64 + 0.5);
        let class = colour(*place);
        let [low, value, high] = [range.low, range.value, range.high].map(|value| scale.place(value));
        body.push_str(&label(subflow, *place, y + 4.0));
        let _ = writeln!(
            body,
            "<line class=\"l{class}\" stroke-width=\"8\" opacity=\"0.4\" x1=\"{low:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"f{class}\" cx=\"{value:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
            high.max(low + 1.0)
        );
    }
    figure("ranges", caption, (HALF, bottom + 20.0), &body)
}

/// Of each subflow the RTTs from the lowest to the 99th percentile, and the median.
pub(super) fn rtts(connection: &Connection) -> String {
    let seconds_of = |time: Micros| time.0 as f64 / 1e6;
    let range = |subflow: &Subflow| {
        let value = seconds_of(subflow.rtt_p50?);
        let low = subflow.rtt_min.map_or(value, seconds_of).min(value);
        Some(Range { low, value, high: seconds_of(subflow.rtt_p99?) })
    };
    ranges(connection, "RTT: lowest, median (dot), 99th percentile", range, seconds)
}

/// Of each subflow the energy above idle, and between what it lies.
pub(super) fn energies(connection: &Connection) -> String {
    let Some(source) = connection.energy.map(|energy| energy.source) else { return String::new() };
    let range = |subflow: &Subflow| {
        let energy = subflow.energy?;
        let value = energy.active?.joules();
        let or_value = |bound: Option<Microjoules>| bound.map_or(value, Microjoules::joules);
        Some(Range { low: or_value(energy.lo), value, high: or_value(energy.hi) })
    };
    let kind = if source.is_measured() { "measured" } else { "ESTIMATED" };
    let caption = format!("Energy above idle (dot), and between what it may lie; {kind} ({})", source.word());
    ranges(connection, &caption, range, |value| metric::display(Unit::Joules, Some(value)))
}
