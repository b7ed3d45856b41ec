// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection in full: who and where, what it carried, its subflows, and what happened.

use std::fmt::Write as _;

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::lifecycle::Role;
use mpwatch_model::metric::{self, CONNECTION, SUBFLOW, Unit};
use mpwatch_model::subflow::Subflow;

use super::grid::{Grid, Side};
use super::{bottleneck, bytes, cost, process, seconds, shown, timeline};

/// Everything known of a connection, as `mpwatch show` prints it. Ends with a newline.
pub fn connection(connection: &Connection) -> String {
    let mut text = format!("{}\n", heading(connection));
    for (word, fact) in facts(connection) {
        let _ = writeln!(text, "  {word:<10}  {fact}");
    }
    let tables = tables(connection);
    if !tables.is_empty() {
        text.push_str("  subflows\n");
    }
    text.extend(tables.iter().map(|table| table.text("  ")));
    text.push_str(&timeline::section(connection));
    text
}

/// Tables of its subflows, a line for each. Empty: it has none.
pub(crate) fn tables(connection: &Connection) -> Vec<Grid<'static>> {
    if connection.subflows.is_empty() {
        return Vec::new();
    }
    [traffic(connection), timing(connection)].into_iter().chain(cost::table(connection)).collect()
}

/// Which one it is, in a line.
pub(crate) fn heading(connection: &Connection) -> String {
    let role = connection.role.map_or("role not known", Role::as_str);
    let state = if connection.is_open() { connection.state.as_str() } else { "closed" };
    let protocol = connection.protocol.as_str();
    format!("connection {}  {}  {role}  {protocol}  {state}", connection.id, process(connection))
}

/// A word and what stands behind it; what does not apply is left out.
pub(crate) fn facts(connection: &Connection) -> Vec<(&'static str, String)> {
    let mut lines =
        vec![("between", ends(connection)), ("where", whereabouts(connection)), ("when", times(connection))];
    if let Some(fallback) = connection.fallback {
        lines.push(("fallback", format!("goes on as plain TCP: {}", fallback.reason.description())));
    }
    lines.push(("payload", payload(connection)));
    lines.push(("sent again", sent_again(connection)));
    lines.push(("figures", figures(connection)));
    if let Some(second_path) = second_path(connection) {
        lines.push(("2nd path", second_path));
    }
    if let Some(sentence) = bottleneck::sentence(connection) {
        lines.push(("bottleneck", sentence));
    }
    let costs = [
        ("CPU time", cost::cpu(connection)),
        ("energy", cost::energy(connection)),
        ("joined", cost::joined(connection)),
    ];
    lines.extend(costs.into_iter().filter_map(|(word, fact)| Some((word, fact?))));
    lines
}

fn metric(connection: &Connection, name: &str) -> String {
    shown(CONNECTION, &format!("mpwatch_connection_{name}"), connection)
}

fn payload(connection: &Connection) -> String {
    let [sent, acked, received] = ["sent_bytes_total", "acked_bytes_total", "received_bytes_total"];
    let value = |name| metric(connection, name);
    format!("sent {}, acknowledged {}, received {}", value(sent), value(acked), value(received))
}

fn sent_again(connection: &Connection) -> String {
    let by_tcp = metric(connection, "retransmitted_bytes_total");
    match connection.bytes_reinjected {
        Some(_) => format!(
            "{by_tcp} by TCP, {} by MPTCP on another subflow",
            metric(connection, "reinjected_bytes_total")
        ),
        None => format!("{by_tcp} by TCP"),
    }
}

fn figures(connection: &Connection) -> String {
    let jain =
        connection.jain_index.map(|index| format!(", Jain's fairness index {index:.3}")).unwrap_or_default();
    format!("{} flow, excess {}{jain}", connection.flow_class.as_str(), metric(connection, "excess_ratio"))
}

fn ends(connection: &Connection) -> String {
    let (Some(local), Some(remote)) = (connection.local, connection.remote) else {
        return "not known".to_owned();
    };
    let token =
        |token: Option<mpwatch_model::id::Token>| token.map_or_else(|| "-".to_owned(), |t| t.to_string());
    let tokens = format!("tokens {} and {}", token(connection.token), token(connection.remote_token));
    format!("{local} and {remote}; {tokens}")
}

