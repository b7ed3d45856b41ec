// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Prometheus metrics: as described in METRICS.md, valid by promtool, with a bounded number of series, and counters never decrease.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use mpwatch_exporters::prometheus::{Settings, Totals, described, expose};
use mpwatch_model::connection::Connection;
use mpwatch_model::energy::{OverlappingZone, SnapshotEnergy};
use mpwatch_model::fixture;
use mpwatch_model::service::{DaemonProcess, Service, StoreState};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Microjoules, Micros, Nanos};
use mpwatch_tests::skip;

/// Values of series, by name with labels.
type Series = BTreeMap<String, f64>;

fn service() -> Service {
    Service {
        ticks: 1,
        config_ok: true,
        config_read_at: Some(fixture::at(0)),
        readers: Some(0),
        frames_dropped: Some(0),
        scrape_took: Some(Nanos(1)),
        process: DaemonProcess {
            cpu: Some(Nanos(1)),
            resident: Some(Bytes(1)),
            mapped: Some(Bytes(1)),
            open_files: Some(1),
            most_files: Some(1),
            threads: Some(1),
            started_at: Some(fixture::at(0)),
        },
        store: Some(StoreState::default()),
        ..Service::default()
    }
}

/// An exporter that gets one snapshot per second.
struct Exporter {
    totals: Totals,
    at: Timestamp,
    latest: Snapshot,
}

impl Exporter {
    fn new(top_flows: usize) -> Self {
        Self {
            totals: Totals::new(Settings { top_flows }),
            at: fixture::at(0),
            latest: fixture::snapshot(Vec::new()),
        }
    }

    fn tick(&mut self, connections: Vec<Connection>) -> String {
        self.at += SignedDuration::from_secs(1);
        self.latest = Snapshot { at: self.at, ..fixture::snapshot(connections) };
        self.totals.take(&self.latest);
        self.text()
    }

    fn text(&self) -> String {
        expose(&self.latest, &self.totals.figures(), &service()).unwrap()
    }
}

fn series(text: &str) -> Series {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse::<f64>().expect("a number"))
    });
    let all: Vec<_> = parsed.collect();
    let by_name: Series = all.iter().cloned().collect();
    assert_eq!(all.len(), by_name.len(), "a series is listed twice: {text}");
    by_name
}

fn sum(series: &Series, family: &str) -> f64 {
    let is_of = |name: &str| name.split('{').next() == Some(family);
    series.iter().filter(|(name, _)| is_of(name)).map(|(_, value)| value).sum()
}

/// Connections with different peers.
fn connections(count: u32) -> Vec<Connection> {
    let one = |n: u32| {
        let mut connection = fixture::connection(n + 1, 2);
        let [_, b, c, d] = n.to_be_bytes();
        connection.remote = Some(SocketAddr::from(([10, b, c, d], 5201)));
        connection
    };
    (0..count).map(one).collect()
}

#[test]
fn all_metrics_are_described_in_metrics_md() {
    let mut exporter = Exporter::new(10);
    let kinds =
        vec![fixture::connection(1, 2), fixture::closed(2), fixture::failover(3), fixture::fallen_back(4)];
    exporter.tick(kinds);
    exporter.latest.host.missing.push(fixture::missing_hook());
    let shown = vec![OverlappingZone { zone: "psys".to_owned(), zone_uj: Microjoules(1) }];
    let energy = exporter.latest.energy.take().unwrap();
    exporter.latest.energy = Some(SnapshotEnergy { shown, ..energy });
    let text = exporter.text();
    let in_output: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let sections = described();
    let described: BTreeSet<&str> =
        sections.iter().flat_map(|section| &section.metrics).map(|metric| metric.name.as_str()).collect();
    let missing: Vec<_> = described.difference(&in_output).collect();
    let undescribed: Vec<_> = in_output.difference(&described).collect();
    assert!(missing.is_empty(), "described, but not exported: {missing:?}");
    assert!(undescribed.is_empty(), "exported, but not described: {undescribed:?}");
}

#[test]
fn promtool_accepts_the_metrics() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("promtool is missing; it is in Debian's package `prometheus`");
        return;
    }
    for (count, top_flows) in [(0, 0), (1, 0), (1, 5), (10_000, 0), (10_000, 50)] {
        let text = Exporter::new(top_flows).tick(connections(count));
        let mut child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let messages = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && messages.is_empty(), "at {count} flows: {messages}");
    }
}

