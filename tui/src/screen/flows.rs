// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of flows: a connection, or one of its subflows below it, and the columns that they have.

mod groups;
mod name;

use std::sync::LazyLock;

use mpwatch_model::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::metric::{self, CONNECTION, HasEnergy, Metric, SUBFLOW, Unit};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::Microjoules;

use super::app::App;
use super::columns::{Choice, Column, Order, extra, first};
use super::finding;
use super::history::{Series, Track};
use super::text::{Text, sparkline};
use super::theme::Ink;
use crate::cell::{bar, pad};
use groups::bottleneck;
pub(crate) use groups::{groups, letter};
use name::flow;

/// A row with everything that its cells need.
pub(crate) struct FlowView<'a> {
    pub(crate) app: &'a App,
    pub(crate) connection: &'a Connection,
    /// Its place in the connection, from 0, if it is a subflow's row.
    pub(crate) subflow: Option<(usize, &'a Subflow)>,
    /// It is the last one of its connection.
    pub(crate) last: bool,
    pub(crate) folded: bool,
}

/// Makes the text of a row.
pub(crate) type TextFn = dyn Fn(&FlowView<'_>, usize) -> Text + Send + Sync;
/// Its value to sort by.
pub(crate) type OrderFn = dyn Fn(&FlowView<'_>) -> Order + Send + Sync;
/// A column of these rows.
pub(crate) type FlowColumn = Column<TextFn, OrderFn>;

/// The columns of the connections view.
pub(crate) const CONNECTIONS: &[Choice] = &[
    first("flow", 0),
    first("bottleneck", 3),
    first("share", 4),
    first("rate", 1),
    first("rates", 2),
    first("srtt_seconds", 5),
    first("retransmitted_segments_total", 7),
    first("watts", 6),
    extra("sent_bytes_total", 8),
    extra("received_bytes_total", 9),
    extra("rtt_p99_seconds", 10),
    extra("active_joules_total", 11),
    extra("joules_per_gigabyte", 12),
    extra("congestion_window_segments", 13),
    extra("cpu_seconds_total", 14),
    extra("state", 15),
    extra("netns", 16),
    extra("joined_after_seconds", 17),
];

/// The columns of the energy view.
pub(crate) const ENERGY: &[Choice] = &[
    first("flow", 0),
    first("watts", 1),
    first("active_joules_total", 2),
    first("bounds", 4),
    first("joules_per_gigabyte", 3),
    first("wasted", 5),
    first("source", 7),
    first("cpu_seconds_total", 6),
    first("rate", 8),
    extra("full_joules_total", 9),
    extra("rates", 10),
];

/// The columns of a connection's detail, where the rows are its subflows.
pub(crate) const DETAIL: &[Choice] = &[
    first("flow", 0),
    first("bottleneck", 3),
    first("share", 4),
    first("rate", 1),
    first("srtt_seconds", 2),
    first("rtt_min_seconds", 8),
    first("rtt_p99_seconds", 7),
    first("retransmitted_segments_total", 5),
    first("congestion_window_segments", 9),
    first("sent_bytes_total", 10),
    first("received_bytes_total", 11),
    first("active_joules_total", 6),
    extra("joined_after_seconds", 12),
    extra("handshake_seconds", 13),
    extra("timeouts_total", 14),
    extra("cpu_seconds_total", 15),
    extra("joules_per_gigabyte", 16),
];

/// All columns: our own, and every metric of the table.
pub(crate) static FLOW_COLUMNS: LazyLock<Vec<FlowColumn>> = LazyLock::new(|| {
    let mut columns = own();
    columns.extend(metrics());
    columns
});

type TextOf = fn(&FlowView<'_>, usize) -> Text;
type OrderOf = fn(&FlowView<'_>) -> Order;

fn column(
    (key, title, help): (&'static str, &'static str, &'static str),
    (least, full): (usize, usize),
    number: bool,
    text: TextOf,
    order: OrderOf,
) -> FlowColumn {
    Column { key, title, help, least, full, number, text: Box::new(text), order: Box::new(order) }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn own() -> Vec<FlowColumn> {
    vec![
        column(("flow", "FLOW", "the connection, and below it its subflows"), (24, 46), false, flow, |v| {
            Order::Word(v.connection.process.map(|p| p.comm.text().into_owned()).unwrap_or_default())
        }),
        column(
            ("bottleneck", "BOTTLENECK", "which subflows share a bottleneck"),
            (12, 15),
            false,
            bottleneck,
            |v| Order::number(v.connection.extra_subflows.map(f64::from)),
        ),
        column(("share", "SHARE", "part of what the connection has sent"), (9, 17), false, share, |v| {
            Order::number(v.connection.subflows.iter().filter_map(|s| s.share_sent).reduce(f64::max))
        }),
        column(
            ("rate", "RATE", "sent and received now; the arrow says which is more"),
            (8, 9),
            true,
            rate,
            |v| Order::Number(v.connection.send.0.saturating_add(v.connection.receive.0) as f64),
        ),
        column(
            ("rates", "TREND", "rate over time; a connection's subflows on its scale"),
            (9, 40),
            false,
            rates,
            |v| {
                Order::Number(
                    v.app.history.connection(v.connection.id).map_or(0.0, |t| t.recent(v.app.turn())),
                )
            },
        ),
        column(("watts", "POWER", "energy above idle, over the latest interval"), (7, 8), true, watts, |v| {
            Order::number(v.track().and_then(|track| track.watts(v.app.turn())))
        }),
        column(("bounds", "BETWEEN", "bounds of the energy above idle"), (13, 19), false, bounds, |v| {
            Order::number(v.energy().and_then(|energy| energy.hi).map(Microjoules::joules))
        }),
        column(("wasted", "EXTRA", "energy of subflows that add no throughput"), (7, 9), true, wasted, |v| {
            Order::number(waste_of(v.connection))
        }),
        column(
            ("source", "SOURCE", "where joules come from"),
            (9, 13),
            false,
            |v, _| Text::new(v.energy().map_or("-", |energy| energy.source.as_str()), Ink::Faint),
            |v| Order::Word(v.energy().map(|energy| energy.source.as_str().to_owned()).unwrap_or_default()),
        ),
        column(
            ("state", "STATE", "state of the socket"),
            (6, 11),
            false,
            |v, _| state(v),
            |v| Order::Word(v.connection.state.as_str().to_owned()),
        ),
        column(
            ("netns", "NETNS", "network namespace"),
            (5, 16),
            false,
            |v, _| {
                let name = if v.subflow.is_some() {
                    String::new()
                } else {
                    v.app.mask.name("netns", &v.connection.netns)
                };
                Text::plain(name)
            },
            |v| Order::Word(v.connection.netns.clone()),
        ),
        column(
            ("cgroup", "CGROUP", "control group"),
            (6, 30),
            false,
            |v, _| {
                let group =
                    v.connection.cgroup.as_deref().filter(|_| v.subflow.is_none() && !v.app.mask.is_on());
                Text::plain(mpwatch_model::endpoint::printable(group.unwrap_or("")).into_owned())
            },
            |v| Order::Word(v.connection.cgroup.clone().unwrap_or_default()),
        ),
    ]
}

/// The rows of the metric table: one column for the metric of a connection and the same of a subflow.
fn metrics() -> Vec<FlowColumn> {
    let thing = |name: &'static str| name.splitn(3, '_').nth(2).unwrap_or(name);
    let mut columns: Vec<FlowColumn> = SUBFLOW
        .iter()
        // Our own column of shares says the same, and draws it.
        .filter(|of_subflow| thing(of_subflow.name) != "sent_share_ratio")
        .map(|of_subflow| {
            let key = thing(of_subflow.name);
            metric_column(key, CONNECTION.iter().find(|one| thing(one.name) == key), Some(of_subflow))
        })
        .collect();
    let only =
        CONNECTION.iter().filter(|one| SUBFLOW.iter().all(|other| thing(other.name) != thing(one.name)));
    columns.extend(only.map(|one| metric_column(thing(one.name), Some(one), None)));
    columns
}

fn metric_column(
    key: &'static str,
    of_connection: Option<&'static Metric<Connection>>,
    of_subflow: Option<&'static Metric<Subflow>>,
) -> FlowColumn {
    let described = of_subflow.map(|one| (one.title, one.help, one.unit));
    let (title, help, unit) = described
        .or(of_connection.map(|one| (one.title, one.help, one.unit)))
        .unwrap_or(("", "", Unit::Count));
    let usual = if matches!(unit, Unit::Count | Unit::Segments) { 5 } else { 7 };
    let value = move |view: &FlowView<'_>| match view.subflow {
        Some((_, subflow)) => of_subflow.and_then(|one| (one.read)(subflow)),
        None => of_connection.and_then(|one| (one.read)(view.connection)),
    };
    let text = move |view: &FlowView<'_>, _: usize| {
        let has = if view.subflow.is_some() { of_subflow.is_some() } else { of_connection.is_some() };
        if has { Text::plain(view.marked(unit, value(view))) } else { Text::default() }
    };
    // A connection without the metric itself is sorted by the largest of its subflows.
    let order = move |view: &FlowView<'_>| {
        let open = view.connection.subflows.iter().filter(|subflow| subflow.closed.is_none());
        let of_subflows = || of_subflow.and_then(|one| open.filter_map(one.read).reduce(f64::max));
        Order::number(of_connection.map_or_else(of_subflows, |one| (one.read)(view.connection)))
    };
    let (text, order) = (Box::new(text), Box::new(order));
    Column { key, title, help, least: usual, full: usual + 1, number: true, text, order }
}

impl FlowView<'_> {
    fn track(&self) -> Option<Track<'_>> {
        match self.subflow {
            Some((_, subflow)) => self.app.history.subflow(subflow.id),
            None => self.app.history.connection(self.connection.id),
        }
    }

    fn energy(&self) -> Option<&mpwatch_model::energy::FlowEnergy> {
        match self.subflow {
            Some((_, subflow)) => subflow.energy(),
            None => self.connection.energy(),
        }
    }

    /// `~` where energy was not measured by a counter of this machine.
    fn tilde(&self) -> &'static str {
        if self.energy().is_some_and(|energy| !energy.source.is_measured()) { "~" } else { "" }
    }

    fn marked(&self, unit: Unit, value: Option<f64>) -> String {
        let energy = matches!(unit, Unit::Joules | Unit::JoulesPerGigabyte) && value.is_some();
        format!("{}{}", if energy { self.tilde() } else { "" }, self.app.settings.units.compact(unit, value))
    }

    /// What it is over is drawn faint.
    pub(crate) fn is_over(&self) -> bool {
        !self.connection.is_open() || self.subflow.is_some_and(|(_, subflow)| subflow.closed.is_some())
    }
}

