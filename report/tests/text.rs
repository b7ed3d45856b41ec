// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden files of the text reports. Read a changed file as a user would, then regenerate it with INSTA_UPDATE=always.

use insta::assert_snapshot;
use mpwatch_fixtures as fixture;
use mpwatch_model::host::energy::{EnergySource, FlowEnergy, IdleSource, SnapshotEnergy};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_report::text;

#[test]
fn a_good_run_is_reported_in_full() {
    assert_snapshot!(text::report(&fixture::report(vec![fixture::closed(0x00c1_05ed)])));
}

#[test]
fn problems_come_first() {
    let connections =
        vec![fixture::closed(0x00c1_05ed), fixture::failover(0x5c11_a0e2), fixture::fallen_back(0x0fa1_1bac)];
    let mut report = fixture::report(connections);
    report.losses = fixture::losses();
    report.run.host.missing.push(fixture::missing_hook());
    report.counters.mapping_problems.bad_checksum = 2;
    assert_snapshot!(text::report(&report));
    assert!(text::report(&report).contains("DSS checksum failures"));
    report.is_of_namespace = true;
    let text = text::report(&report);
    assert!(!text.contains("DSS checksum failures"), "they may be errors of other namespaces: {text}");
}

#[test]
fn a_connection_that_only_receives_uses_mptcp() {
    let mut receiving = fixture::connection(1, 2);
    for subflow in &mut receiving.subflows {
        (subflow.handshake, subflow.bytes_acked, subflow.bytes_sent) = (None, Bytes(0), Bytes(0));
    }
    let text = text::report(&fixture::report(vec![receiving]));
    assert!(text.contains("1 of 1 connection used MPTCP, 1 had more than one subflow, "), "{text}");
}

#[test]
fn a_time_between_two_runs_is_not_called_complete() {
    let mut connection = fixture::closed(1);
    connection.observed.iter_mut().for_each(|observed| observed.duration = Nanos(1_000_000_000));
    connection.age_s = 4.125;
    let text = text::report(&fixture::report(vec![connection]));
    assert!(text.contains("MPWATCH WAS NOT RUNNING DURING PART OF 1 connection"), "{text}");
    assert!(text.contains("3.12 s not observed because mpwatch was not running"), "{text}");
    assert!(!text.contains("records are complete"), "{text}");
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
fn every_metric_that_the_text_names_is_in_the_table() {
    assert!(!text::connection(&fixture::failover(1)).contains('?'));
}

#[test]
fn a_report_of_many_connections_has_a_bounded_number_of_lines() {
    let mut connections: Vec<_> = (1..=400).map(|token| fixture::connection(token, 1)).collect();
    connections.extend((401..=430).map(fixture::failover));
    let text = text::report(&fixture::report(connections));
    let single = "400 connections of iperf3 to 10.0.1.2:5201 are long flows over one path only: no second subflow joined";
    assert!(text.contains(single), "{text}");
    assert!(
        text.contains(
            "! 30 connections of iperf3 to 10.0.1.2:5201 lost the path 10.0.1.1 -> 10.0.1.2 over eth1: "
        ),
        "{text}"
    );
    assert!(text.contains("(00000191, 00000192, 00000193 and 27 more)"), "{text}");
    assert!(text.contains("\n20 more connections\n"), "{text}");
    assert!(text.contains("360 smaller connections with 28.8 GB of payload"), "{text}");
    assert!(text.lines().count() < 2_000);
    assert_eq!(text.matches("\nconnection 1001-").count(), 50);
    assert_eq!(text.matches("open, but failed").count(), 30, "connections with problems come first");
}

#[test]
fn problems_with_many_peers_are_limited_and_counted() {
    let mut connections: Vec<_> = (1..=60).map(|token| fixture::connection(token, 1)).collect();
    for (connection, port) in connections.iter_mut().zip(0_u16..) {
        connection.remote.as_mut().unwrap().set_port(8_000 + port / 3);
    }
    // Each of these connections has lost a different path.
    connections.extend((61..=80).map(|token| {
        let mut flow = fixture::failover(token);
        flow.subflows[0].local = format!("10.9.0.{token}:80").parse().unwrap();
        flow
    }));
    let text = text::report(&fixture::report(connections));
    let all = "! 60 connections of iperf3 to 10.0.1.2:8000 and 19 other peers are long flows";
    assert!(text.contains(all), "{text}");
    assert!(text.contains("! ... and 11 more like these, of 11 connections\n"), "{text}");
}

#[test]
fn a_shared_bottleneck_is_a_problem_and_a_fact_of_its_connection() {
    let mut connection = fixture::connection(7, 3);
    let found = fixture::bottleneck::shared(&connection.subflows);
    (connection.extra_subflows, connection.bottlenecks) = (found.extra_subflows(), Some(found));
    let sentence = "subflows 1, 2 and 3 share one bottleneck since +1.75 s (probability 0.98): 2 extra subflows add no throughput";
    let text = text::report(&fixture::report(vec![connection]));
    assert!(text.contains(&format!("! 00000007 (iperf3 to 10.0.1.2:5201): {sentence}")), "{text}");
    assert!(text.contains(&format!("bottleneck     {sentence}")), "{text}");
}

#[test]
fn without_a_shared_bottleneck_the_highest_probability_of_sharing_is_shown() {
    let mut connection = fixture::connection(7, 3);
    let mut found = fixture::bottleneck::disjoint(&connection.subflows);
    for (pair, probability) in found.pairs.iter_mut().zip([0.004, 0.03, 0.01]) {
        pair.probability = Some(probability);
    }
    connection.bottlenecks = Some(found);
    let text = text::connection(&connection);
    let sentence = "no two subflows share a bottleneck since +1.75 s (probability of sharing 0.03)";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn no_name_can_control_the_terminal() {
    let mut connection = fixture::failover(8);
    let evil = Name::from_kernel(*b"\x1b[2J\nfake\0\0\0\0\0\0\0");
    connection.process.as_mut().expect("the fixture has a process").comm = evil;
    connection.subflows[0].interface = Some(evil);
    (connection.netns, connection.cgroup) = ("a\rb".to_owned(), Some("/\x1b]0;x\x07".to_owned()));
    let mut report = fixture::report(vec![connection]);
    (report.run.host.name, report.run.host.kernel) = ("\x1bx".to_owned(), "6\x07".to_owned());
    report.run.cut_short = Some("unknown variant \x1b]0;x\x07".to_owned());
    let text = text::report(&report);
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("fake")));
}

