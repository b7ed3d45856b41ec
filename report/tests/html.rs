// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file: it makes no request, runs no script, and no name becomes markup.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::observed::Observed;
use mpwatch_model::flow::series::{CounterSample, CounterSeries};
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::unit::{Bytes, Nanos};
use mpwatch_report::comparison::{Comparison, Side};
use mpwatch_report::{html, text};

/// Counters that grow evenly, sampled each second.
fn samples(connections: &[Connection]) -> CounterSeries {
    let mut samples = CounterSeries::new();
    for connection in connections {
        for subflow in &connection.subflows {
            let last = subflow.bytes_sent.0;
            let of_it = (1..=8_u32).map(|second| CounterSample {
                at: fixture::at(0) + SignedDuration::from_secs(second.into()),
                bytes_sent: Bytes(last * u64::from(second) / 12),
                bytes_received: Bytes(0),
                bytes_retransmitted: Bytes(0),
                srtt: subflow.srtt,
                cwnd_segments: 10,
                active: None,
            });
            samples.insert((connection.id, subflow.id), of_it.collect());
        }
    }
    samples
}

fn page(connections: Vec<Connection>) -> String {
    let samples = samples(&connections);
    html::report(&fixture::report(connections), &samples)
}

#[test]
fn a_report_is_one_file_with_drawings() {
    let text =
        page(vec![fixture::closed(0x00c1_05ed), fixture::failover(0x5c11_a0e2), fixture::fallen_back(3)]);
    for outside in
        ["http://", "https://", "<script", "<link", "<img", "url(", "@import", "<iframe", "javascript:"]
    {
        assert!(!text.contains(outside), "the page contains {outside}");
    }
    assert_eq!(text.matches("class=\"lanes\"").count(), 3);
    assert_eq!(
        text.matches("<svg").count(),
        23,
        "lanes for wide and for narrow screens, RTTs, energies and three plots over time of three connections; joules by class and by subflows"
    );
    assert!(text.contains("prefers-color-scheme: dark") && text.contains("@media print"));
    assert!(text.find("path 1").unwrap() < text.find("observed on").unwrap(), "problems come first");
    insta::assert_snapshot!(text);
}

#[test]
fn subflows_that_share_a_bottleneck_have_a_bracket() {
    let mut shared = fixture::closed(1);
    let found = shared.bottlenecks.as_mut().unwrap();
    found.groups = vec![found.groups.concat()];
    let text = page(vec![shared]);
    assert_eq!(
        (text.matches("class=\"bracket\"").count(), text.matches("these subflows share one").count()),
        (2, 4),
        "on wide and on narrow screens; in the caption, in the labels for screen readers and in the saved drawing"
    );
    assert!(!page(vec![fixture::closed(1)]).contains("class=\"bracket\""), "no bottleneck is shared");
}

#[test]
fn no_name_becomes_markup() {
    let evil = Name::from_kernel(*b"<b>\"'&</svg>\0\0\0\0");
    let mut connection = fixture::failover(8);
    connection.process.as_mut().unwrap().comm = evil;
    connection.subflows[0].interface = Some(evil);
    connection.netns = "<script>alert(1)</script>".to_owned();
    connection.cgroup = Some("/\" onload=\"x".to_owned());
    let mut report = fixture::report(vec![connection]);
    report.run.host.name = "</title><script>".to_owned();
    let text = html::report(&report, &CounterSeries::new());
    for tag in ["<script", "<b>", "\" onload", "</svg>\"", "&</svg>"] {
        assert!(!text.contains(tag), "{tag} is not escaped");
    }
    assert_eq!(text.matches("</svg>").count(), text.matches("<svg").count());
}

#[test]
fn many_connections_make_a_file_small_enough_to_mail() {
    let connections: Vec<_> = (1..=10_000).map(|token| fixture::connection(token, 2)).collect();
    let text = html::report(&fixture::report(connections), &CounterSeries::new());
    assert!(text.len() < 1_100_000, "{} bytes", text.len());
}

/// The texts of a class in the drawings of a page, in order.
fn words(text: &str, class: &str) -> Vec<String> {
    let begin = format!("<text class=\"{class}\"");
    let parts = text.split(&begin).skip(1);
    let inside = |part: &str| Some(part.split_once('>')?.1.split_once('<')?.0.to_owned());
    parts.filter_map(inside).collect()
}