fn share(view: &FlowView<'_>, width: usize) -> Text {
    let Some((place, subflow)) = view.subflow else { return Text::default() };
    let percent = subflow.share_sent.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    let room = width.min(17).saturating_sub(5);
    let drawn = pad(&bar(subflow.share_sent.unwrap_or(0.0), room), room, false);
    Text::new(drawn, Ink::Path(place)).and(pad(&percent, 5.min(width), true), Ink::Normal)
}

fn rate(view: &FlowView<'_>, _: usize) -> Text {
    let (send, receive) = match view.subflow {
        Some((_, subflow)) => (subflow.send.0, subflow.receive.0),
        None => (view.connection.send.0, view.connection.receive.0),
    };
    let (arrow, more) = if receive > send { ("↓", receive) } else { ("↑", send) };
    if more == 0 {
        return Text::new("0", Ink::Faint);
    }
    let amount = view.app.settings.units.compact(Unit::BitsPerSecond, Some(more as f64));
    Text::new(arrow, Ink::Faint).and(amount, Ink::Normal)
}

fn rates(view: &FlowView<'_>, width: usize) -> Text {
    let turn = view.app.turn();
    let values =
        |track: Option<Track<'_>>| track.map(|track| track.values(Series::Rate, turn)).unwrap_or_default();
    let own = values(view.track());
    // Subflows on the scale of their connection: so that they can be compared.
    let scale = values(view.app.history.connection(view.connection.id));
    let width = width.min(40);
    let recent = &scale[scale.len().saturating_sub(width)..];
    let most = recent.iter().copied().fold(0.0, f32::max);
    let ink = view.subflow.map_or(Ink::Normal, |(place, _)| Ink::Path(place));
    Text::new(sparkline(&own, most, width), ink)
}

