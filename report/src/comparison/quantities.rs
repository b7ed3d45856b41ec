// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities that are compared.

use mpwatch_model::flow::pairing::Flow;
use mpwatch_model::flow::subflow::{mean_rtt, retransmitted_ratio};
use mpwatch_model::metric::{self, Unit};
use serde::Serialize;

/// A compared quantity.
#[derive(Debug, Serialize)]
pub struct Quantity {
    /// Its name.
    #[serde(rename = "quantity")]
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether a smaller value is better.
    pub lower_is_better: bool,
    #[serde(skip)]
    pub(super) read: fn(Flow<'_>) -> Option<f64>,
    #[serde(skip)]
    pub(super) show: fn(f64) -> String,
}

impl Quantity {
    /// Words for a smaller and a larger value.
    pub(super) fn words(&self) -> (&'static str, &'static str) {
        if self.unit == "s" { ("shorter", "longer") } else { ("lower", "higher") }
    }
}

pub(super) const JOULES_PER_GB: &str = "J/GB";

pub(super) const QUANTITIES: &[Quantity] = &[
    Quantity {
        name: "completion time",
        unit: "s",
        lower_is_better: true,
        read: |flow| Some(flow.end).filter(|end| end.seen_open && !end.is_open()).map(|end| end.age_s),
        show: |value| metric::display(Unit::Seconds, Some(value)),
    },
    Quantity {
        name: "goodput",
        unit: "bit/s",
        lower_is_better: false,
        read: |flow| flow.end.observed?.goodput().map(|rate| rate.0 as f64),
        show: |value| metric::display(Unit::BitsPerSecond, Some(value)),
    },
    Quantity {
        name: "energy per payload",
        unit: JOULES_PER_GB,
        lower_is_better: true,
        read: |flow| flow.energy()?.j_per_gb,
        show: |value| metric::display(Unit::JoulesPerGigabyte, Some(value)),
    },
    Quantity {
        name: "CPU time per payload",
        unit: "s/GB",
        lower_is_better: true,
        read: |flow| per_gigabyte(flow, flow.cpu()?.total().seconds()),
        show: |value| format!("{}/GB", metric::display(Unit::Seconds, Some(value))),
    },
    Quantity {
        name: "retransmitted",
        unit: "ratio",
        lower_is_better: true,
        read: |flow| retransmitted_ratio(flow.subflows()),
        show: |value| metric::display(Unit::Ratio, Some(value)),
    },
    Quantity {
        name: "RTT",
        unit: "s",
        lower_is_better: true,
        read: |flow| mean_rtt(&flow.sender().subflows),
        show: |value| metric::display(Unit::Seconds, Some(value)),
    },
];

fn per_gigabyte(flow: Flow<'_>, amount: f64) -> Option<f64> {
    let payload = flow.observed_payload().0;
    (payload > 0).then(|| amount * 1e9 / payload as f64)
}
