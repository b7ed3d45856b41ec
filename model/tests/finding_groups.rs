// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems grouped by cause.
#![allow(clippy::unwrap_used, reason = "a test")]

use mpwatch_fixtures as fixture;
use mpwatch_model::finding::{Format, Peer, ProblemGroup, Severity, problems_of_report};
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::connection::{Connection, Fallback};
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::id::SocketCookie;
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason, Role};
use mpwatch_model::unit::Micros;
use mpwatch_model::why::answer::{Cause, Certainty, Fix, Place};

fn lines(connections: Vec<Connection>) -> Vec<String> {
    let groups = problems_of_report(&fixture::report(connections));
    groups.iter().map(|group| group.line(&Format::default())).collect()
}

fn entry(micros: i64, event: TimelineEvent) -> TimelineEntry {
    TimelineEntry { at: fixture::at(micros), source: ObservedBy::Tracepoint, event }
}

fn stall(micros: i64, gap: u64) -> TimelineEntry {
    entry(micros, TimelineEvent::Stalled { gap: Micros(gap), timeout: None })
}

fn fallen_back(token: u32, port: u16) -> Connection {
    let mut connection = fixture::connection(token, 1);
    connection.fallback = Some(Fallback { reason: FallbackReason::NoMpCapableInSynAck });
    connection.remote.as_mut().unwrap().set_port(port);
    connection
}

#[test]
fn connections_with_one_cause_and_one_peer_are_one_line() {
    let connections = (1..=24).map(|token| fallen_back(token, 19_931)).collect();
    let why = "fell back to plain TCP: no MP_CAPABLE in the SYN-ACK";
    assert_eq!(
        lines(connections),
        [format!(
            "24 connections of iperf3 to 10.0.1.2:19931 {why} (00000001, 00000002, 00000003 and 21 more)"
        )]
    );
    assert_eq!(
        lines(vec![fallen_back(1, 80), fallen_back(2, 80)]),
        [format!("2 connections of iperf3 to 10.0.1.2:80 {why} (00000001, 00000002)")]
    );
    assert_eq!(lines(vec![fallen_back(1, 80)]), [format!("00000001 (iperf3 to 10.0.1.2:80): {why}")]);
}

#[test]
fn a_cause_is_one_line_for_all_its_peers() {
    let mut other_cause = fallen_back(3, 80);
    other_cause.fallback = Some(Fallback { reason: FallbackReason::NotAttempted });
    let groups = problems_of_report(&fixture::report(vec![
        fallen_back(1, 443),
        fallen_back(2, 80),
        other_cause,
        fallen_back(4, 80),
    ]));
    assert_eq!(groups.iter().map(ProblemGroup::connections).collect::<Vec<_>>(), [3, 1]);
    let begin = "3 connections of iperf3 to 10.0.1.2:443 and 1 other peer fell back";
    assert!(groups[0].line(&Format::default()).starts_with(begin), "{groups:?}");
}

#[test]
fn failures_come_before_warnings_and_frequent_ones_first() {
    let mut connections: Vec<Connection> = (1..=9).map(|token| fallen_back(token, 80)).collect();
    connections.push(fixture::failover(10));
    let mut report = fixture::report(connections);
    report.losses = fixture::losses();
    let groups = problems_of_report(&report);
    let ranks: Vec<_> = groups.iter().map(ProblemGroup::rank).collect();
    assert!(ranks.is_sorted());
    assert_eq!(
        (groups[0].connections(), groups[0].peers.len()),
        (0, 0),
        "data lost is a problem of the host"
    );
    let last = groups.last().unwrap();
    assert_eq!((last.connections(), last.rank().0), (9, Severity::Warning));
}

#[test]
fn failed_paths_are_grouped_by_path_with_their_durations() {
    let connections: Vec<Connection> = (1..=3).map(fixture::failover).collect();
    let of_one = lines(connections[..1].to_vec());
    let lines = lines(connections);
    assert_eq!(lines.len(), of_one.len(), "{lines:#?}");
    let path = "10.0.1.1 -> 10.0.1.2 over eth1";
    assert_eq!(
        lines[0],
        format!(
            "3 connections of iperf3 to 10.0.1.2:5201 lost the path {path}: no acknowledgements, for 6.90 s so far (00000001, 00000002, 00000003)"
        )
    );
}

