// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput, RTT and congestion window of each subflow over time, from the samples of the end that sent more.

use mpwatch_model::flow::pairing::Flow;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::metric::Unit;
use mpwatch_model::unit::Micros;

use super::axis::Axis;
use super::intervals::label;
use super::plot::{Curve, Plot};
use super::rates::{Clock, Sampled};

const TIME: Axis =
    Axis { title: "time since the opening", unit: Unit::Seconds, column: "time_s", log: false };
const THROUGHPUT: Axis =
    Axis { title: "throughput", unit: Unit::BitsPerSecond, column: "throughput_bps", log: false };
const RTT: Axis = Axis { title: "smoothed RTT", unit: Unit::Seconds, column: "srtt_s", log: false };
const WINDOW: Axis = Axis { title: "cwnd", unit: Unit::Segments, column: "cwnd_segments", log: false };

/// The plots of a connection. Empty: it has no samples, like every short connection.
pub(super) fn plots(flow: Flow<'_>, series: &CounterSeries) -> String {
    let connection = flow.sender();
    let Some(clock) = Clock::from_connection(connection) else { return String::new() };
    let end = if flow.other.is_some() { ", at the end that sent more" } else { "" };
    let plot = |y: Axis, caption: &str, points: fn(Sampled<'_>) -> Vec<(f64, f64)>| {
        let curve = |(index, subflow)| Curve {
            name: label(subflow, index),
            points: points(Sampled::new(connection, subflow, series, clock)),
            steps: y.unit != Unit::Seconds,
            ..Curve::default()
        };
        let curves = connection.subflows.iter().enumerate().map(curve);
        let curves = curves.filter(|curve| !curve.points.is_empty()).collect();
        let file = format!("{}-{}", y.title.replace(' ', "-").to_lowercase(), flow.end.id.short());
        let caption = format!("{caption}{end}");
        Plot { file, caption, x: TIME, y, curves_are: "subflow", curves, x_to: clock.end }.html()
    };
    let throughput = "Throughput of each subflow, both directions, retransmissions included";
    [
        plot(THROUGHPUT, throughput, |sampled| {
            let steps = sampled.steps();
            let end = steps.last().map(|last| (last.to, last.rate()));
            steps.iter().map(|step| (step.from, step.rate())).chain(end).collect()
        }),
        plot(RTT, "Smoothed RTT of each subflow", |sampled| {
            sampled.values(|sample| sample.srtt.map(Micros::seconds))
        }),
        plot(WINDOW, "Congestion window of each subflow", |sampled| {
            sampled.values(|sample| Some(f64::from(sample.cwnd_segments)))
        }),
    ]
    .concat()
}
