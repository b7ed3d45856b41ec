// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells with the names of connections, subflows and aggregates, and with unusual states such as a failed path.

use std::net::SocketAddr;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::kernel::endpoint::{Name, printable};
use mpwatch_model::kernel::lifecycle::{Protocol, Role, TcpState};
use mpwatch_model::metric::Unit;

use super::column::{Column, RowKind, Value, numbers, own, sum, word, words};
use super::order::Order;
use super::row::{Fold, Row, Subject};
use crate::aggregate::AggregateKey;
use crate::digest::PathKey;
use crate::mask::Mask;
use crate::text::{Text, clip};
use crate::theme::Ink;

pub(super) const COLUMNS: &[Column] = &[
    words(
        (
            "flow",
            "CONNECTION",
            "the connection, and below it its subflows; partly, *: mpwatch did not observe all of it",
        ),
        (24, 54),
        RowKind::Flows,
        Value::Cell(flow, |row| {
            let process = row.connection().and_then(|connection| connection.process);
            Order::Word(process.map(|process| process.comm.text().into_owned()).unwrap_or_default())
        }),
    ),
    words(
        ("name", "NAME", "path, peer, process, namespace or control group"),
        (21, 60),
        RowKind::Aggregates,
        Value::Cell(
            |row, width| {
                let (failed, working) = row.sums().map_or((0, 0), |sums| (sums.failed, sums.working));
                let ink = if failed > 0 && working == 0 { Ink::Alarm } else { Ink::Strong };
                // Narrow screens have no column of failed subflows.
                let mark = if failed > 0 { "✗ " } else { "" };
                let name = |name: String| Text::new(mark, Ink::Alarm).and(name, ink);
                Text::first_that_fits(names(row).into_iter().map(name), width)
            },
            |row| Order::Word(names(row).into_iter().next().unwrap_or_default()),
        ),
    ),
    own(("id", "ID", "id of the connection"), |_, c| Some(c.id.to_string())),
    own(("protocol", "PROTOCOL", "mptcp, tcp, or fallback to TCP"), |_, c| {
        Some(c.carried_by().as_str().to_owned())
    }),
    own(("fallback", "FALLBACK", "why it fell back to plain TCP"), |_, c| {
        Some(c.fallback?.reason.description().to_owned())
    }),
    word(("state", "STATE", "state of the socket"), |row, c| {
        let state = if let Subject::Subflow { subflow, .. } = row.subject { subflow.state } else { c.state };
        Some(if row.is_closed() { "closed" } else { state.as_str() }.to_owned())
    }),
    word(
        (
            "limit",
            "LIMIT",
            "largest part of the time: application (or MPTCP) has nothing to send, network, receive window, send buffer",
        ),
        |row, c| {
            let account = match row.subject {
                Subject::Subflow { subflow, .. } => subflow.time_account(),
                _ => c.time_account(),
            };
            Some(account?.largest()?.as_str().to_owned())
        },
    ),
    own(
        ("observed", "OBSERVED", "whether mpwatch observed all of the connection, or a part (partly)"),
        |_, c| Some(if c.is_partly_observed() { "partly" } else { "all" }.to_owned()),
    ),
    own(("role", "ROLE", "client or server"), |_, c| Some(c.role.map_or("-", Role::as_str).to_owned())),
    own(("netns", "NETNS", "network namespace"), |row, c| Some(row.context.mask.name("netns", &c.netns))),
    own(("cgroup", "CGROUP", "control group"), |row, c| {
        let group = c.cgroup.as_deref().filter(|_| !row.context.mask.is_on);
        Some(printable(group?).into_owned())
    }),
    own(("pod", "POD", "Kubernetes namespace, pod and container"), |row, c| {
        let pod = c.pod.as_ref().filter(|_| !row.context.mask.is_on);
        Some(printable(&pod?.to_string()).into_owned())
    }),
    own(("process", "PROCESS", "name and id of the process"), |row, c| {
        Some(process(row.context.mask, c)[1].clone())
    }),
    word(("local", "LOCAL", "local address and port"), |row, c| Some(address(row, ends(row, c).0))),
    word(("remote", "REMOTE", "remote address and port"), |row, c| Some(address(row, ends(row, c).1))),
    sum(("connections", "CONNECTIONS", "connections"), 5, Unit::Count, |sums| Some(sums.connections as f64)),
    sum(("open", "SUBFLOWS", "open subflows"), 5, Unit::Count, |sums| Some(sums.open as f64)),
    numbers(
        ("failed", "FAILED", "subflows whose path failed"),
        6,
        RowKind::Aggregates,
        Value::Cell(
            |row, _| match row.sums().map_or(0, |sums| sums.failed) {
                0 => Text::new("0", Ink::Faint),
                count => Text::new(format!("✗ {count}"), Ink::Alarm),
            },
            |row| Order::number(row.sums().map(|sums| sums.failed as f64)),
        ),
    ),
];