#[test]
fn a_drawing_says_when_a_path_failed_and_how_long_the_outage_was() {
    let text = page(vec![fixture::failover(1)]);
    let failures = ["failed at 5.60 s", "failed", "412 ms outage"];
    assert_eq!(words(&text, "failure"), [failures, failures].concat(), "on wide and on narrow screens");
    assert_eq!(words(&text, "name")[..2], ["1 eth1", "2 eth2"]);
    let mut twice = fixture::closed(1);
    let (path, source) = (twice.subflows[0].id, ObservedBy::Tracepoint);
    for (second, stale) in [(2, true), (3, false), (5, true), (9, false)] {
        let event = TimelineEvent::SubflowStale { subflow: path, stale, silent: None };
        twice.timeline.push(TimelineEntry { at: fixture::at(second * 1_000_000), source, event });
    }
    assert_eq!(words(&page(vec![twice]), "failure"), ["failed at 2.00 s to 9.00 s (2 intervals)"; 2]);
    let healthy = page(vec![fixture::closed(1)]);
    assert_eq!(words(&healthy, "failure"), Vec::<String>::new());
    assert!(words(&healthy, "soft").iter().any(|words| words.starts_with("joined at ")), "no joining time");
    assert!(
        words(&healthy, "soft").iter().any(|words| words.starts_with("80.0 MB, 67 %, ")),
        "no payload and share"
    );
}

#[test]
fn many_samples_do_not_make_the_drawing_longer() {
    let week: Vec<_> = (1..=50).map(fixture::closed).collect();
    let mut samples = samples(&week);
    for of_it in samples.values_mut() {
        let first = of_it[0];
        *of_it = (0..60_000_i64)
            .map(|nth| CounterSample {
                at: first.at + SignedDuration::from_micros(nth * 150),
                bytes_sent: Bytes(nth.unsigned_abs() * 700),
                ..first
            })
            .collect();
    }
    let text = html::report(&fixture::report(week), &samples);
    assert!(text.len() < 1_900_000, "{} bytes", text.len());
}

#[test]
fn a_sample_at_the_end_of_the_report_has_a_finite_rate() {
    let open = fixture::connection(1, 1);
    let mut samples = samples(std::slice::from_ref(&open));
    let of_it = samples.values_mut().next().unwrap();
    let end = open.opened_at.unwrap() + SignedDuration::from_secs_f64(open.age_s);
    of_it.retain(|sample| sample.at < end);
    of_it.push(CounterSample { at: end, ..*of_it.last().unwrap() });
    let text = html::report(&fixture::report(vec![open]), &samples);
    assert!(text.contains("<svg") && !text.contains("NaN") && !text.contains("inf"), "{text}");
}

/// The files that the links of a page save: names with their decoded content.
fn saved(text: &str) -> Vec<(String, String)> {
    let links = text.split("<a download=\"").skip(1);
    links
        .map(|link| {
            let (name, rest) = link.split_once('"').unwrap();
            let uri = rest.split_once("href=\"data:").unwrap().1.split_once('"').unwrap().0;
            let content = uri.split_once(',').unwrap().1;
            let mut parts = content.split('%');
            let mut bytes = parts.next().unwrap().as_bytes().to_vec();
            for part in parts {
                bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
                bytes.extend(part[2..].bytes());
            }
            (name.to_owned(), String::from_utf8(bytes).unwrap())
        })
        .collect()
}

#[test]
fn every_plot_can_be_saved_with_its_data() {
    let text = page(vec![fixture::closed(1), fixture::connection(2, 1)]);
    let files = saved(&text);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for plot in [
        "energy-by-subflows",
        "throughput-00000001",
        "smoothed-rtt-00000001",
        "cwnd-00000002",
        "rtt-00000001",
    ] {
        for extension in ["svg", "csv"] {
            assert!(
                names.contains(&format!("{plot}.{extension}").as_str()),
                "{plot}.{extension} in {names:?}"
            );
        }
    }
    let figures = |class: &str| text.matches(&format!("<figure class=\"{class}\"")).count();
    let (plots, lanes) = (figures("plot") + figures("ranges"), figures("lanes"));
    assert_eq!((plots * 2 + lanes, lanes), (files.len(), 2), "{names:?}");
    for (name, content) in &files {
        if content.starts_with("<svg") {
            assert!(content.contains("xmlns='http://www.w3.org/2000/svg'") && content.ends_with("</svg>"));
            assert!(!content.contains("var(--"), "{name}");
        } else {
            assert!(content.lines().count() > 1, "{name}: {content}");
        }
    }
    assert!(names.contains(&"lanes-00000001.svg"), "{names:?}");
    let window = files.iter().find(|(name, _)| name == "cwnd-00000001.csv").unwrap();
    assert_eq!(window.1.lines().take(2).collect::<Vec<_>>(), ["subflow,time_s,cwnd_segments", "1 eth1,1,10"]);
}

