// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goldens of the text forms. Read a changed golden as a user would, then accept it with INSTA_UPDATE=always.

use insta::assert_snapshot;
use mpwatch_exporters::text;
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::endpoint::Name;
use mpwatch_model::fixture;
use mpwatch_model::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::unit::{Bytes, Micros};

#[test]
fn a_good_run_is_reported_in_full() {
    assert_snapshot!(text::report(&fixture::report(vec![fixture::closed(0x00c1_05ed)])));
}

#[test]
fn what_went_wrong_stands_first() {
    let connections =
        vec![fixture::closed(0x00c1_05ed), fixture::failover(0x5c11_a0e2), fixture::fallen_back(0x0fa1_1bac)];
    let mut report = fixture::report(connections);
    report.losses = fixture::losses();
    report.run.host.missing.push(fixture::missing_hook());
    report.counters.mapping_problems.bad_checksum = 2;
    assert_snapshot!(text::report(&report));
}

#[test]
fn a_connection_that_only_receives_speaks_mptcp() {
    let mut adopted = fixture::connection(1, 2);
    for subflow in &mut adopted.subflows {
        (subflow.handshake, subflow.bytes_acked, subflow.bytes_sent) = (None, Bytes(0), Bytes(0));
    }
    let told = text::report(&fixture::report(vec![adopted]));
    assert!(told.contains("1 of 1 connection used more than one path (1 spoke MPTCP)"), "{told}");
}

#[test]
fn an_empty_run_says_so() {
    assert_snapshot!(text::report(&fixture::report(Vec::new())));
}

#[test]
fn one_connection_is_shown() {
    assert_snapshot!(text::connection(&fixture::connection(0x9f3c_0a1b, 4)));
}

#[test]
fn a_list_has_a_line_for_each_connection() {
    let connections = vec![
        fixture::connection(0x9f3c_0a1b, 2),
        fixture::closed(0x00c1_05ed),
        fixture::fallen_back(0x0fa1_1bac),
    ];
    assert_snapshot!(text::list(&fixture::snapshot(connections)));
    assert_eq!(text::list(&fixture::snapshot(Vec::new())).lines().count(), 1);
}

#[test]
fn every_metric_that_the_text_names_is_in_the_table() {
    assert!(!text::connection(&fixture::failover(1)).contains('?'));
}

#[test]
fn a_fleet_is_reported_in_a_bounded_number_of_lines() {
    let mut connections: Vec<_> = (1..=400).map(|token| fixture::connection(token, 1)).collect();
    connections.extend((401..=430).map(fixture::failover));
    let text = text::report(&fixture::report(connections));
    assert!(text.contains("... and 390 more like these"), "{text}");
    assert!(text.contains("380 smaller connections with 30.4 GB of payload"), "{text}");
    assert!(text.lines().count() < 2_000);
    assert_eq!(text.matches("\nconnection 1001-").count(), 50);
    assert_eq!(
        text.matches("stale (").count() + text.matches(", but stale").count(),
        30,
        "those in trouble come first"
    );
}

#[test]
fn a_shared_bottleneck_is_told_in_a_sentence() {
    let mut connection = fixture::connection(7, 3);
    let found = fixture::bottleneck::shared(&connection.subflows);
    (connection.extra_subflows, connection.bottlenecks) = (found.extra_subflows(), Some(found));
    let told =
        "subflows 2 and 3 share a bottleneck with 1 since 1.75 s (p 0.98): they add no throughput, carried";
    let text = text::report(&fixture::report(vec![connection]));
    assert!(text.contains(&format!("! 00000007: {told}")), "{text}");
    assert!(text.contains(&format!("bottleneck  {told}")), "{text}");
}

#[test]
fn a_shared_cap_is_told_in_a_sentence() {
    let mut connection = fixture::connection(7, 2);
    connection.bottlenecks = Some(fixture::bottleneck::capped(&connection.subflows));
    let told = text::connection(&connection);
    let sentence = "bottleneck  subflows 1 and 2 share a cap of 48.1 Mbit/s since 4.25 s, without a common queue: what one gets the others lose\n";
    assert!(told.contains(sentence), "{told}");
}

#[test]
fn a_probability_in_text_is_that_of_json() {
    let mut connection = fixture::connection(7, 3);
    let mut found = fixture::bottleneck::disjoint(&connection.subflows);
    for (pair, probability) in found.pairs.iter_mut().zip([0.004, 0.03, 0.01]) {
        pair.probability = Some(probability);
    }
    connection.bottlenecks = Some(found);
    let told = text::connection(&connection);
    assert!(told.contains("no two subflows share a bottleneck since 1.75 s (p of sharing 0.03)"), "{told}");
}

#[test]
fn another_method_than_the_usual_one_is_named() {
    let mut connection = fixture::connection(7, 2);
    let mut found = fixture::bottleneck::disjoint(&connection.subflows);
    found.method = DetectionMethod::Rfc8382;
    connection.bottlenecks = Some(found);
    let text = text::connection(&connection);
    assert!(text.contains("bottleneck  judged by rfc8382: no two subflows share a bottleneck"), "{text}");
}

#[test]
fn several_gaps_are_one_line() {
    let mut connection = fixture::connection(7, 2);
    for (at, gap) in [(1_000_000, 250_000), (2_000_000, 900_000)] {
        let what = TimelineEvent::Stalled { gap: Micros(gap) };
        connection.timeline.push(TimelineEntry {
            at: fixture::at(at),
            source: ObservedBy::Tracepoint,
            event: what,
        });
    }
    let text = text::report(&fixture::report(vec![connection]));
    assert!(
        text.contains("! 00000007: no path made progress for 900 ms from +2.000000 s on; 2 such gaps in all"),
        "{text}"
    );
}

#[test]
fn no_name_can_steer_the_terminal() {
    let mut connection = fixture::failover(8);
    let evil = Name::from_kernel(*b"\x1b[2J\nfake\0\0\0\0\0\0\0");
    connection.process.as_mut().expect("the fixture has a process").comm = evil;
    connection.subflows[0].interface = Some(evil);
    (connection.netns, connection.cgroup) = ("a\rb".to_owned(), Some("/\x1b]0;x\x07".to_owned()));
    let mut report = fixture::report(vec![connection]);
    (report.run.host.name, report.run.host.kernel) = ("\x1bx".to_owned(), "6\x07".to_owned());
    let list = text::list(&fixture::snapshot(report.connections.clone()));
    let all = text::report(&report) + &list;
    assert!(!all.chars().any(|letter| letter.is_control() && letter != '\n'), "{all:?}");
    assert!(all.lines().all(|line| !line.starts_with("fake")));
}
