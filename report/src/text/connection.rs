// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection in full: ends, payload, findings, subflows and timeline.

use std::fmt::Write as _;

use mpwatch_model::finding::{self, Finding, Format};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::busy::{Limit, TimeAccount};
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::metric::{self, CONNECTION, Unit};

use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid};
use super::words::{Fact, bytes, known, of_subflow, or_dash, seconds, shown};
use super::{cost, timeline};

/// A connection in full, as `mpwatch show` prints it. Ends with a newline.
pub fn connection(connection: &Connection) -> String {
    within(connection, usize::MAX)
}

/// The same text as [`connection`], with tables of at most `width` columns of text.
pub(super) fn within(connection: &Connection, width: usize) -> String {
    let mut text = format!("{}\n", heading(connection));
    for (label, fact) in facts(connection) {
        let _ = writeln!(text, "  {label:<13}  {fact}");
    }
    let tables = tables(connection);
    if !tables.is_empty() {
        text.push_str("  subflows\n");
    }
    text.extend(tables.iter().map(|table| table.text_within("  ", width)));
    text.extend(legend(connection).map(|line| format!("  {line}\n")));
    text.push_str(&timeline::section(connection, width));
    text
}

/// The id, process, role, protocol and state of a connection, in a line.
pub(crate) fn heading(connection: &Connection) -> String {
    let role = connection.role.map_or("role not known", Role::as_str);
    let state = if connection.is_open() { connection.state.as_str() } else { "closed" };
    let process = connection.process.map(|p| format!("{}/{}", printable(&p.comm.text()), p.pid));
    let (process, protocol) = (or_dash(process), connection.carried_by().as_str());
    format!("connection {}  {process}  {role}  {protocol}  {state}", connection.id)
}

/// The facts that are known about a connection.
pub(crate) fn facts(connection: &Connection) -> Vec<Fact> {
    let facts = [
        ("between", Some(ends(connection))),
        ("where", Some(whereabouts(connection))),
        ("when", Some(times(connection))),
        ("fallback", connection.fallback.map(|fallback| fallback.reason.description().to_owned())),
        ("payload", Some(payload(connection))),
        ("goodput", goodput(connection)),
        ("time", connection.time_account().map(|account| account.to_string())),
        ("observed", observed(connection)),
        ("retransmitted", Some(retransmitted(connection))),
        ("congestion", congestion(connection)),
        ("traffic", Some(traffic_class(connection))),
        ("2nd path", second_path(connection)),
        ("bottleneck", bottleneck(connection)),
        ("not measured", unmeasured(connection)),
        ("CPU time", cost::cpu(connection)),
        ("energy", cost::energy(connection)),
        ("joined", cost::joined(connection)),
    ];
    known(facts).collect()
}

fn metric(connection: &Connection, name: &str) -> String {
    shown(CONNECTION, &format!("mpwatch_connection_{name}"), connection)
}

pub(crate) fn payload(connection: &Connection) -> String {
    let [sent, acked, received] =
        ["sent", "acked", "received"].map(|what| metric(connection, &format!("{what}_bytes_total")));
    format!("sent {sent}, acknowledged {acked}, received {received}")
}

/// The mean goodput, over all time and while the connection carried payload. `None`: no time was observed.
fn goodput(connection: &Connection) -> Option<String> {
    connection.observed?.goodput()?;
    let [mean, active] =
        ["", "active_"].map(|kind| metric(connection, &format!("{kind}goodput_bits_per_second")));
    Some(format!("{mean} on average, {active} while it carried payload; both directions, each byte once"))
}

/// The observed part of the connection. `None`: all of it was observed.
fn observed(connection: &Connection) -> Option<String> {
    let observed = connection.observed.filter(|_| connection.is_partly_observed())?;
    let older = if connection.seen_open { "" } else { ", opened before mpwatch started" };
    let gap = connection.unobserved_gap().map(|gap| {
        format!(
            ", {} not observed because mpwatch was not running",
            metric::display(Unit::Seconds, Some(gap))
        )
    });
    let time = metric::display(Unit::Seconds, Some(observed.duration.seconds()));
    Some(format!(
        "PARTLY: {} of payload in {time}{older}{}",
        bytes(observed.bytes.0),
        gap.unwrap_or_default()
    ))
}