/// The meaning of the mark of a connection that mpwatch did not observe completely.
pub(crate) const PARTLY_LEGEND: &str =
    "partly, *: not all of the connection was observed; CPU time, energy and ratios cover the observed part";

fn flow(row: &Row<'_>, width: usize) -> Text {
    let forms = match row.subject {
        Subject::Connection(connection, fold) => connection_forms(row, connection, fold),
        Subject::Subflow { connection, index, subflow } => subflow_forms(row, connection, index, subflow),
        Subject::Aggregate { .. } => Vec::new(),
    };
    Text::first_that_fits(forms, width)
}

/// The name of the process, and the name with the process id. While names are masked, both are the pseudonym of the process.
fn process(mask: &Mask, connection: &Connection) -> [String; 2] {
    let Some(process) = connection.process else { return ["-", "-"].map(str::to_owned) };
    let name = mask.name("process", &process.comm.text());
    let pid = if mask.is_on { String::new() } else { format!("/{}", process.pid) };
    [name.clone(), name + &pid]
}

/// Local and remote address.
fn ends(row: &Row<'_>, connection: &Connection) -> (Option<SocketAddr>, Option<SocketAddr>) {
    match row.subject {
        Subject::Subflow { subflow, .. } => (Some(subflow.local), Some(subflow.remote)),
        _ => (connection.local, connection.remote),
    }
}

fn address(row: &Row<'_>, address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "-".to_owned(), |address| row.context.mask.address(address))
}

/// A connection in two forms: process with local and remote address, and process with the remote address only.
pub(crate) fn full_names(mask: &Mask, connection: &Connection) -> [String; 2] {
    let [_, process] = process(mask, connection);
    let [local, remote] = [connection.local, connection.remote]
        .map(|end| end.map_or_else(|| "-".to_owned(), |end| mask.address(end)));
    let arrow = arrow(connection);
    [format!("{process}  {local} {arrow} {remote}"), format!("{process}  {arrow} {remote}")]
}

/// The arrow points to the server.
fn arrow(connection: &Connection) -> &'static str {
    if connection.role == Some(Role::Server) { "←" } else { "→" }
}

fn connection_forms(row: &Row<'_>, connection: &Connection, fold: Fold) -> Vec<Text> {
    let marker = match fold {
        Fold::Never => "",
        Fold::Open | Fold::Folded if connection.subflows.is_empty() => "  ",
        Fold::Open => "▾ ",
        Fold::Folded => "▸ ",
    };
    let (arrow, id, mask) = (arrow(connection), connection.id.short(), row.context.mask);
    let [name, process] = process(mask, connection);
    let [local, remote] = [connection.local, connection.remote].map(|end| address(row, end));
    let remote_ip = connection.remote.map_or_else(|| "-".to_owned(), |end| mask.ip(end.ip()));
    let (tag, ink) = match (connection.is_open(), connection.fallback.is_some(), connection.protocol) {
        (false, ..) => (" closed", Ink::Faint),
        (_, true, _) => (" fallback", Ink::Warning),
        (.., Protocol::Tcp) => (" TCP", Ink::Faint),
        _ => ("", Ink::Normal),
    };
    let is_partly = connection.is_partly_observed();
    let with = |partly: &str, text: String, ends: String| {
        let all = Text::plain(marker).and(text, Ink::Strong).and(ends, Ink::Normal).and(tag, ink);
        let all = all.and(if is_partly { partly } else { "" }.to_owned(), Ink::Faint);
        if connection.is_open() { all } else { all.all(Ink::Faint) }
    };
    let form = |text: String, ends: String| with(" partly", text, ends);
    // A shortened name with an IPv4 address is more useful than the full name alone. An IPv6 address is too long to append.
    let widths: &[usize] =
        if connection.remote.is_some_and(|end| end.is_ipv4()) { &[99, 6, 3, 0] } else { &[99] };
    let cut = widths.iter().map(|width| {
        let name = format!("{id} {}", clip(&name, *width)).trim_end().to_owned();
        with("*", name, format!(" {arrow} {remote_ip}"))
    });
    let long = [
        form(format!("{id} {process}"), format!(" {local} {arrow} {remote}")),
        form(format!("{id} {name}"), format!(" {arrow} {remote}")),
        form(format!("{id} {name}"), format!(" {arrow} {remote_ip}")),
    ];
    let short = [
        form(format!("{id} {name}"), String::new()),
        // Several connections can have the same name, so the id stays.
        with("*", format!("{id} {}", clip(&name, 6)), String::new()),
        with("*", format!("{id} {}", clip(&name, 4)), String::new()),
    ];
    long.into_iter().chain(cut).chain(short).collect()
}

