// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that sum up flows: a path (interface and pair of addresses), a peer, a process, a namespace; and the columns that they have.

use std::collections::HashMap;
use std::sync::LazyLock;

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::energy::{FlowEnergy, Source};
use mpwatch_model::id::ConnectionId;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::subflow::Subflow;
use mpwatch_model::unit::{Bytes, Microjoules};

use super::app::App;
use super::columns::{Choice, Column, Order, extra, first};
use super::flows::letter;
use super::history::Series;
use super::rows::Grouping;
use super::text::{Text, sparkline};
use super::theme::Ink;

/// Values of a sum that are drawn over time.
const DRAWN: usize = 40;

/// What several subflows are together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// Which one it is, also after a new snapshot.
    pub(crate) key: String,
    /// Its name, from the longest form to the shortest.
    pub(crate) names: Vec<String>,
    pub(crate) connections: Vec<ConnectionId>,
    pub(crate) open: usize,
    pub(crate) failed: usize,
    pub(crate) send: u64,
    pub(crate) receive: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    again: u64,
    rtts: Vec<u64>,
    pub(crate) rates: Vec<f32>,
    watts: Option<f64>,
    energies: Vec<FlowEnergy>,
    /// The paths behind one bottleneck: which group, and which of how many in it.
    pub(crate) group: Option<(usize, usize, usize)>,
    /// What is known where it is in no group.
    pub(crate) apart: Option<Verdict>,
}

impl Sum {
    fn add(&mut self, app: &App, connection: &Connection, subflow: &Subflow) {
        if self.connections.last() != Some(&connection.id) {
            self.connections.push(connection.id);
        }
        let is_open = subflow.closed.is_none();
        self.open += usize::from(is_open);
        let failed = subflow.closed.is_some_and(|closed| closed.reason.is_failure()) || subflow.stale;
        self.failed += usize::from(failed && connection.is_open());
        self.send = self.send.saturating_add(subflow.send.0);
        self.receive = self.receive.saturating_add(subflow.receive.0);
        self.sent = self.sent.saturating_add(subflow.bytes_sent.0);
        self.received = self.received.saturating_add(subflow.bytes_received.0);
        self.again = self.again.saturating_add(subflow.bytes_retransmitted.0);
        self.rtts.extend(subflow.srtt.filter(|_| is_open).map(|srtt| srtt.0));
        self.energies.extend(subflow.energy);
        if let Some(track) = app.history.subflow(subflow.id) {
            let values = track.values(Series::Rate, app.turn());
            let shown = &values[values.len().saturating_sub(DRAWN)..];
            if self.rates.len() < shown.len() {
                let missing = shown.len() - self.rates.len();
                self.rates.splice(0..0, std::iter::repeat_n(0.0, missing));
            }
            let from = self.rates.len() - shown.len();
            self.rates[from..].iter_mut().zip(shown).for_each(|(sum, value)| *sum += value);
            if let Some(watts) = track.watts(app.turn()) {
                *self.watts.get_or_insert(0.0) += watts;
            }
        }
    }

    fn finish(mut self) -> Self {
        self.rtts.sort_unstable();
        self
    }

    fn rate(&self) -> u64 {
        self.send.saturating_add(self.receive)
    }

    fn median_rtt(&self) -> Option<f64> {
        self.rtts.get(self.rtts.len() / 2).map(|micros| *micros as f64 / 1e6)
    }

    fn lowest_rtt(&self) -> Option<f64> {
        self.rtts.first().map(|micros| *micros as f64 / 1e6)
    }

    /// Part of the payload that had to be sent again.
    pub(crate) fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.again as f64 / self.sent as f64)
    }

    fn energy(&self) -> Option<FlowEnergy> {
        let payload = Bytes(self.sent.saturating_sub(self.again) + self.received);
        (!self.energies.is_empty()).then(|| FlowEnergy::sum(&self.energies).over(payload))
    }

    fn tilde(&self) -> &'static str {
        let estimated = |energy: FlowEnergy| energy.source != Source::Absent && !energy.source.is_measured();
        if self.energy().is_some_and(estimated) { "~" } else { "" }
    }
}

/// A row with everything that its cells need.
pub(crate) struct SumView<'a> {
    pub(crate) app: &'a App,
    pub(crate) sum: &'a Sum,
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

fn seconds(view: &SumView<'_>, value: Option<f64>) -> Text {
    shown(Unit::Seconds, value, view)
}