#[test]
fn outages_are_one_line_with_the_range_of_the_longest() {
    let mut connections: Vec<Connection> = (1..=2).map(fixture::failover).collect();
    connections[1].timeline.push(stall(20_000_000, 1_200_000));
    let begin = "2 connections of iperf3 to 10.0.1.2:5201 had an outage: no path made progress, for";
    let outage = |connections: &[Connection]| {
        lines(connections.to_vec()).into_iter().find_map(|line| line.strip_prefix(begin).map(str::to_owned))
    };
    let ids = "(00000001, 00000002)";
    let range = " 412 ms to 1.20 s, the longest of up to 2 outages each";
    assert_eq!(outage(&connections), Some(format!("{range} {ids}")));
    connections[0].timeline.push(stall(20_000_000, 1_200_000));
    assert_eq!(outage(&connections), Some(format!(" 1.20 s, the longest of 2 outages each {ids}")));
}

#[test]
fn a_path_that_works_again_is_named_with_the_time_in_which_it_did_not_work() {
    let connections = (1..=2).map(|token| {
        let mut connection = fixture::connection(token, 2);
        let subflow = connection.subflows[0].id;
        for (second, stale) in [(4, true), (7, false), (14, true), (27, false)] {
            let event = TimelineEvent::SubflowStale { subflow, stale, silent: None };
            connection.timeline.push(entry(second * 1_000_000, event));
        }
        connection
    });
    let path = "10.0.1.1 -> 10.0.1.2 over eth1: no acknowledgements";
    assert_eq!(
        lines(connections.collect()),
        [format!(
            "2 connections of iperf3 to 10.0.1.2:5201 lost the path {path}, for 16.0 s in 2 intervals each; it works again (00000001, 00000002)"
        )]
    );
}

#[test]
fn extra_subflows_are_summed_up() {
    let connections = (1..=2).map(|token| {
        let mut connection = fixture::connection(token, 3);
        connection.bottlenecks = Some(fixture::bottleneck::shared(&connection.subflows));
        connection
    });
    let what = "have 2 extra subflows behind a shared bottleneck without additional throughput, cost 10.4 J";
    assert_eq!(
        lines(connections.collect()),
        [format!("2 connections of iperf3 to 10.0.1.2:5201 {what} (00000001, 00000002)")]
    );
}

#[test]
fn several_failures_of_one_connection_are_not_several_connections() {
    let mut connection = fixture::closed(1);
    let path =
        (connection.subflows[0].local, connection.subflows[0].remote, connection.subflows[0].interface);
    for subflow in &mut connection.subflows {
        (subflow.local, subflow.remote, subflow.interface) = path;
        subflow.closed.as_mut().unwrap().reason = CloseReason::Timeout;
    }
    let groups = problems_of_report(&fixture::report(vec![connection]));
    let line = groups[0].line(&Format::default());
    assert_eq!(groups[0].connections(), 1);
    assert!(
        line.starts_with("00000001 (iperf3 to 10.0.1.2:5201): path 1 (") && line.contains("; path 2 ("),
        "{line}"
    );
}

#[test]
fn connections_are_grouped_by_their_cause() {
    let cause = Cause {
        id: "no-endpoint".into(),
        sentence: "no endpoint tells the kernel to open a subflow from 10.2.1.1 (eth1)".to_owned(),
        certainty: Certainty::Likely,
        fix: vec![Fix {
            on: Place::Here,
            command: "ip mptcp endpoint add 10.2.1.1 dev eth1 subflow".to_owned(),
        }],
        ..fixture::cause()
    };
    let single = |token: u32, cause: Option<Cause>| {
        let mut connection = fixture::connection(token, 1);
        (connection.flow_class, connection.cause) = (FlowClass::Long, cause.map(Into::into));
        connection
    };
    let mut other = cause.clone();
    other.sentence = "the same of another peer".to_owned();
    let mixed = lines(vec![single(1, Some(cause.clone())), single(2, Some(other))]);
    let why = "are long flows over one path only: no-endpoint (`mpwatch why` explains it)";
    assert!(mixed.len() == 1 && mixed[0].contains(why), "{mixed:#?}");
    let all = vec![single(1, Some(cause.clone())), single(2, None), single(3, Some(cause))];
    let mut found = lines(all.clone());
    found.sort();
    let why = "no endpoint tells the kernel to open a subflow from 10.2.1.1 (eth1) (likely); fix: ip mptcp endpoint add 10.2.1.1 dev eth1 subflow";
    let first = format!(
        "2 connections of iperf3 to 10.0.1.2:5201 are long flows over one path only: {why} (00000001, 00000003)"
    );
    assert!(found.contains(&first), "{found:#?}");
    assert!(found.iter().any(|line| line.contains("(`mpwatch why` explains it)")), "{found:#?}");
    let mut forged = fixture::cause();
    forged.sentence = "a name with \u{1b}[2J".to_owned();
    let line = lines(vec![single(1, Some(forged))]).remove(0);
    assert!(line.contains("a name with \u{fffd}[2J"), "{line}");
    let masked = Format { names: false, ..Format::default() };
    let line = problems_of_report(&fixture::report(all))[0].line(&masked);
    assert!(line.contains("over one path only: no-endpoint (00000001, 00000003)"), "{line}");
}