#[test]
fn counters_do_not_decrease_when_flows_end() {
    let mut exporter = Exporter::new(1);
    let first = series(&exporter.tick(connections(3)));
    let carried: f64 = connections(3).iter().map(|c| c.bytes_sent.unwrap().0 as f64).sum();
    assert_eq!(first["mpwatch_host_sent_bytes_total"].to_bits(), carried.to_bits());
    let mut previous = first;
    for left in [2, 0, 0, 1] {
        let now = series(&exporter.tick(connections(left)));
        for (name, value) in previous.iter().filter(|(name, _)| name.contains("_total")) {
            let is_per_flow = name.contains("connection=") && !name.contains("__other__");
            assert!(
                is_per_flow || now.get(name).is_some_and(|now| now >= value),
                "{name} decreased from {value}"
            );
        }
        previous = now;
    }
    // The connection had disappeared before, so it counts as a new one.
    let expected = carried + connections(1)[0].bytes_sent.unwrap().0 as f64;
    assert_eq!(previous["mpwatch_host_sent_bytes_total"].to_bits(), expected.to_bits());
}

#[test]
fn bytes_that_a_connection_sent_before_the_daemon_started_are_not_counted() {
    let mut exporter = Exporter::new(0);
    let mut old = fixture::connection(1, 1);
    (old.seen_open, old.opened_at, old.subflows[0].created_at) = (false, None, None);
    let first = series(&exporter.tick(vec![old.clone()]));
    assert_eq!(first["mpwatch_host_sent_bytes_total"].to_bits(), 0_f64.to_bits());
    assert!(first["mpwatch_host_active_joules_total"] > 0.0, "energy is measured from the start");
    old.bytes_sent = Some(old.bytes_sent.unwrap() + Bytes(1_000));
    let then = series(&exporter.tick(vec![old]));
    assert_eq!(then["mpwatch_host_sent_bytes_total"].to_bits(), 1_000_f64.to_bits());
}

#[test]
fn the_number_of_series_does_not_grow_with_the_number_of_flows() {
    let series_at = |flows: u32| series(&Exporter::new(20).tick(connections(flows))).len();
    let (few, many) = (series_at(200), series_at(10_000));
    assert_eq!(few, many);
    assert!(many < 10_000, "{many} series");
    let by_default = series(&Exporter::new(0).tick(connections_with_cgroups(10_000))).len();
    assert!(by_default < 3_500, "{by_default} series; docs/runbook.md states the bound");
    let none = Exporter::new(0).tick(connections(200));
    assert!(!none.contains("connection=\""), "there are no series of single flows by default");
}

#[test]
fn the_largest_flows_and_the_remainder_sum_to_the_total() {
    let mut exporter = Exporter::new(5);
    for count in [3, 50, 20] {
        let series = series(&exporter.tick(connections(count)));
        for counter in ["sent_bytes_total", "received_bytes_total", "retransmitted_bytes_total"] {
            let total = series[&format!("mpwatch_host_{counter}")];
            for subject in ["connection", "peer", "cgroup"] {
                let parts = sum(&series, &format!("mpwatch_{subject}_{counter}"));
                assert_eq!(parts.to_bits(), total.to_bits(), "{subject} {counter} at {count}");
            }
            let by_interface = sum(&series, &format!("mpwatch_interface_{counter}"));
            let by_subflow = sum(&series, &format!("mpwatch_subflow_{counter}"));
            assert_eq!(by_interface.to_bits(), by_subflow.to_bits(), "subflow {counter} at {count}");
        }
    }
}

#[test]
fn the_parts_of_a_zone_sum_to_it() {
    let series = series(&Exporter::new(0).tick(Vec::new()));
    let whole = series["mpwatch_zone_joules_total{zone=\"package-0\"}"];
    let parts = sum(&series, "mpwatch_zone_part_joules_total");
    assert!((parts - whole).abs() < 1e-6, "{parts} is not {whole}");
}

#[test]
fn unknown_values_have_no_series() {
    let mut exporter = Exporter::new(5);
    let mut unknown = fixture::connection(1, 1);
    (unknown.energy, unknown.cpu) = (None, None);
    unknown.subflows.iter_mut().for_each(|s| (s.energy, s.cpu, s.srtt) = (None, None, None));
    exporter.tick(vec![unknown]);
    (exporter.latest.energy, exporter.latest.cpus) = (None, None);
    // The CPU time of the daemon itself is always known.
    let text = exporter.text().replace("process_cpu_seconds", "");
    for part_of_name in ["joules", "cpu_seconds", "cpu_account", "_srtt_", "energy_info"] {
        assert!(!text.contains(part_of_name), "{part_of_name} in {text}");
    }
}

