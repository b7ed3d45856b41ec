// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus, from the rows of the model's tables. Fixed limits bound the number of series, whatever the number of flows.

mod bounded;
mod families;
mod flow_counters;
mod groups;
mod interfaces;
mod largest;
mod samples;
mod totals;
mod values;

pub use families::{Family, Section, expose, sections};
pub use totals::Totals;
pub use values::MetricValues;
