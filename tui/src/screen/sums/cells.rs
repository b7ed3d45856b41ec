// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns that rows of sums have, and what their cells show.

use std::sync::LazyLock;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::endpoint::{Name, printable};
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::unit::{Microjoules, Micros};

use super::super::app::App;
use super::super::columns::{Choice, Column, Order, extra, first};
use super::super::flows::letter;
use super::super::text::{Text, sparkline};
use super::super::theme::Ink;
use super::gather::Group;
use super::{DRAWN, Sum, SumKey};

/// A row with everything that its cells need.
pub(crate) struct SumView<'a> {
    pub(crate) app: &'a App,
    pub(crate) sum: &'a Sum,
    /// Rate over time, where it is drawn.
    pub(super) rates: &'a [f32],
    /// Its mean of late, where that is sorted by.
    pub(super) recent: f64,
}

impl SumView<'_> {
    /// Its name, from the longest form to the shortest.
    pub(crate) fn names(&self) -> Vec<String> {
        let (app, mask) = (self.app, &self.app.mask);
        let text = |name: Name| printable(&name.text()).into_owned();
        let unknown = || "not known".to_owned();
        let netns = || self.sum.example(app).map_or_else(unknown, |one| mask.name("netns", &one.netns));
        match self.sum.key {
            SumKey::Path { interface, local, remote, .. } => {
                let interface = interface.map_or_else(|| "-".to_owned(), text);
                let [local, remote] = [local, remote].map(|ip| mask.ip(ip));
                vec![
                    format!("{interface}  {local} → {remote}  in {}", netns()),
                    format!("{interface} {local} → {remote}"),
                    format!("{interface} → {remote}"),
                ]
            }
            SumKey::Peer(ip) => vec![ip.map_or_else(unknown, |ip| mask.ip(ip))],
            SumKey::Process(name) => {
                vec![name.map_or_else(unknown, |name| mask.name("process", &name.text()))]
            }
            SumKey::Namespace(_) => vec![netns()],
        }
    }
}

/// A column of these rows.
pub(crate) type SumColumn =
    Column<dyn Fn(&SumView<'_>, usize) -> Text + Send + Sync, dyn Fn(&SumView<'_>) -> Order + Send + Sync>;

/// The columns of the paths view.
pub(crate) const PATHS: &[Choice] = &[
    first("name", 0),
    first("group", 2),
    first("rate", 1),
    first("rates", 3),
    first("rtt", 4),
    first("loss", 5),
    first("open", 6),
    first("failed", 7),
    first("rtt_lowest", 9),
    first("sent", 8),
    first("received", 10),
    first("watts", 11),
    extra("joules", 12),
    extra("j_per_gb", 13),
    extra("connections", 14),
];

/// The columns of the peers view.
pub(crate) const PEERS: &[Choice] = &[
    first("name", 0),
    first("connections", 2),
    first("open", 5),
    first("rate", 1),
    first("rates", 3),
    first("sent", 6),
    first("received", 7),
    first("rtt", 8),
    first("loss", 9),
    first("watts", 4),
    first("joules", 10),
    extra("j_per_gb", 11),
    extra("failed", 12),
];

