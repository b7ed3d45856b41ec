// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traffic of a subflow over time, from the samples of its counters.

use jiff::Timestamp;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage;
use mpwatch_model::flow::series::{CounterSample, CounterSeries};
use mpwatch_model::flow::subflow::Subflow;

/// Maximum number of steps of a subflow. A drawing does not show more, and a week of samples would make the file too large to open.
const MAX_STEPS: u32 = 160;

/// Converts times to seconds since the first known time of a connection.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    start: Timestamp,
    /// The last known time, in seconds.
    pub(super) end: f64,
}

impl Clock {
    /// The clock of a connection. `None`: no time of the connection is known.
    pub(super) fn from_connection(connection: &Connection) -> Option<Self> {
        let first = connection.timeline.first().map(|entry| entry.at);
        let start = connection.opened_at.or(first).or(connection.closed_at)?;
        let since = |at: Timestamp| at.duration_since(start).as_secs_f64();
        let events = connection.timeline.iter().map(|entry| since(entry.at));
        Some(Self { start, end: events.fold(connection.age_s, f64::max) })
    }

    pub(super) fn at(self, time: Timestamp) -> f64 {
        time.duration_since(self.start).as_secs_f64()
    }
}

/// The bytes carried between two times, which are in seconds.
pub(super) struct Step {
    pub(super) from: f64,
    pub(super) to: f64,
    bytes: u64,
}

impl Step {
    /// Mean rate during the step, in bits per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / (self.to - self.from)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Sampled<'a> {
    connection: &'a Connection,
    subflow: &'a Subflow,
    samples: &'a [CounterSample],
    clock: Clock,
}

impl<'a> Sampled<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        subflow: &'a Subflow,
        series: &'a CounterSeries,
        clock: Clock,
    ) -> Self {
        let samples = series.get(&(connection.id, subflow.id)).map_or(&[][..], Vec::as_slice);
        Self { connection, subflow, samples, clock }
    }

    /// At most about [`MAX_STEPS`] values over time. Values after a failure of the path are omitted, because the kernel keeps the last values.
    pub(super) fn values(self, read: impl Fn(&CounterSample) -> Option<f64>) -> Vec<(f64, f64)> {
        let end = outage::lasting_failure(self.connection, self.subflow);
        let samples = self.samples.iter().step_by(self.samples.len() / MAX_STEPS as usize + 1);
        let known = samples.filter(|sample| end.is_none_or(|end| sample.at <= end));
        known.filter_map(|sample| Some((self.clock.at(sample.at), read(sample)?))).collect()
    }

    /// The traffic of the subflow between its samples, from its SYN to its end. Empty: there are no samples.
    pub(super) fn steps(self) -> Vec<Step> {
        let Self { connection, subflow, samples, clock } = self;
        if samples.is_empty() {
            return Vec::new();
        }
        let start = subflow.created_at.map(|at| (clock.at(at), 0));
        let last = subflow.closed.map_or(clock.end, |closed| clock.at(closed.at));
        let known = samples
            .iter()
            .map(|sample| (clock.at(sample.at), sample.bytes_sent.0 + sample.bytes_received.0))
            .filter(|(at, _)| *at < last);
        let end = (last, subflow.bytes_sent.0 + subflow.bytes_received.0);
        let mut totals = start.into_iter().chain(known).chain([end]);
        let Some(mut before) = totals.next() else { return Vec::new() };
        let mut steps: Vec<Step> = Vec::new();
        for (at, bytes) in totals {
            if at <= before.0 {
                continue;
            }
            let carried = bytes.saturating_sub(before.1);
            match steps.last_mut().filter(|step| at - step.from < clock.end / f64::from(MAX_STEPS)) {
                Some(step) => (step.to, step.bytes) = (at, step.bytes + carried),
                None => steps.push(Step { from: before.0, to: at, bytes: carried }),
            }
            before = (at, bytes);
        }
        if let Some(failure) = outage::lasting_failure(connection, subflow) {
            end_at(clock.at(failure), &mut steps);
        }
        steps
    }
}

/// Shortens the step during which the path failed: it ends at the failure, because its bytes were carried before. Removes later empty steps.
fn end_at(failure: f64, steps: &mut Vec<Step>) {
    let is_failing = |step: &&mut Step| (step.from..step.to).contains(&failure) && step.from < failure;
    if let Some(last) = steps.iter_mut().find(is_failing) {
        last.to = failure;
        steps.retain(|step| step.to <= failure || step.bytes > 0);
    }
}