/// Upper bounds and counts of a histogram, by family.
fn buckets(series: &Series, family: &str) -> Vec<(f64, f64)> {
    let bucket = |(name, count): (&String, &f64)| {
        let bound = name.strip_prefix(family)?.strip_prefix("_bucket{le=\"")?.strip_suffix("\"}")?;
        Some((bound.parse().unwrap(), *count))
    };
    let mut all: Vec<(f64, f64)> = series.iter().filter_map(bucket).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

#[test]
fn a_closed_connection_is_counted_once_in_every_histogram() {
    let mut exporter = Exporter::new(0);
    let duration = "mpwatch_host_flow_duration_seconds";
    let open = series(&exporter.tick(vec![fixture::connection(2, 2)]));
    assert_eq!(sum(&open, &format!("{duration}_count")).to_bits(), 0_f64.to_bits());
    let closed = fixture::closed(2);
    let size = (closed.bytes_sent.unwrap() + closed.bytes_received.unwrap()).0 as f64;
    let age = closed.age_s;
    // A closed connection is in two snapshots.
    exporter.tick(vec![closed.clone()]);
    let then = series(&exporter.tick(vec![closed]));
    assert_eq!(then[&format!("{duration}_sum")].to_bits(), age.to_bits());
    assert_eq!(then["mpwatch_host_flow_size_bytes_sum"].to_bits(), size.to_bits());
    let all = buckets(&then, duration);
    assert!(all.len() > 5 && all.last().unwrap().0.is_infinite(), "{all:?}");
    for (bound, count) in all {
        assert_eq!(count > 0.5, age <= bound, "{count} up to {bound}, its age is {age}");
    }
}

#[test]
fn the_rtt_histogram_counts_only_new_samples() {
    let mut exporter = Exporter::new(0);
    let mut connection = fixture::connection(1, 1);
    connection.subflows[0].rtt = Some(Micros(300));
    connection.subflows[0].rtt_samples = 7;
    let count = |text: String| series(&text)["mpwatch_host_rtt_seconds_count"];
    let once = count(exporter.tick(vec![connection.clone()]));
    let idle = count(exporter.tick(vec![connection.clone()]));
    connection.subflows[0].rtt_samples = 9;
    let again = count(exporter.tick(vec![connection.clone()]));
    connection.subflows[0].rtt_samples = 11;
    connection.subflows[0].rtt = None;
    let unknown = count(exporter.tick(vec![connection]));
    assert_eq!([once, idle, again, unknown].map(f64::to_bits), [1.0_f64, 1.0, 2.0, 2.0].map(f64::to_bits));
    let text = exporter.text();
    let all = series(&text);
    assert_eq!(all["mpwatch_host_rtt_seconds_bucket{le=\"0.00025\"}"].to_bits(), 0_f64.to_bits());
    assert_eq!(all["mpwatch_host_rtt_seconds_bucket{le=\"0.0005\"}"].to_bits(), 2_f64.to_bits());
}

/// Connections with different peers and control groups. The control group of the first one is unknown.
fn connections_with_cgroups(count: u32) -> Vec<Connection> {
    let mut all = connections(count);
    for (n, connection) in all.iter_mut().enumerate() {
        connection.cgroup = (n > 0).then(|| format!("/service-{n}"));
    }
    all
}

#[test]
fn a_hundred_control_groups_have_series_with_their_paths() {
    let few = series(&Exporter::new(0).tick(connections_with_cgroups(3)));
    let of = |cgroup: &str| format!("mpwatch_cgroup_sent_bytes_total{{cgroup=\"{cgroup}\"}}");
    for cgroup in ["/service-1", "/service-2", "__unknown__"] {
        let sent = few[&of(cgroup)];
        assert!(sent > 0.0, "{cgroup} sent {sent}");
    }
    let many = series(&Exporter::new(0).tick(connections_with_cgroups(500)));
    let named = many.keys().filter(|name| name.starts_with("mpwatch_cgroup_sent_bytes_total{")).count();
    assert_eq!(named, 101);
    assert_eq!(
        sum(&many, "mpwatch_cgroup_sent_bytes_total").to_bits(),
        many["mpwatch_host_sent_bytes_total"].to_bits()
    );
}
