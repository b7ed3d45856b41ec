// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as one HTML file: it makes no request, runs no script, and no name becomes markup.
#![allow(clippy::unwrap_used, reason = "a test")]

use jiff::SignedDuration;
use mpwatch_exporters::html;
use mpwatch_fixtures as fixture;
use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::Name;
use mpwatch_model::series::{CounterSample, CounterSeries};
use mpwatch_model::unit::Bytes;

/// Counters of each second, growing evenly.
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
        assert!(!text.contains(outside), "{outside} is in it");
    }
    assert_eq!(text.matches("class=\"lanes\"").count(), 3);
    assert_eq!(
        text.matches("<svg").count(),
        12,
        "lanes for wide and for narrow screens, RTTs and energies of three connections"
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
        (text.matches("class=\"bracket\"").count(), text.matches("these share one bottleneck").count()),
        (2, 3),
        "on wide and on narrow screens; in the caption and in the labels for screen readers"
    );
    assert!(!page(vec![fixture::closed(1)]).contains("class=\"bracket\""), "each has one of its own");
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
        assert!(!text.contains(tag), "{tag} came through");
    }
    assert_eq!(text.matches("</svg>").count(), text.matches("<svg").count());
}

#[test]
fn many_connections_make_a_file_small_enough_to_mail() {
    let connections: Vec<_> = (1..=10_000).map(|token| fixture::connection(token, 2)).collect();
    let text = html::report(&fixture::report(connections), &CounterSeries::new());
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
}

/// Texts of the drawings of a page, in order.
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
    let healthy = page(vec![fixture::closed(1)]);
    assert_eq!(words(&healthy, "failure"), Vec::<String>::new());
    assert!(words(&healthy, "soft").iter().any(|words| words.starts_with("joined at ")), "the second path");
    assert!(
        words(&healthy, "soft").iter().any(|words| words.starts_with("80.0 MB, 67 %, ")),
        "and its energy"
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
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
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