fn subflow_forms(row: &Row<'_>, connection: &Connection, index: usize, subflow: &Subflow) -> Vec<Text> {
    let mask = row.context.mask;
    let branch = if index + 1 == connection.subflows.len() { "╰─ " } else { "├─ " };
    let interface =
        subflow.interface.map_or_else(|| "-".to_owned(), |name| printable(&name.text()).into_owned());
    let number = format!("{} ", index + 1);
    let [local, remote] = [subflow.local, subflow.remote].map(|end| mask.ip(end.ip()));
    let arrow = arrow(connection);
    let faint = if subflow.closed.is_some() { Ink::Faint } else { Ink::Normal };
    let form = |interface: &str, (tag, ink): (String, Ink), ends: &str| {
        let tag = if tag.is_empty() || interface.is_empty() { tag } else { format!(" {tag}") };
        let head = Text::new(branch, Ink::Faint).and(number.clone(), Ink::Path(index));
        head.and(interface, faint).and(tag, ink).and(ends, faint)
    };
    let [full, short] = tags(connection, subflow);
    // After a tag, the remote address alone would read as a part of the tag.
    let remote_only = if full.0.is_empty() { format!(" {arrow} {remote}") } else { String::new() };
    vec![
        form(&interface, full.clone(), &format!(" {local} {arrow} {remote}")),
        form(&interface, full.clone(), &remote_only),
        form(&interface, full, ""),
        form(&interface, short.clone(), ""),
        form("", short, ""),
    ]
}

/// The state of a subflow as a long and as a short text; both are empty for an established subflow.
fn tags(connection: &Connection, subflow: &Subflow) -> [(String, Ink); 2] {
    if outage::has_failed(connection, subflow) {
        let failure = outage::path_failure(connection, subflow);
        let at = failure.map(|failure| format!(" {:.2}", connection.offset(failure.at))).unwrap_or_default();
        let closed = subflow.closed.filter(|closed| closed.reason.is_failure());
        let why = closed.map_or("no ACKs", |closed| closed.reason.short());
        return [(format!("✗ FAILED{at}: {why}"), Ink::Alarm), (format!("✗ FAILED{at}"), Ink::Alarm)];
    }
    let faint = |word: &str| [(word.to_owned(), Ink::Faint), (word.to_owned(), Ink::Faint)];
    match (subflow.closed, subflow.state) {
        (Some(closed), _) => {
            [(format!("closed: {}", closed.reason.short()), Ink::Faint), faint("closed")[0].clone()]
        }
        (None, TcpState::SynSent | TcpState::SynRecv) => faint("opening"),
        (None, TcpState::Established) if subflow.backup => faint("backup"),
        (None, TcpState::Established) => [(String::new(), Ink::Normal), (String::new(), Ink::Normal)],
        (None, _) => faint("closing"),
    }
}

/// The name of an aggregate, from the longest form to the shortest.
fn names(row: &Row<'_>) -> Vec<String> {
    let Some(sums) = row.sums() else { return Vec::new() };
    let mask = row.context.mask;
    let text = |name: Name| printable(&name.text()).into_owned();
    let unknown = || "unknown".to_owned();
    let example = || sums.example.and_then(|location| row.context.connection(location));
    let netns = || example().map_or_else(unknown, |connection| mask.name("netns", &connection.netns));
    match sums.key {
        AggregateKey::Path(PathKey { interface, local, remote, .. }) => {
            let interface = interface.map_or_else(|| "-".to_owned(), text);
            let [local, remote] = [local, remote].map(|ip| mask.ip(ip));
            vec![
                format!("{interface}  {local} → {remote}  in {}", netns()),
                format!("{interface} {local} → {remote}"),
                format!("{interface} → {remote}"),
            ]
        }
        AggregateKey::Peer(ip) => vec![ip.map_or_else(unknown, |ip| mask.ip(ip))],
        AggregateKey::Process(name) => {
            vec![name.map_or_else(unknown, |name| mask.name("process", &name.text()))]
        }
        AggregateKey::Namespace(_) => vec![netns()],
        AggregateKey::ControlGroup(_) if mask.is_on => vec!["control group".to_owned()],
        AggregateKey::ControlGroup(_) => {
            let path = example().and_then(|c| Some(printable(c.cgroup.as_deref()?).into_owned()));
            let pod = example().and_then(|c| Some(printable(&c.pod.as_ref()?.to_string()).into_owned()));
            let path = path.unwrap_or_else(unknown);
            let end = path.rsplit('/').next().unwrap_or_default().to_owned();
            pod.into_iter().chain([path, end]).collect()
        }
    }
}