#[test]
fn a_problem_that_both_ends_have_is_listed_once() {
    let client = fallen_back(1, 80);
    let mut server = client.clone();
    server.id.birth = SocketCookie(77);
    (server.token, server.remote_token) = (client.remote_token, client.token);
    (server.local, server.remote, server.role) = (client.remote, client.local, Some(Role::Server));
    assert_eq!(lines(vec![server.clone(), client.clone()]), lines(vec![client.clone()]));
    let without = Connection { fallback: None, ..client };
    let lines = lines(vec![server, without]);
    assert_eq!(
        lines.len(),
        2,
        "only the server fell back, only the client is a long flow over one path: {lines:#?}"
    );
}

/// Turns `server` into the server's record of this client's connection.
fn other_end(mut server: Connection, client: &Connection) -> Connection {
    server.id.birth = SocketCookie(77);
    (server.token, server.remote_token) = (client.remote_token, client.token);
    (server.local, server.remote, server.role) = (client.remote, client.local, Some(Role::Server));
    for (here, there) in server.subflows.iter_mut().zip(&client.subflows) {
        (here.local, here.remote) = (there.remote, there.local);
    }
    server
}

fn reset(connection: &mut Connection, subflow: usize, reason: CloseReason) {
    let at = connection.closed_at.unwrap() - jiff::SignedDuration::from_secs(3);
    connection.subflows[subflow].closed = Some(Closed { at, reason });
}

#[test]
fn a_reset_is_not_a_failed_path_if_the_other_end_removed_the_subflow() {
    let mut client = fixture::closed(1);
    let mut server = other_end(fixture::closed(1), &client);
    reset(&mut server, 1, CloseReason::ResetReceived);
    let has_failed = |connections: &[&Connection]| {
        let lines = lines(connections.iter().copied().cloned().collect());
        lines.iter().any(|line| line.contains("path 2 ("))
    };
    assert!(has_failed(&[&server]) && has_failed(&[&client, &server]));
    reset(&mut client, 1, CloseReason::RemovedByAdmin);
    assert!(!has_failed(&[&client, &server]));
}

#[test]
fn each_end_has_the_failed_paths_that_only_it_noticed() {
    let client = fixture::failover(1);
    let mut server = other_end(fixture::closed(1), &client);
    for subflow in [0, 1] {
        reset(&mut server, subflow, CloseReason::Timeout);
    }
    let lines = lines(vec![client, server]);
    let of = |path: &str| lines.iter().filter(|line| line.contains(path)).count();
    assert_eq!((of("path 1 ("), of("path 2 (")), (1, 1), "{lines:#?}");
}

/// The receiver of data does not notice a failed path. At the receiver, the subflow ends late.
#[test]
fn a_late_reset_is_not_a_separate_problem_if_the_other_end_lost_the_path() {
    let sender = fixture::failover(1);
    let mut receiver = other_end(fixture::closed(1), &sender);
    let end = receiver.closed_at.unwrap();
    let late = receiver.subflows[0].closed.as_mut().unwrap();
    (late.at, late.reason) = (end + jiff::SignedDuration::from_millis(500), CloseReason::ResetSent);
    let is_late = |lines: &[String]| lines.iter().any(|line| line.contains("did not close with the others"));
    assert!(is_late(&lines(vec![receiver.clone()])));
    let both = lines(vec![sender, receiver]);
    assert!(!is_late(&both) && both[0].contains("path 1 ("), "{both:#?}");
}

#[test]
fn a_peer_has_the_port_of_the_service_only() {
    let mut server = fixture::connection(1, 1);
    server.role = Some(Role::Server);
    (server.local, server.remote) = (server.remote, server.local);
    assert_eq!(Peer::new(&server), Some(Peer::Client([10, 0, 1, 1].into(), 5201)));
    let mut other = fixture::connection(2, 1);
    other.role = Some(Role::Server);
    (other.local, other.remote) = (other.remote, other.local);
    other.remote.as_mut().unwrap().set_port(1);
    assert_eq!(Peer::new(&other), Peer::new(&server));
    let lines = lines(vec![server, other]);
    assert!(
        lines[0].starts_with("2 connections of iperf3 from 10.0.1.1 to port 5201 are long"),
        "{lines:#?}"
    );
}