type TextOf = fn(&SumView<'_>, usize) -> Text;
type OrderOf = fn(&SumView<'_>) -> Order;

fn column(
    (key, title, help): (&'static str, &'static str, &'static str),
    (least, full): (usize, usize),
    number: bool,
    text: TextOf,
    order: OrderOf,
) -> SumColumn {
    Column { key, title, help, least, full, number, text: Box::new(text), order: Box::new(order) }
}

fn shown(unit: Unit, value: Option<f64>, view: &SumView<'_>) -> Text {
    Text::plain(view.app.settings.units.compact(unit, value))
}

fn in_seconds(rtt: Option<Micros>) -> Option<f64> {
    rtt.map(|micros| micros.0 as f64 / 1e6)
}

fn seconds(view: &SumView<'_>, value: Option<f64>) -> Text {
    shown(Unit::Seconds, value, view)
}

/// All columns.
pub(crate) static SUM_COLUMNS: LazyLock<Vec<SumColumn>> = LazyLock::new(|| {
    vec![
        column(("name", "NAME", "what is summed up"), (22, 60), false, name, |v| {
            Order::Word(v.names().swap_remove(0))
        }),
        column(
            ("group", "BOTTLENECK", "paths behind one bottleneck stand together"),
            (10, 20),
            false,
            group,
            |v| Order::number(v.sum.group.map(|group| -f64::from(group.number))),
        ),
        column(("rate", "RATE", "sent and received now"), (8, 9), true, rate, |v| {
            Order::Number(v.sum.rate() as f64)
        }),
        column(("rates", "TREND", "rate over time"), (9, 40), false, rates, |v| Order::Number(v.recent)),
        column(
            ("rtt", "RTT", "median of the smoothed RTTs"),
            (7, 8),
            true,
            |v, _| seconds(v, in_seconds(v.sum.rtt)),
            |v| Order::number(in_seconds(v.sum.rtt)),
        ),
        column(
            ("rtt_lowest", "LOWEST", "lowest of the smoothed RTTs"),
            (7, 8),
            true,
            |v, _| seconds(v, in_seconds(v.sum.lowest_rtt)),
            |v| Order::number(in_seconds(v.sum.lowest_rtt)),
        ),
        column(
            ("loss", "AGAIN", "part of the payload that was sent again"),
            (6, 7),
            true,
            |v, _| {
                let ink =
                    if v.sum.loss().is_some_and(|loss| loss >= 0.02) { Ink::Warning } else { Ink::Normal };
                Text::new(metric::compact(Unit::Ratio, v.sum.loss()), ink)
            },
            |v| Order::number(v.sum.loss()),
        ),
        column(
            ("connections", "CONNS", "connections"),
            (5, 6),
            true,
            |v, _| Text::plain(v.sum.connections.to_string()),
            |v| Order::Number(v.sum.connections as f64),
        ),
        column(
            ("open", "OPEN", "open subflows"),
            (5, 6),
            true,
            |v, _| Text::plain(v.sum.open.to_string()),
            |v| Order::Number(v.sum.open as f64),
        ),
        column(
            ("failed", "FAILED", "subflows that died while their connection lives"),
            (6, 7),
            true,
            failed,
            |v| Order::Number(v.sum.failed as f64),
        ),
        column(
            ("sent", "SENT", "payload sent, retransmissions included"),
            (7, 8),
            true,
            |v, _| shown(Unit::Bytes, Some(v.sum.sent as f64), v),
            |v| Order::Number(v.sum.sent as f64),
        ),
        column(
            ("received", "RECV", "payload received"),
            (7, 8),
            true,
            |v, _| shown(Unit::Bytes, Some(v.sum.received as f64), v),
            |v| Order::Number(v.sum.received as f64),
        ),
        column(
            ("watts", "POWER", "energy above idle, over the latest interval"),
            (7, 8),
            true,
            |v, _| {
                let watts = v
                    .sum
                    .watts
                    .map(|watts| format!("{}{}", v.sum.tilde(), metric::watts(watts).replace(' ', "")));
                Text::plain(watts.unwrap_or_else(|| "-".to_owned()))
            },
            |v| Order::number(v.sum.watts),
        ),
        column(
            ("joules", "ENERGY", "energy above idle"),
            (7, 8),
            true,
            |v, _| {
                let active = v.sum.energy().and_then(|energy| energy.active).map(Microjoules::joules);
                let mark = if active.is_some() { v.sum.tilde() } else { "" };
                Text::plain(format!("{mark}{}", v.app.settings.units.compact(Unit::Joules, active)))
            },
            |v| Order::number(v.sum.energy().and_then(|energy| energy.active).map(Microjoules::joules)),
        ),
        column(
            ("j_per_gb", "J/GB", "energy above idle for each gigabyte of payload"),
            (6, 7),
            true,
            |v, _| {
                let ratio = v.sum.energy().and_then(|energy| energy.j_per_gb);
                let mark = if ratio.is_some() { v.sum.tilde() } else { "" };
                Text::plain(format!("{mark}{}", metric::compact(Unit::JoulesPerGigabyte, ratio)))
            },
            |v| Order::number(v.sum.energy().and_then(|energy| energy.j_per_gb)),
        ),
    ]
});

fn name(view: &SumView<'_>, width: usize) -> Text {
    let ink = if view.sum.failed > 0 && view.sum.open == 0 { Ink::Alarm } else { Ink::Strong };
    Text::first_that_fits(view.names().into_iter().map(|name| Text::new(name, ink)), width)
}

fn group(view: &SumView<'_>, width: usize) -> Text {
    let Some(Group { number, position, size }) = view.sum.group else {
        return match view.sum.apart {
            Some(Verdict::Disjoint) => Text::new("separate", Ink::Good),
            Some(Verdict::NoBottleneck) => Text::new("none", Ink::Faint),
            Some(Verdict::Unknown) => Text::new("not known", Ink::Faint),
            Some(Verdict::Shared) | None => Text::default(),
        };
    };
    let bracket = match position {
        0 => '╭',
        last if last + 1 == size => '╰',
        _ => '│',
    };
    let number = number as usize;
    let letter = letter(number);
    let forms = [format!("{bracket} {letter} same queue"), format!("{bracket} {letter} shared")];
    Text::first_that_fits(forms.map(|form| Text::new(form, Ink::Group(number))), width)
}

fn rate(view: &SumView<'_>, _: usize) -> Text {
    let (send, receive) = (view.sum.send, view.sum.receive);
    let (arrow, more) = if receive > send { ("↓", receive) } else { ("↑", send) };
    if more == 0 {
        return Text::new("0", Ink::Faint);
    }
    Text::new(arrow, Ink::Faint)
        .and(view.app.settings.units.compact(Unit::BitsPerSecond, Some(more as f64)), Ink::Normal)
}

fn rates(view: &SumView<'_>, width: usize) -> Text {
    let width = width.min(DRAWN);
    let rates = &view.rates[view.rates.len().saturating_sub(width)..];
    let most = rates.iter().copied().fold(0.0, f32::max);
    Text::plain(sparkline(rates, most, width))
}

fn failed(view: &SumView<'_>, _: usize) -> Text {
    match view.sum.failed {
        0 => Text::new("0", Ink::Faint),
        count => Text::new(format!("✗ {count}"), Ink::Alarm),
    }
}