fn whereabouts(connection: &Connection) -> String {
    let cgroup =
        connection.cgroup.as_deref().map(|path| format!(", cgroup {}", printable(path))).unwrap_or_default();
    format!("network namespace {}{cgroup}", printable(&connection.netns))
}

fn times(connection: &Connection) -> String {
    let age = metric::display(Unit::Seconds, Some(connection.age_s));
    let lasted = if connection.is_open() { format!("open for {age}") } else { format!("lasted {age}") };
    match connection.opened_at {
        Some(opened) => format!("opened {opened}, {lasted}"),
        None => format!("opened before mpwatch came; since then {lasted}"),
    }
}

/// `[ICPE19]`: when the second path came, and from when on it was of use.
fn second_path(connection: &Connection) -> Option<String> {
    let path = connection.second_path?;
    let by_then = path.after_bytes.map(|carried| format!(" and {} of payload", bytes(carried.0)));
    let effective = match path.effective_after_bytes {
        Some(carried) => format!("carried a tenth of it from {} on", bytes(carried.0)),
        None if connection.is_open() => "has not carried a tenth of it yet".to_owned(),
        None => "never carried a tenth of it".to_owned(),
    };
    Some(format!(
        "joined {} after the opening{}; {effective}",
        seconds(path.after.0),
        by_then.unwrap_or_default()
    ))
}

const TRAFFIC: &[(&str, Side)] = &[
    ("#", Side::Right),
    ("local", Side::Left),
    ("remote", Side::Left),
    ("over", Side::Left),
    ("share", Side::Right),
    ("sent", Side::Right),
    ("received", Side::Right),
    ("sent again", Side::Right),
    ("fast/RTO/TLP", Side::Right),
    ("end", Side::Left),
];

fn traffic(connection: &Connection) -> Grid<'static> {
    let row = |(subflow, place): (&Subflow, usize)| {
        let metric = |name: &str| shown(SUBFLOW, &format!("mpwatch_subflow_{name}"), subflow);
        let causes = subflow.retransmits.map(|by| format!("{}/{}/{}", by.fast, by.timeout, by.probe));
        let interface = subflow.interface.map(|name| printable(&name.text()).into_owned());
        vec![
            place.to_string(),
            subflow.local.to_string(),
            subflow.remote.to_string(),
            or_dash(interface),
            metric("sent_share_ratio"),
            metric("sent_bytes_total"),
            metric("received_bytes_total"),
            metric("retransmitted_bytes_total"),
            or_dash(causes),
            end(subflow),
        ]
    };
    let rows = connection.subflows.iter().zip(1..).map(row).collect();
    Grid { columns: TRAFFIC, rows }
}

/// How a subflow ended; of an open one what is not as usual.
fn end(subflow: &Subflow) -> String {
    match subflow.closed {
        Some(closed) => closed.reason.short().to_owned(),
        None if subflow.stale => "open, but stale".to_owned(),
        None if subflow.backup => "open, backup".to_owned(),
        None => "open".to_owned(),
    }
}

const TIMING: &[(&str, Side)] = &[
    ("#", Side::Right),
    ("handshake", Side::Right),
    ("joined after", Side::Right),
    ("and bytes", Side::Right),
    ("RTT min", Side::Right),
    ("median", Side::Right),
    ("p99", Side::Right),
    ("samples", Side::Right),
    ("cwnd", Side::Right),
    ("picked/considered", Side::Right),
];

fn timing(connection: &Connection) -> Grid<'static> {
    let row = |(subflow, place): (&Subflow, usize)| {
        let metric = |name: &str| shown(SUBFLOW, &format!("mpwatch_subflow_{name}"), subflow);
        let scheduler = subflow.scheduler.map(|rounds| format!("{}/{}", rounds.picked, rounds.considered));
        vec![
            place.to_string(),
            metric("handshake_seconds"),
            metric("joined_after_seconds"),
            or_dash(subflow.joined_after_bytes.map(|carried| bytes(carried.0))),
            metric("rtt_min_seconds"),
            metric("rtt_p50_seconds"),
            metric("rtt_p99_seconds"),
            subflow.rtt_samples.to_string(),
            metric("congestion_window_segments"),
            or_dash(scheduler),
        ]
    };
    let rows = connection.subflows.iter().zip(1..).map(row).collect();
    Grid { columns: TIMING, rows }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