#[test]
fn without_idle_power_energy_has_only_bounds() {
    let unknown =
        |energy: FlowEnergy| FlowEnergy { active: None, j_per_gb: None, idle: IdleSource::Unknown, ..energy };
    let mut flow = fixture::closed(0x00c1_05ed);
    flow.energy = flow.energy.map(unknown);
    flow.subflows.iter_mut().for_each(|subflow| subflow.energy = subflow.energy.map(unknown));
    let text = text::report(&fixture::report(vec![flow]));
    let line = text.lines().find(|line| line.contains("above idle")).unwrap();
    assert!(line.contains("above idle not known [") && line.contains("idle not known)"), "{line}");
    assert!(!text.contains("J/GB,") && !line.contains(" W,"), "{text}");
}

#[test]
fn a_connection_that_fell_back_is_not_called_mptcp() {
    let text = text::report(&fixture::report(vec![fixture::fallen_back(0x0fa1_1bac)]));
    assert!(text.contains("0 of 1 connection used MPTCP (1 fell back to TCP), "), "{text}");
    assert!(text.contains("server  fallback to TCP  "), "{text}");
    assert!(text.contains("\n  fallback to TCP query "), "{text}");
    assert!(text.contains("\nfallback to TCP cost") && !text.contains(" mptcp"), "{text}");
}

#[test]
fn a_filter_that_matches_nothing_says_how_many_connections_there_are() {
    let mut report = fixture::report(Vec::new());
    report.filtered_out = 3;
    let text = text::report(&report);
    assert!(
        text.starts_with("mpwatch: none of 3 connections matches the filter (--filter, --netns)\n"),
        "{text}"
    );
}

#[test]
fn a_subflow_that_outlives_its_connection_is_explained() {
    let mut flow = fixture::closed(1);
    assert!(!text::connection(&flow).contains("until its MPTCP socket closed"));
    flow.subflows[0].closed.as_mut().unwrap().at = fixture::at(14_250_000);
    let text = text::connection(&flow);
    let why = "lasted 12.0 s until its MPTCP socket closed; TCP closed the last subflow at +14.25 s";
    assert!(text.contains(why), "{text}");
}

#[test]
fn the_model_estimates_idle_energy_too() {
    let mut flow = fixture::closed(1);
    let modelled =
        |energy: FlowEnergy| FlowEnergy { source: EnergySource::Model, idle: IdleSource::Unknown, ..energy };
    flow.energy = flow.energy.map(modelled);
    let mut report = fixture::report(vec![flow]);
    report.energy = report.energy.map(|energy| SnapshotEnergy {
        source: EnergySource::Model,
        idle: IdleSource::Unknown,
        ..energy
    });
    let text = text::report(&report);
    assert!(text.contains("188 J idle") && !text.contains("idle not known"), "{text}");
}

#[test]
fn a_report_on_a_terminal_fits_its_width() {
    let connections = vec![
        fixture::connection(0x9f3c_0a1b, 2),
        fixture::failover(0x5c11_a0e2),
        fixture::fallen_back(0x0fa1_1bac),
        fixture::closed(0x00c1_05ed),
        fixture::connection(5, 3),
        fixture::connection(6, 2),
    ];
    let report = fixture::report(connections);
    for width in [60, 80, 120] {
        for written in [text::report_within(&report, width), text::report_summary(&report, width)] {
            let too_wide: Vec<&str> = written.lines().filter(|line| line.chars().count() > width).collect();
            assert!(too_wide.is_empty(), "{width}: {too_wide:#?}");
        }
    }
    assert_snapshot!("report_within_80", text::report_within(&report, 80));
    assert_snapshot!("report_summary_80", text::report_summary(&report, 80));
}