fn watts(view: &FlowView<'_>, _: usize) -> Text {
    let watts = view.track().and_then(|track| track.watts(view.app.turn()));
    let text = watts.map(|watts| format!("{}{}", view.tilde(), metric::watts(watts).replace(' ', "")));
    Text::plain(text.unwrap_or_else(|| "-".to_owned()))
}

fn bounds(view: &FlowView<'_>, _: usize) -> Text {
    let bounds = view.energy().and_then(|energy| energy.lo.zip(energy.hi));
    let text = bounds.map(|(lo, hi)| {
        let [lo, hi] = [lo, hi].map(|end| view.app.settings.units.compact(Unit::Joules, Some(end.joules())));
        format!("{}{lo}..{hi}", view.tilde())
    });
    Text::plain(text.unwrap_or_else(|| "-".to_owned()))
}

fn waste_of(connection: &Connection) -> Option<f64> {
    let extra: Vec<SubflowId> = groups(connection).flat_map(|(_, group)| group[1..].to_vec()).collect();
    match connection.extra_subflows {
        Some(0) => Some(0.0),
        _ if extra.is_empty() => None,
        _ => finding::wasted(connection, &extra)?.active.map(Microjoules::joules),
    }
}

fn wasted(view: &FlowView<'_>, _: usize) -> Text {
    if view.subflow.is_some() {
        return Text::default();
    }
    let waste = waste_of(view.connection);
    let ink = if waste.is_some_and(|joules| joules > 0.0) { Ink::Warning } else { Ink::Normal };
    let mark = if waste.is_some_and(|joules| joules > 0.0) { view.tilde() } else { "" };
    Text::new(format!("{mark}{}", view.app.settings.units.compact(Unit::Joules, waste)), ink)
}

fn state(view: &FlowView<'_>) -> Text {
    let (state, over) = match view.subflow {
        Some((_, subflow)) => (subflow.state, subflow.closed.is_some()),
        None => (view.connection.state, !view.connection.is_open()),
    };
    Text::plain(if over { "closed" } else { state.as_str() })
}
