// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput, RTT and congestion window of each subflow over time, from the samples of the end that sent more.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage;
use mpwatch_model::flow::pairing::Flow;
use mpwatch_model::flow::series::{CounterSample, CounterSeries};
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::metric::Unit;
use mpwatch_model::unit::Micros;

use super::axis::Axis;
use super::intervals::label;
use super::plot::{Curve, Plot};
use super::rates::{Clock, MAX_STEPS, steps};

const TIME: Axis =
    Axis { title: "time since the opening", unit: Unit::Seconds, column: "time_s", log: false };
const THROUGHPUT: Axis =
    Axis { title: "throughput", unit: Unit::BitsPerSecond, column: "throughput_bps", log: false };
const RTT: Axis = Axis { title: "smoothed RTT", unit: Unit::Seconds, column: "srtt_s", log: false };
const WINDOW: Axis = Axis { title: "cwnd", unit: Unit::Segments, column: "cwnd_segments", log: false };

/// The plots of a connection. Empty: it has no samples, as a short connection.
pub(super) fn plots(flow: Flow<'_>, samples: &CounterSeries) -> String {
    let connection = flow.sender();
    let Some(clock) = Clock::from_connection(connection) else { return String::new() };
    let lives: Vec<Life<'_>> = connection
        .subflows
        .iter()
        .enumerate()
        .map(|(index, subflow)| Life {
            connection,
            subflow,
            name: label(subflow, index),
            samples: samples.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice),
            clock,
        })
        .collect();
    let plot = |y: Axis, caption: &str, steps: bool, points: fn(&Life<'_>) -> Vec<(f64, f64)>| {
        let curve = |life: &Life<'_>| Curve {
            name: life.name.clone(),
            points: points(life),
            steps,
            ..Curve::default()
        };
        let curves = lives.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
        let file = format!("{}-{}", y.title.replace(' ', "-").to_lowercase(), flow.end.id.short());
        Plot { file, caption: caption.to_owned(), x: TIME, y, curves_are: "subflow", curves, x_to: clock.end }
            .html()
    };
    let end = if flow.other.is_some() { ", at the end that sent more" } else { "" };
    [
        plot(
            THROUGHPUT,
            &format!("Throughput of each subflow, both directions, retransmissions included{end}"),
            true,
            throughput,
        ),
        plot(RTT, &format!("Smoothed RTT of each subflow{end}"), false, rtt),
        plot(WINDOW, &format!("Congestion window of each subflow{end}"), true, window),
    ]
    .concat()
}

/// A subflow with its samples.
struct Life<'a> {
    connection: &'a Connection,
    subflow: &'a Subflow,
    name: String,
    samples: &'a [CounterSample],
    clock: Clock,
}

impl Life<'_> {
    /// Values over time, not more than are visible, and none after a failure of the path: the kernel keeps the last values.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small constant")]
    fn thinned(&self, read: impl Fn(&CounterSample) -> Option<f64>) -> Vec<(f64, f64)> {
        let failure = outage::path_failure(self.connection, self.subflow);
        let end = failure.filter(|failure| failure.recovered.is_none()).map(|failure| failure.at);
        let every = self.samples.len() / MAX_STEPS as usize + 1;
        let known =
            self.samples.iter().step_by(every).filter(|sample| end.is_none_or(|end| sample.at <= end));
        known.filter_map(|sample| Some((self.clock.at(sample.at), read(sample)?))).collect()
    }
}

fn throughput(life: &Life<'_>) -> Vec<(f64, f64)> {
    let steps = steps(life.connection, life.subflow, life.samples, life.clock);
    let end = steps.last().map(|last| (last.to, last.rate()));
    steps.iter().map(|step| (step.from, step.rate())).chain(end).collect()
}

fn rtt(life: &Life<'_>) -> Vec<(f64, f64)> {
    life.thinned(|sample| sample.srtt.map(Micros::seconds))
}

fn window(life: &Life<'_>) -> Vec<(f64, f64)> {
    life.thinned(|sample| Some(f64::from(sample.cwnd_segments)))
}
