// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane for each subflow of a connection: traffic over time, events, failures, shared bottlenecks, cost. They are drawn twice: for wide
//! screens and for phones.

use std::fmt::Write as _;

use mpwatch_model::finding;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::flow::timeline::{TimelineEntry, TimelineEvent};
use mpwatch_model::id::SubflowId;
use mpwatch_model::metric::{self, SUBFLOW, Unit};

use super::axis::{Axis, Horizontal, Scale};
use super::download;
use super::drawing::{colour, figure, svg};
use super::intervals::label;
use super::markup::{each, escape, text};
use super::rates::{Clock, Sampled, Step};

/// Height above the lanes for the label of the main outage.
const BAND: f64 = 18.0;
const BAR: f64 = 30.0;
/// Space to the right of the lanes, for brackets.
const RIGHT: f64 = 20.0;
/// Distance between two columns of brackets, and from the last column to the right edge.
const BRACKET: f64 = 6.0;

/// Measures of a drawing, in units of its SVG view box.
struct LaneLayout {
    /// Attribute that selects the screens that show the drawing.
    class: &'static str,
    width: f64,
    /// Position at which time begins.
    left: f64,
    /// Height of a lane.
    lane: f64,
    /// Distance from the top of a lane to its bar.
    bar: f64,
    /// Maximum number of parts of the time axis.
    parts: u32,
    /// Baselines of the lines of text of a lane.
    words: [f64; 3],
    /// Position and anchor of the last line of text.
    last: (f64, &'static str),
}

/// For wide screens: the words are to the left of the lanes.
const BROAD: LaneLayout = LaneLayout {
    class: " class=\"broad\"",
    width: 900.0,
    left: 240.0,
    lane: 48.0,
    bar: 9.0,
    parts: 8,
    words: [14.0, 29.0, 44.0],
    last: (0.0, "start"),
};
/// For phones: the words are above the lanes.
const NARROW: LaneLayout = LaneLayout {
    class: " class=\"narrow\"",
    width: 340.0,
    left: 6.0,
    lane: 72.0,
    bar: 36.0,
    parts: 4,
    words: [14.0, 30.0, 14.0],
    last: (320.0, "end"),
};

/// The lanes of a connection, each from its SYN to its end.
pub(super) fn lanes(connection: &Connection, samples: &CounterSeries) -> String {
    let Some(clock) = Clock::from_connection(connection).filter(|_| !connection.subflows.is_empty()) else {
        return String::new();
    };
    let rates = |subflow| Sampled::new(connection, subflow, samples, clock).steps();
    let rates: Vec<Vec<Step>> = connection.subflows.iter().map(rates).collect();
    let fastest = rates.iter().flatten().map(Step::rate).fold(0.0, f64::max);
    let data = LaneData { connection, clock, rates, fastest };
    let caption = data.caption();
    let drawn = [BROAD, NARROW].map(|layout| (data.draw(&layout), layout));
    let drawings: String =
        drawn.iter().map(|((size, body), layout)| svg(layout.class, &caption, *size, body)).collect();
    let (size, body) = &drawn[0].0;
    let file = format!("lanes-{}", connection.id.short());
    let link = download::links(&file, &download::standalone(*size, &caption, body), None);
    figure("lanes", &caption, &format!("{drawings}{link}"))
}

struct LaneData<'a> {
    connection: &'a Connection,
    clock: Clock,
    rates: Vec<Vec<Step>>,
    fastest: f64,
}

