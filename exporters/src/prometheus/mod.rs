// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus. Every metric family follows from a row of the model's tables. The number of series is bounded by the parts of
//! the machine and by fixed limits, not by the number of flows.

mod bounded;
mod families;
mod flow_counters;
mod histogram;
mod largest;
mod samples;
mod sums;
mod totals;
mod values;

pub use families::{Family, Section, expose, sections};
pub use totals::{Settings, Totals};
pub use values::MetricValues;