fn retransmitted(connection: &Connection) -> String {
    let by_tcp = metric(connection, "retransmitted_bytes_total");
    match connection.bytes_reinjected {
        Some(_) => format!(
            "{by_tcp} by TCP, {} by MPTCP on another subflow",
            metric(connection, "reinjected_bytes_total")
        ),
        None => format!("{by_tcp} by TCP"),
    }
}

/// The congestion control of a connection, or of each subflow if they differ. `None`: unknown.
fn congestion(connection: &Connection) -> Option<String> {
    let known = |subflow: &Subflow| Some(printable(&subflow.congestion_control?.text()).into_owned());
    let names: Vec<Option<String>> = connection.subflows.iter().map(known).collect();
    let first = names.first()?.clone()?;
    if names.iter().all(|name| name.as_ref() == Some(&first)) {
        return Some(first);
    }
    let by_subflow = names.into_iter().zip(1..).map(|(name, number)| format!("{number}: {}", or_dash(name)));
    Some(by_subflow.collect::<Vec<_>>().join(", "))
}

fn traffic_class(connection: &Connection) -> String {
    let class = connection.flow_class;
    let overhead = connection.excess_ratio().map(|_| {
        format!(", about {} of the wire bytes were not new payload", metric(connection, "excess_ratio"))
    });
    let jain = connection
        .jain_index
        .map(|index| format!(", Jain's fairness index {index:.3} (1: subflows sent equal amounts)"));
    let (overhead, jain) = (overhead.unwrap_or_default(), jain.unwrap_or_default());
    format!("{} flow ({}){overhead}{jain}", class.as_str(), class.range())
}

fn ends(connection: &Connection) -> String {
    let (Some(local), Some(remote)) = (connection.local, connection.remote) else {
        return "not known".to_owned();
    };
    let [ours, theirs] = [connection.token, connection.remote_token].map(or_dash::<Token>);
    format!("{local} and {remote}; tokens {ours} and {theirs}")
}

fn whereabouts(connection: &Connection) -> String {
    let cgroup =
        connection.cgroup.as_deref().map(|path| format!(", cgroup {}", printable(path))).unwrap_or_default();
    let pod = connection.pod.as_ref().map(|pod| format!(", pod {}", printable(&pod.to_string())));
    format!("network namespace {}{cgroup}{}", printable(&connection.netns), pod.unwrap_or_default())
}

fn times(connection: &Connection) -> String {
    let age = metric::display(Unit::Seconds, Some(connection.age_s));
    let lasted = match (connection.is_open(), connection.has_unobserved_end()) {
        (true, _) => format!("open for {age}"),
        (_, true) => format!("lasted at least {age}: it ended while mpwatch was not running"),
        _ => format!("lasted {age}"),
    };
    let later = ended_later(connection).unwrap_or_default();
    match connection.opened_at {
        Some(opened) => format!("opened {opened}, {lasted}{later}"),
        None => format!("opened before mpwatch started; since then {lasted}{later}"),
    }
}

/// A connection ends when its MPTCP socket closes, but TCP may close subflows later. `None`: no subflow closed later.
fn ended_later(connection: &Connection) -> Option<String> {
    let closed = connection.closed_at?;
    let last = connection.subflows.iter().filter_map(|subflow| subflow.closed).map(|end| end.at).max()?;
    let last = Some(last).filter(|last| *last > closed)?;
    Some(format!(
        " until its MPTCP socket closed; TCP closed the last subflow at {:.2}",
        connection.offset(last)
    ))
}

/// When the second path joined, and after how much payload it reached 10 % of the traffic `[ICPE19]`.
fn second_path(connection: &Connection) -> Option<String> {
    let path = connection.second_path?;
    let sent = path.after_bytes.map(|carried| format!(" ({} already carried)", bytes(carried.0)));
    let effective = match path.effective_after_bytes {
        Some(carried) => {
            format!("carried 10 % of the traffic (a path in use) after {}", bytes(carried.0))
        }
        None if connection.is_open() => "has not carried 10 % of the traffic".to_owned(),
        None => "never carried 10 % of the traffic".to_owned(),
    };
    Some(format!("joined after {}{}; {effective}", seconds(path.after.0), sent.unwrap_or_default()))
}