impl LaneData<'_> {
    fn caption(&self) -> String {
        let height = if self.rates.iter().all(Vec::is_empty) {
            String::new()
        } else {
            format!("; a full lane is {}", metric::display(Unit::BitsPerSecond, Some(self.fastest)))
        };
        let has_shared = finding::shared_groups(self.connection).next().is_some();
        let shared = if has_shared { " Bracket: these subflows share one bottleneck." } else { "" };
        format!(
            "Traffic of each path over time{height}. Dots: a path was established or changed. \
             Red: a failure, or an outage of all paths.{shared}"
        )
    }

    fn draw(&self, layout: &LaneLayout) -> ((f64, f64), String) {
        let time = Axis { title: "", unit: Unit::Seconds, column: "", log: false };
        let scale = Scale::from_values(time, std::iter::once(self.clock.end));
        let axis = Horizontal { scale, left: layout.left, right: layout.width - RIGHT };
        let band = if outage::outages(self.connection).is_empty() { 0.0 } else { BAND };
        let drawing = Drawing { data: self, layout, axis, band };
        let bottom = drawing.bottom();
        let mut body = axis.grid(layout.parts, (0.0, bottom));
        for (index, subflow) in self.connection.subflows.iter().enumerate() {
            body.push_str(&drawing.words(index, subflow));
            body.push_str(&drawing.lane(index, subflow));
        }
        body.push_str(&drawing.outages());
        body.push_str(&drawing.events());
        body.push_str(&drawing.brackets());
        ((layout.width, bottom + 20.0), body)
    }

    /// The period in which a subflow could carry data: begin and end, in seconds.
    fn span(&self, subflow: &Subflow) -> (f64, f64) {
        let failure = outage::lasting_failure(self.connection, subflow);
        let end = failure.or(subflow.closed.map(|closed| closed.at));
        let begin = subflow.created_at.map_or(0.0, |at| self.clock.at(at));
        (begin, end.map_or(self.clock.end, |at| self.clock.at(at)).max(begin))
    }
}

struct Drawing<'a> {
    data: &'a LaneData<'a>,
    layout: &'a LaneLayout,
    axis: Horizontal<'a>,
    /// Height above the lanes.
    band: f64,
}

impl Drawing<'_> {
    fn top(&self, index: usize) -> f64 {
        self.band + self.layout.lane * index as f64
    }

    fn bottom(&self) -> f64 {
        self.top(self.data.connection.subflows.len())
    }

    fn middle(&self, index: usize) -> f64 {
        self.top(index) + self.layout.bar + BAR / 2.0
    }

    /// Number and interface of a subflow, its payload and cost, and when it joined or failed.
    fn words(&self, index: usize, subflow: &Subflow) -> String {
        let connection = self.data.connection;
        let [first, second, third] = self.layout.words.map(|line| self.top(index) + line);
        let mut words = text("class=\"name\"", (0.0, first), &escape(&label(subflow, index)));
        words.push_str(&text("class=\"soft\"", (0.0, second), &carried(subflow, connection)));
        if let Some((class, state)) = joined_or_failed(subflow, connection, self.data.clock) {
            let (x, anchor) = self.layout.last;
            let attributes = format!("class=\"{class}\" text-anchor=\"{anchor}\"");
            words.push_str(&text(&attributes, (x, third), &state));
        }
        words
    }

    fn lane(&self, index: usize, subflow: &Subflow) -> String {
        let Some(steps) = self.data.rates.get(index) else { return String::new() };
        let top = self.top(index) + self.layout.bar;
        let (begin, end) = self.data.span(subflow);
        let [begin, end] = [begin, end].map(|at| self.axis.at(at));
        let class = colour(index);
        let mut text = format!(
            "<rect class=\"f{class}\" opacity=\"{}\" x=\"{begin:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\n",
            if steps.is_empty() { "0.75" } else { "0.18" },
            (end - begin).max(1.0)
        );
        let Some(first) = steps.first() else { return text };
        let floor = top + BAR;
        let mut path = format!("M{:.1} {floor:.1}", self.axis.at(first.from));
        for step in steps {
            let part = if self.data.fastest > 0.0 { step.rate() / self.data.fastest } else { 0.0 };
            let _ = write!(path, "V{:.1}H{:.1}", floor - BAR * part, self.axis.at(step.to));
        }
        let _ = writeln!(text, "<path class=\"f{class}\" opacity=\"0.85\" d=\"{path}V{floor:.1}Z\"/>");
        text
    }

    /// The outages. The longest is labelled with its duration.
    fn outages(&self) -> String {
        let outages = outage::outages(self.data.connection);
        let longest = outage::longest(&outages);
        each(&outages, |outage| {
            let from = self.data.clock.at(outage.from);
            let duration = outage.duration.seconds();
            let [x, end] = [from, from + duration].map(|at| self.axis.at(at));
            let mut body = format!(
                "<rect class=\"gap\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\n",
                self.band,
                (end - x).max(1.0),
                self.bottom() - self.band
            );
            if longest == Some(outage) {
                let anchor = match (x - self.layout.left) / (self.layout.width - self.layout.left) {
                    part if part < 0.25 => "start",
                    part if part > 0.75 => "end",
                    _ => "middle",
                };
                let attributes = format!("class=\"failure\" text-anchor=\"{anchor}\"");
                let place = (f64::midpoint(x, end), 13.0);
                body.push_str(&text(&attributes, place, &format!("{} outage", seconds(duration))));
            }
            body
        })
    }

    fn events(&self) -> String {
        let connection = self.data.connection;
        let mark = |entry: &TimelineEntry| {
            let (TimelineEvent::SubflowStale { subflow, .. }
            | TimelineEvent::SubflowClosed { subflow, .. }
            | TimelineEvent::SubflowEstablished { subflow }
            | TimelineEvent::PriorityChanged { subflow, .. }) = entry.event
            else {
                return None;
            };
            let class = if entry.event.is_failure() { "bad" } else { "mark" };
            Some(format!(
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>\n",
                self.axis.at(self.data.clock.at(entry.at)),
                self.middle(connection.subflow_number(subflow)? - 1),
                escape(&entry.event.sentence(|id| connection.subflow_name(id)))
            ))
        };
        connection.timeline.iter().filter_map(mark).collect()
    }

    /// A bracket next to the lanes of each group of subflows that share a bottleneck.
    fn brackets(&self) -> String {
        let connection = self.data.connection;
        let bracket = |(group, number): (&Vec<SubflowId>, u32)| {
            let x = self.layout.width - BRACKET - f64::from(number % 3) * BRACKET;
            let numbers = group.iter().filter_map(|id| connection.subflow_number(*id));
            let heights: Vec<f64> = numbers.map(|number| self.middle(number - 1)).collect();
            let path = each(&heights, |y| format!("M{:.1} {y:.1}H{x:.1}", x - 5.0));
            let first = heights.iter().copied().reduce(f64::min)?;
            let last = heights.iter().copied().reduce(f64::max)?;
            Some(format!(
                "<path class=\"bracket\" d=\"{path}M{x:.1} {first:.1}V{last:.1}\"><title>one bottleneck</title></path>\n"
            ))
        };
        finding::shared_groups(connection).zip(0..).filter_map(bracket).collect()
    }
}

