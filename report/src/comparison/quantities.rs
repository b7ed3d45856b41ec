// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities that are compared.

use mpwatch_model::flow::connection::Connection;
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
    display: Unit,
}

impl Quantity {
    pub(crate) fn show(&self, value: f64) -> String {
        let text = metric::display(self.display, Some(value));
        if self.unit == "s/GB" { text + "/GB" } else { text }
    }

    /// Words for a smaller and a larger value.
    pub(super) fn words(&self) -> (&'static str, &'static str) {
        if self.unit == "s" { ("shorter", "longer") } else { ("lower", "higher") }
    }
}

pub(super) const JOULES_PER_GB: &str = "J/GB";

pub(super) const QUANTITIES: &[Quantity] = &[
    quantity("completion time", "s", Unit::Seconds, |flow| {
        let is_known = |end: &&Connection| end.seen_open && !end.is_open() && !end.has_unobserved_end();
        Some(flow.end).filter(is_known).map(|end| end.age_s)
    }),
    Quantity {
        lower_is_better: false,
        ..quantity("goodput", "bit/s", Unit::BitsPerSecond, |flow| {
            flow.end.observed?.goodput().map(|rate| rate.0 as f64)
        })
    },
    quantity("energy per payload", JOULES_PER_GB, Unit::JoulesPerGigabyte, |flow| flow.energy()?.j_per_gb),
    quantity("CPU time per payload", "s/GB", Unit::Seconds, |flow| {
        per_gigabyte(flow, flow.cpu()?.total().seconds())
    }),
    quantity("retransmitted", "ratio", Unit::Ratio, |flow| retransmitted_ratio(flow.subflows())),
    quantity("RTT", "s", Unit::Seconds, |flow| mean_rtt(&flow.sender().subflows)),
];

const fn quantity(
    name: &'static str,
    unit: &'static str,
    display: Unit,
    read: fn(Flow<'_>) -> Option<f64>,
) -> Quantity {
    Quantity { name, unit, lower_is_better: true, read, display }
}

fn per_gigabyte(flow: Flow<'_>, amount: f64) -> Option<f64> {
    let payload = flow.observed_payload().0;
    (payload > 0).then(|| amount * 1e9 / payload as f64)
}
