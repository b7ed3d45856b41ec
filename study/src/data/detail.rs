// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single values of a run, for plots: a value per connection, or values over time.

use mpwatch_model::metric::Unit;
use mpwatch_model::words;

words! {
    /// The quantity of a single value.
    pub(crate) enum Series {
        /// Time from connect to the last byte at the receiver of each measured connection, seconds.
        CompletionTimes = "completion_s",
        /// Time from connect to the last byte at the receiver of each short flow, seconds.
        ShortCompletionTimes = "short_completion_s",
        /// Goodput of each measured connection, bits per second.
        FlowGoodput = "flow_goodput_bps",
        /// Rate of the first subflow of the first measured connection over time, bits per second.
        FirstSubflow = "first_subflow_bps",
        /// Rate of the second subflow of the first measured connection over time, bits per second.
        SecondSubflow = "second_subflow_bps",
    }
}

impl Series {
    /// The title on an axis.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::CompletionTimes => "completion time",
            Self::ShortCompletionTimes => "completion time of short flows",
            Self::FlowGoodput => "goodput of a flow",
            Self::FirstSubflow => "first subflow",
            Self::SecondSubflow => "second subflow",
        }
    }

    /// The unit of the values.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::CompletionTimes | Self::ShortCompletionTimes => Unit::Seconds,
            Self::FlowGoodput | Self::FirstSubflow | Self::SecondSubflow => Unit::BitsPerSecond,
        }
    }
}

/// One value of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Detail {
    /// The quantity of the value.
    pub(crate) series: Series,
    /// Seconds since the start of the traffic. `None`: the value belongs to a whole connection.
    pub(crate) at_s: Option<f64>,
    /// The value in the unit of the series.
    pub(crate) value: f64,
}

/// The kind of a plot of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The cumulative distribution over all runs, a curve for each cell.
    Distribution(Series),
    /// The rates of both subflows over time in the first run that has rates, a plot for each cell.
    RatesOverTime,
}