fn seconds(value: f64) -> String {
    metric::display(Unit::Seconds, Some(value))
}

/// Payload of a subflow, its share of the connection's payload, and its energy.
fn carried(subflow: &Subflow, connection: &Connection) -> String {
    let of = |subflow: &Subflow| (subflow.unique_sent() + subflow.bytes_received).0 as f64;
    let all: f64 = connection.subflows.iter().map(of).sum();
    let mut text = metric::display(Unit::Bytes, Some(of(subflow)));
    if all > 0.0 {
        let _ = write!(text, ", {:.0} %", 100.0 * of(subflow) / all);
    }
    if let Some(goodput) = subflow.observed.goodput() {
        let _ = write!(text, ", {}", metric::display(Unit::BitsPerSecond, Some(goodput.0 as f64)));
    }
    let energy = metric::find(SUBFLOW, "mpwatch_subflow_active_joules_total");
    if let Some(energy) = energy.filter(|_| subflow.energy.is_some_and(|energy| energy.active.is_some())) {
        let _ = write!(text, ", {}", energy.display(subflow));
    }
    text
}

/// The class and the words for the state of a path: failed or joined, with the time. `None`: neither is known.
fn joined_or_failed(
    subflow: &Subflow,
    connection: &Connection,
    clock: Clock,
) -> Option<(&'static str, String)> {
    if let Some(failure) = outage::path_failure(connection, subflow) {
        let at = seconds(clock.at(failure.at));
        let until = failure.recovered.map(|again| format!(" to {}", seconds(clock.at(again))));
        let several = (failure.intervals > 1).then(|| format!(" ({} intervals)", failure.intervals));
        return Some((
            "failure",
            format!("failed at {at}{}{}", until.unwrap_or_default(), several.unwrap_or_default()),
        ));
    }
    if outage::has_failed(connection, subflow) {
        return Some(("failure", "failed".to_owned()));
    }
    let after = subflow.joined_after?;
    Some(("soft", format!("joined at {}", seconds(after.seconds()))))
}