#[test]
fn a_bar_counts_the_connections_whose_energy_is_known() {
    let mut unknown = fixture::closed(9);
    unknown.energy = None;
    let text = page(vec![fixture::closed(1), unknown, fixture::connection(2, 3)]);
    let files = saved(&text);
    let (_, bars) = files.iter().find(|(name, _)| name == "energy-by-subflows.csv").unwrap();
    let rows: Vec<&str> = bars.lines().collect();
    assert_eq!(rows[0], "subflows,connections,j_per_gb,low,high");
    assert!(rows[1].starts_with("2 subflows,1,77.9") && rows[2].starts_with("3 subflows,1,77.9"), "{bars}");
}

#[test]
fn both_ends_of_a_connection_are_one_section() {
    let client = fixture::closed(1);
    let mut server = client.clone();
    server.id.birth.0 += 5_000;
    (server.token, server.remote_token) = (client.remote_token, client.token);
    (server.local, server.remote, server.role) = (client.remote, client.local, Some(Role::Server));
    let text = page(vec![server, client]);
    assert_eq!(text.matches("<section>").count(), 1);
    assert!(text.contains("<summary>Other end: connection 1001-00000001-1389 "), "the other end is folded");
    assert!(text.contains("<dt>both ends</dt><dd>of 1 connection: "));
    assert!(text.contains("1 of 1 connection used MPTCP"));
    assert!(
        text.contains("<dt>mptcp cost</dt><dd>1 connection, 120 MB of observed payload: 3.91 s of CPU time")
    );
}

#[test]
fn small_connections_without_a_problem_are_folded() {
    let mut small = fixture::closed(7);
    (small.bytes_sent, small.bytes_received) = (Some(Bytes(800)), Some(Bytes(21)));
    small.flow_class = FlowClass::Query;
    let mut connections = vec![small];
    connections.extend((10..20).map(fixture::closed));
    let text = page(connections);
    assert_eq!(text.matches("<section>\n<h2>").count(), 6, "the first connections are not folded");
    assert_eq!(text.matches("<section class=\"folded\">\n<details><summary>connection ").count(), 4);
    assert!(text.contains("<summary>1 more connection</summary>"), "the small connection is behind a line");
}

#[test]
fn unknown_values_are_not_drawn() {
    let mut connection = fixture::connection(1, 1);
    (connection.opened_at, connection.energy) = (None, None);
    connection.timeline.clear();
    let subflow = &mut connection.subflows[0];
    (subflow.rtt_p50, subflow.rtt_p99, subflow.energy, subflow.interface) = (None, None, None, None);
    assert!(!html::report(&fixture::report(vec![connection]), &CounterSeries::new()).contains("<svg"));
    assert!(
        html::report(&fixture::report(Vec::new()), &CounterSeries::new()).contains("no connection was seen")
    );
}

#[test]
fn a_comparison_is_one_file_with_its_plots() {
    let report = |factor: f64| {
        let slower = |token: u32| {
            let flow = fixture::closed(token);
            let age_s = flow.age_s * factor * (1.0 + f64::from(token % 7) / 50.0);
            let duration = Nanos(Duration::from_secs_f64(age_s).as_nanos().try_into().unwrap());
            let observed = flow.observed.map(|observed| Observed { duration, ..observed });
            Connection { age_s, observed, ..flow }
        };
        fixture::report((1..=20).map(slower).collect())
    };
    let (before, after) = (report(1.0), report(0.8));
    let (a, b) = (Side { name: "before.db", report: &before }, Side { name: "<after>.db", report: &after });
    let found = Comparison::new(a, b);
    let text = html::comparison(a, b, &found);
    for outside in ["http://", "https://", "<script", "<link", "<img", "url(", "<after>"] {
        assert!(!text.contains(outside), "the page contains {outside}");
    }
    assert!(text.contains("<li class=\"better\">completion time: B is 20 % ("), "{text}");
    let files: Vec<String> = saved(&text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        files,
        [
            "differences-long.svg",
            "differences-long.csv",
            "completion-times-long.svg",
            "completion-times-long.csv"
        ]
    );
    insta::assert_snapshot!("comparison", text::comparison(a, b, &found, 100));
}