/// All columns.
pub(crate) static SUM_COLUMNS: LazyLock<Vec<SumColumn>> = LazyLock::new(|| {
    vec![
        column(("name", "NAME", "what is summed up"), (22, 60), false, name, |v| {
            Order::Word(v.sum.names.first().cloned().unwrap_or_default())
        }),
        column(
            ("group", "BOTTLENECK", "paths behind one bottleneck stand together"),
            (10, 20),
            false,
            group,
            |v| Order::number(v.sum.group.map(|(number, ..)| -(number as f64))),
        ),
        column(("rate", "RATE", "sent and received now"), (8, 9), true, rate, |v| {
            Order::Number(v.sum.rate() as f64)
        }),
        column(("rates", "OVER TIME", "rate over time"), (9, 40), false, rates, |v| {
            Order::Number(v.sum.rates.iter().rev().take(10).map(|value| f64::from(*value)).sum())
        }),
        column(
            ("rtt", "RTT", "median of the smoothed RTTs"),
            (7, 8),
            true,
            |v, _| seconds(v, v.sum.median_rtt()),
            |v| Order::number(v.sum.median_rtt()),
        ),
        column(
            ("rtt_lowest", "LOWEST", "lowest of the smoothed RTTs"),
            (7, 8),
            true,
            |v, _| seconds(v, v.sum.lowest_rtt()),
            |v| Order::number(v.sum.lowest_rtt()),
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
            |v, _| Text::plain(v.sum.connections.len().to_string()),
            |v| Order::Number(v.sum.connections.len() as f64),
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
    Text::first_that_fits(view.sum.names.iter().map(|name| Text::new(name, ink)), width)
}

fn group(view: &SumView<'_>, width: usize) -> Text {
    let Some((number, position, size)) = view.sum.group else {
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
    let most = view.sum.rates.iter().copied().fold(0.0, f32::max);
    Text::plain(sparkline(&view.sum.rates, most, width.min(DRAWN)))
}

fn failed(view: &SumView<'_>, _: usize) -> Text {
    match view.sum.failed {
        0 => Text::new("0", Ink::Faint),
        count => Text::new(format!("✗ {count}"), Ink::Alarm),
    }
}

/// Sums by interface and pair of addresses; those behind one bottleneck stand together.
pub(crate) fn paths(app: &App, connections: &[&Connection]) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut links: Vec<(usize, usize)> = Vec::new();
    for connection in connections {
        let mut own = HashMap::new();
        for subflow in &connection.subflows {
            let interface = subflow.interface.map(|name| name.to_string()).unwrap_or_default();
            let (local, remote) = (subflow.local.ip(), subflow.remote.ip());
            let key = format!("{} {interface} {local} {remote}", connection.netns_inode);
            let place = *places.entry(key.clone()).or_insert_with(|| {
                let names = path_names(app, connection, subflow);
                sums.push(Sum { key, names, ..Sum::default() });
                sums.len() - 1
            });
            sums[place].add(app, connection, subflow);
            own.insert(subflow.id, place);
        }
        let known = connection.bottlenecks.iter();
        for group in known.clone().flat_map(|found| &found.groups) {
            let members: Vec<usize> = group.iter().filter_map(|id| own.get(id).copied()).collect();
            links.extend(members.windows(2).map(|pair| (pair[0], pair[1])));
        }
        for pair in known.flat_map(|found| &found.pairs).filter(|pair| pair.verdict != Verdict::Shared) {
            for place in [pair.a, pair.b].iter().filter_map(|id| own.get(id)) {
                sums[*place].apart.get_or_insert(pair.verdict);
            }
        }
    }
    grouped(&mut sums, &links);
    sums.into_iter().map(Sum::finish).collect()
}

fn path_names(app: &App, connection: &Connection, subflow: &Subflow) -> Vec<String> {
    let interface = subflow
        .interface
        .map_or_else(|| "-".to_owned(), |name| mpwatch_model::endpoint::printable(&name.text()).into_owned());
    let [local, remote] = [subflow.local, subflow.remote].map(|end| app.mask.ip(end.ip()));
    let netns = app.mask.name("netns", &connection.netns);
    vec![
        format!("{interface}  {local} → {remote}  in {netns}"),
        format!("{interface} {local} → {remote}"),
        format!("{interface} → {remote}"),
        interface,
    ]
}

fn root(parent: &[usize], mut at: usize) -> usize {
    while parent[at] != at {
        at = parent[at];
    }
    at
}

/// Gives a number to each set of paths that are linked.
fn grouped(sums: &mut [Sum], links: &[(usize, usize)]) {
    let mut parent: Vec<usize> = (0..sums.len()).collect();
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        let (a, b) = (root(&parent, a), root(&parent, b));
        parent[a.max(b)] = a.min(b);
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); sums.len()];
    for at in 0..sums.len() {
        members[root(&parent, at)].push(at);
    }
    for (number, group) in members.iter().filter(|group| group.len() > 1).enumerate() {
        for (position, &at) in group.iter().enumerate() {
            sums[at].group = Some((number, position, group.len()));
        }
    }
}

/// Sums by peer, process or namespace.
pub(crate) fn peers(app: &App, connections: &[&Connection], by: Grouping) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for connection in connections {
        let name = peer_name(app, connection, by);
        let place = *places.entry(name.clone()).or_insert_with(|| {
            sums.push(Sum { key: name.clone(), names: vec![name], ..Sum::default() });
            sums.len() - 1
        });
        for subflow in &connection.subflows {
            sums[place].add(app, connection, subflow);
        }
    }
    sums.into_iter().map(Sum::finish).collect()
}

fn peer_name(app: &App, connection: &Connection, by: Grouping) -> String {
    let unknown = || "not known".to_owned();
    match by {
        Grouping::Peer => connection.remote.map_or_else(unknown, |remote| app.mask.ip(remote.ip())),
        Grouping::Process => {
            connection.process.map_or_else(unknown, |process| app.mask.name("process", &process.comm.text()))
        }
        Grouping::Namespace => app.mask.name("netns", &connection.netns),
    }
}