fn bottleneck(connection: &Connection) -> Option<String> {
    let findings = finding::of_connection(connection);
    let about = findings.iter().filter(|finding| finding.is_about_bottlenecks());
    let sentences: Vec<String> =
        about.map(|finding: &Finding| finding.sentence(&Format::default())).collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Facts about the connection that are not measured. `None`: all are measured.
fn unmeasured(connection: &Connection) -> Option<String> {
    Some(finding::unmeasured(connection).join("; ")).filter(|text| !text.is_empty())
}

/// Explains the column `picked/considered`. `None`: the column has no values.
pub(crate) fn legend(connection: &Connection) -> Option<&'static str> {
    let is_known = connection.subflows.iter().any(|subflow| subflow.scheduler.is_some());
    is_known.then_some("picked/considered: rounds in which the MPTCP scheduler picked the subflow, of the rounds that considered the subflow")
}

/// Tables with a row for each subflow. Empty: there are no subflows.
pub(crate) fn tables(connection: &Connection) -> Vec<Grid> {
    let costs = connection.cpu.map(|_| cost::COLUMNS);
    let tables = [Some(TRAFFIC), Some(TIMING), costs].into_iter().flatten();
    tables.filter_map(|columns| subflow_grid(connection, columns)).collect()
}

fn subflow_grid(connection: &Connection, columns: &[Column<Subflow>]) -> Option<Grid> {
    let mut grid = Grid::from_rows(columns, &connection.subflows)?;
    grid.columns.insert(0, ("#", Right));
    grid.rows.iter_mut().zip(1..).for_each(|(row, number)| row.insert(0, number.to_string()));
    Some(grid)
}

const TRAFFIC: &[Column<Subflow>] = &[
    ("local", Left, |s| s.local.to_string()),
    ("remote", Left, |s| s.remote.to_string()),
    ("over", Left, |s| or_dash(s.interface.map(|name| printable(&name.text()).into_owned()))),
    ("share of payload", Right, |s| of_subflow(s, "sent_share_ratio")),
    ("goodput", Right, |s| of_subflow(s, "goodput_bits_per_second")),
    ("overhead", Right, |s| of_subflow(s, "excess_ratio")),
    ("sent", Right, |s| of_subflow(s, "sent_bytes_total")),
    ("received", Right, |s| of_subflow(s, "received_bytes_total")),
    ("retransmitted", Right, |s| of_subflow(s, "retransmitted_bytes_total")),
    ("fast/RTO/TLP", Right, |s| {
        or_dash(s.retransmits.map(|by| format!("{}/{}/{}", by.fast, by.timeout, by.probe)))
    }),
    ("timeouts", Right, |s| of_subflow(s, "timeouts_total")),
    ("end", Left, |s| end(s).to_owned()),
];

/// How a subflow ended, or the state of an open subflow.
fn end(subflow: &Subflow) -> &'static str {
    match subflow.closed {
        Some(closed) => closed.reason.short(),
        None if subflow.is_failed() => "open, but failed",
        None if subflow.backup => "open, backup",
        None => "open",
    }
}

const TIMING: &[Column<Subflow>] = &[
    ("handshake", Right, |s| of_subflow(s, "handshake_seconds")),
    ("joined after", Right, |s| of_subflow(s, "joined_after_seconds")),
    ("bytes before join", Right, |s| or_dash(s.joined_after_bytes.map(|carried| bytes(carried.0)))),
    ("RTT min", Right, |s| of_subflow(s, "rtt_min_seconds")),
    ("median", Right, |s| of_subflow(s, "rtt_p50_seconds")),
    ("p99", Right, |s| of_subflow(s, "rtt_p99_seconds")),
    ("samples", Right, |s| s.rtt_samples.to_string()),
    ("cwnd (segments)", Right, |s| of_subflow(s, "congestion_window_segments")),
    ("limited by", Left, |s| or_dash(s.time_account().and_then(TimeAccount::largest).map(Limit::as_str))),
    ("picked/considered", Right, |s| {
        or_dash(s.scheduler.map(|rounds| format!("{}/{}", rounds.picked, rounds.considered)))
    }),
];
