// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scraped metrics are as documented in METRICS.md, accepted by promtool, and bounded; counters never decrease.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp, reason = "a test; counts are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use mpwatch_exporters::prometheus::{Totals, expose, sections};
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::energy::{OverlappingZone, SnapshotEnergy};
use mpwatch_model::host::names::Pod;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::metric::service::{DaemonProcess, EliminationCounts, ExportState, Service, StoreState};
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::{Bytes, Microjoules, Micros, Nanos};
use mpwatch_tests::skip;

mod events;

/// Series by their name with labels, as scraped.
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
            max_files: Some(1),
            threads: Some(1),
            started_at: Some(fixture::at(0)),
        },
        store: Some(StoreState::default()),
        elimination: Some(EliminationCounts::default()),
        exports: vec![ExportState {
            target: "clickhouse",
            lost: Some(0),
            waiting: Some(0),
            lag: Some(Nanos(0)),
            ..ExportState::default()
        }],
        ..Service::default()
    }
}

/// A daemon's sums over snapshots that are one second apart.
struct Scraped {
    totals: Totals,
    at: Timestamp,
    latest: Snapshot,
}

impl Scraped {
    fn new(top_flows: usize) -> Self {
        Self { totals: Totals::new(top_flows), at: fixture::at(0), latest: fixture::snapshot(Vec::new()) }
    }

    fn tick(&mut self, connections: Vec<Connection>) -> String {
        self.tick_with(connections, Vec::new())
    }

    /// Adds a snapshot that does not list some connections because they are idle.
    fn tick_with(&mut self, connections: Vec<Connection>, idle: Vec<Connection>) -> String {
        self.at += SignedDuration::from_secs(1);
        let idle = fixture::idle(idle);
        self.latest = Snapshot { at: self.at, idle, ..fixture::snapshot(connections) };
        self.totals.update(&self.latest);
        self.text()
    }

    fn text(&self) -> String {
        expose(&self.latest, &self.totals.values(), &service())
    }
}

fn series(text: &str) -> Series {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert_ne!(value, "-0", "{name}");
        (name.to_owned(), value.parse::<f64>().expect("a number"))
    });
    let all: Vec<_> = parsed.collect();
    let by_name: Series = all.iter().cloned().collect();
    assert_eq!(all.len(), by_name.len(), "a series occurs twice in {text}");
    by_name
}

fn sum(series: &Series, family: &str) -> f64 {
    let is_of = |name: &str| name.split('{').next() == Some(family);
    series.iter().filter(|(name, _)| is_of(name)).map(|(_, value)| value).sum()
}

/// This number of connections, each with a peer of its own.
fn many(count: u32) -> Vec<Connection> {
    let with_peer = |n: u32| {
        let mut connection = fixture::connection(n + 1, 2);
        let [_, b, c, d] = n.to_be_bytes();
        connection.remote = Some(SocketAddr::from(([10, b, c, d], 5201)));
        connection
    };
    (0..count).map(with_peer).collect()
}

/// Connections of several peers, control groups and sizes. Some become idle and carry more later; others close, so that idle ones move up
/// among the largest.
#[test]
fn idle_connections_are_in_all_series_as_if_snapshots_listed_them() {
    const ALL: u32 = 150;
    let (mut listed, mut shared) = (Scraped::new(3), Scraped::new(3));
    for second in 0..80_u32 {
        let is_idle =
            |number: u32| second > 3 && !(second / 20 + number).is_multiple_of(3) && number < ALL - 4;
        let (mut active, mut idle) = (Vec::new(), Vec::new());
        for (number, mut connection) in (0..).zip(many(ALL)) {
            // The largest connections end after a while.
            if number >= ALL - 4 && second > 30 {
                continue;
            }
            let steps = (0..=second).filter(|at| *at <= 3 || (at / 20 + number) % 3 == 0).count() as u64;
            let bytes = Bytes(u64::from(number) * 1_000 + steps);
            (connection.bytes_sent, connection.subflows[0].bytes_sent) = (Some(bytes), bytes);
            connection.cgroup = Some(format!("/group-{}", number % 120));
            connection.age_s = f64::from(second + 1);
            if is_idle(number) { idle.push(connection) } else { active.push(connection) }
        }
        let all = active.iter().chain(&idle).cloned();
        let mut all: Vec<Connection> = all.collect();
        all.sort_by_key(|connection| connection.id);
        let expected = series(&listed.tick(all));
        let found = series(&shared.tick_with(active, idle));
        let differs: Vec<_> =
            expected.iter().filter(|(name, value)| found.get(*name) != Some(value)).collect();
        assert!(differs.is_empty() && expected.len() == found.len(), "second {second}: {differs:?}");
    }
}

#[test]
fn scraped_metrics_are_as_metrics_md_describes() {
    let mut scraped = Scraped::new(10);
    let connections =
        vec![fixture::connection(1, 2), fixture::closed(2), fixture::failover(3), fixture::fallen_back(4)];
    scraped.tick(connections);
    scraped.latest.host.missing.push(fixture::missing_hook());
    let shown = vec![OverlappingZone { zone: "psys".to_owned(), zone_uj: Microjoules(1) }];
    let energy = scraped.latest.energy.take().unwrap();
    scraped.latest.energy = Some(SnapshotEnergy { shown, ..energy });
    let text = scraped.text();
    let scraped: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let sections = sections();
    let told: BTreeSet<&str> =
        sections.iter().flat_map(|section| &section.families).map(|metric| metric.name.as_str()).collect();
    let missing: Vec<_> = told.difference(&scraped).collect();
    let untold: Vec<_> = scraped.difference(&told).collect();
    assert!(
        missing.is_empty() && untold.is_empty(),
        "documented, not scraped: {missing:?}; not documented: {untold:?}"
    );
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("there is no promtool; Debian's package `prometheus` has it");
        return;
    }
    for (count, top_flows) in [(0, 0), (1, 0), (1, 5), (10_000, 0), (10_000, 50)] {
        let text = Scraped::new(top_flows).tick(many(count));
        let mut child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "at {count} flows: {said}");
    }
}

#[test]
fn counters_stay_when_flows_end() {
    let mut scraped = Scraped::new(1);
    let first = series(&scraped.tick(many(3)));
    let carried: f64 = many(3).iter().map(|c| c.bytes_sent.unwrap().0 as f64).sum();
    assert_eq!(first["mpwatch_host_sent_bytes_total"].to_bits(), carried.to_bits());
    let mut previous = first;
    for left in [2, 0, 0, 1] {
        let now = series(&scraped.tick(many(left)));
        for (name, value) in previous.iter().filter(|(name, _)| name.contains("_total")) {
            let own = name.contains("connection=") && !name.contains("__other__");
            assert!(own || now.get(name).is_some_and(|now| now >= value), "{name} fell from {value}");
        }
        previous = now;
    }
    // The state of the last connection was deleted, so the connection counts as a new one.
    let again = carried + many(1)[0].bytes_sent.unwrap().0 as f64;
    assert_eq!(previous["mpwatch_host_sent_bytes_total"].to_bits(), again.to_bits());
}

#[test]
fn of_a_connection_older_than_the_daemon_only_later_traffic_counts() {
    let mut scraped = Scraped::new(0);
    let mut old = fixture::connection(1, 1);
    (old.seen_open, old.opened_at, old.subflows[0].created_at) = (false, None, None);
    let first = series(&scraped.tick(vec![old.clone()]));
    assert_eq!(first["mpwatch_host_sent_bytes_total"].to_bits(), 0_f64.to_bits());
    assert!(first["mpwatch_host_active_joules_total"] > 0.0, "energy begins with tracing");
    old.bytes_sent = Some(old.bytes_sent.unwrap() + Bytes(1_000));
    let then = series(&scraped.tick(vec![old]));
    assert_eq!(then["mpwatch_host_sent_bytes_total"].to_bits(), 1_000_f64.to_bits());
}

#[test]
fn a_failed_path_is_counted_by_interface_also_after_its_subflow_has_ended() {
    let mut scraped = Scraped::new(0);
    scraped.tick(vec![fixture::connection(1, 3)]);
    let value = |text: &str, name: &str, interface: &str| {
        series(text)[&format!("mpwatch_interface_{name}{{interface=\"{interface}\"}}")]
    };
    let before = scraped.text();
    assert!(value(&before, "path_failures_total", "eth1").abs() < 1e-9, "known before the first failure");
    let bucket = |interface: &str, bound: &str| {
        series(&before)
            [&format!("mpwatch_interface_rtt_seconds_bucket{{interface=\"{interface}\",le=\"{bound}\"}}")]
    };
    // The RTTs are 21.3 and 42.6 ms.
    assert_eq!(["0.01", "0.025", "+Inf"].map(|bound| bucket("eth1", bound)), [0.0, 1.0, 1.0]);
    assert_eq!(["0.025", "0.05"].map(|bound| bucket("eth2", bound)), [0.0, 1.0]);
    let after = scraped.tick(vec![fixture::failover(1)]);
    let counts = |text: &str, name| ["eth1", "eth2", "eth3"].map(|interface| value(text, name, interface));
    assert_eq!(counts(&after, "path_failures_total"), [1.0, 0.0, 0.0]);
    assert_eq!(counts(&after, "subflows"), [0.0, 1.0, 1.0]);
    assert_eq!(counts(&after, "stale_subflows"), [0.0, 1.0, 0.0]);
    assert_eq!(counts(&after, "backup_subflows"), [0.0, 0.0, 1.0]);
    assert!(!after.contains("mpwatch_interface_srtt_seconds{interface=\"eth2\"}"), "a failed path: no RTT");
    assert!((value(&after, "srtt_seconds", "eth3") - 0.062_4).abs() < 1e-9);
    assert!((sum(&series(&after), "mpwatch_host_outages_total") - 1.0).abs() < 1e-9);
    assert!((sum(&series(&after), "mpwatch_host_outage_seconds_total") - 0.412_3).abs() < 1e-9);
    let gone = scraped.tick(Vec::new());
    assert_eq!(counts(&gone, "path_failures_total"), [1.0, 0.0, 0.0]);
    assert_eq!(counts(&gone, "stale_subflows"), [0.0; 3]);
    assert_eq!(counts(&gone, "backup_subflows"), [0.0; 3]);
}

#[test]
fn received_bytes_are_charged_to_their_incoming_interface() {
    let mut scraped = Scraped::new(0);
    let mut connection = fixture::connection(1, 1);
    connection.subflows[0].incoming_interface = Some(Name::from("eth9".to_owned()));
    let expected = connection.subflows[0].clone();
    let text = scraped.tick(vec![connection]);
    let value = |thing: &str, interface: &str| {
        series(&text)
            .get(&format!("mpwatch_interface_{thing}_bytes_total{{interface=\"{interface}\"}}"))
            .copied()
    };
    let [sent, received] = [expected.bytes_sent, expected.bytes_received].map(|bytes| Some(bytes.0 as f64));
    assert_eq!([value("sent", "eth1"), value("received", "eth1")], [sent, None]);
    assert_eq!([value("sent", "eth9"), value("received", "eth9")], [None, received]);
    assert!(value("wire_received", "eth9") > received);
}

#[test]
fn series_do_not_grow_with_the_number_of_flows() {
    let bound = |flows: u32| series(&Scraped::new(20).tick(many(flows))).len();
    let (few, many_flows) = (bound(200), bound(10_000));
    assert_eq!(few, many_flows);
    assert!(many_flows < 10_000, "{many_flows} series");
    let by_default = series(&Scraped::new(0).tick(grouped(10_000))).len();
    assert!(by_default < 3_500, "{by_default} series; docs/runbook.md names the bound");
    let none = Scraped::new(0).tick(many(200));
    assert!(!none.contains("connection=\""), "single flows have no series by default");
}

#[test]
fn the_largest_and_all_others_are_the_whole() {
    let mut scraped = Scraped::new(5);
    for count in [3, 50, 20] {
        let series = series(&scraped.tick(many(count)));
        for thing in ["sent_bytes_total", "received_bytes_total", "retransmitted_bytes_total"] {
            let whole = series[&format!("mpwatch_host_{thing}")];
            for subject in ["connection", "peer", "cgroup"] {
                let parts = sum(&series, &format!("mpwatch_{subject}_{thing}"));
                assert_eq!(parts.to_bits(), whole.to_bits(), "{subject} {thing} at {count}");
            }
            let by_interface = sum(&series, &format!("mpwatch_interface_{thing}"));
            let by_subflow = sum(&series, &format!("mpwatch_subflow_{thing}"));
            assert_eq!(by_interface.to_bits(), by_subflow.to_bits(), "subflow {thing} at {count}");
        }
    }
}

#[test]
fn the_parts_of_a_zone_sum_to_it() {
    let series = series(&Scraped::new(0).tick(Vec::new()));
    let whole = series["mpwatch_zone_joules_total{zone=\"package-0\"}"];
    let parts = sum(&series, "mpwatch_zone_part_joules_total");
    assert!((parts - whole).abs() < 1e-6, "{parts} is not {whole}");
}

#[test]
fn unknown_values_have_no_series() {
    let mut scraped = Scraped::new(5);
    let mut blind = fixture::connection(1, 1);
    (blind.energy, blind.cpu) = (None, None);
    blind.subflows.iter_mut().for_each(|s| (s.energy, s.cpu, s.srtt) = (None, None, None));
    scraped.tick(vec![blind]);
    (scraped.latest.energy, scraped.latest.cpus) = (None, None);
    // Metrics of the daemon itself are excluded.
    let text = scraped.text().replace("process_cpu_seconds", "");
    for unknown in ["joules", "cpu_seconds", "cpu_account", "_srtt_", "energy_info"] {
        assert!(!text.contains(unknown), "{unknown} in {text}");
    }
}

/// Upper bounds and counts of a histogram, as scraped.
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
fn a_connection_that_closed_is_in_every_histogram_once() {
    let mut scraped = Scraped::new(0);
    let duration = "mpwatch_host_flow_duration_seconds";
    let open = series(&scraped.tick(vec![fixture::connection(2, 2)]));
    assert_eq!(sum(&open, &format!("{duration}_count")).to_bits(), 0_f64.to_bits());
    let closed = fixture::closed(2);
    let size = (closed.bytes_sent.unwrap() + closed.bytes_received.unwrap()).0 as f64;
    let age = closed.age_s;
    // A closed connection stays for two snapshots.
    scraped.tick(vec![closed.clone()]);
    let then = series(&scraped.tick(vec![closed]));
    assert_eq!(then[&format!("{duration}_sum")].to_bits(), age.to_bits());
    assert_eq!(then["mpwatch_host_flow_size_bytes_sum"].to_bits(), size.to_bits());
    let all = buckets(&then, duration);
    assert!(all.len() > 5 && all.last().unwrap().0.is_infinite(), "{all:?}");
    for (bound, count) in all {
        assert_eq!(count > 0.5, age <= bound, "{count} up to {bound} s, age {age} s");
    }
}

#[test]
fn the_round_trip_time_counts_where_there_is_a_new_sample() {
    let mut scraped = Scraped::new(0);
    let mut connection = fixture::connection(1, 1);
    connection.subflows[0].rtt = Some(Micros(300));
    connection.subflows[0].rtt_samples = 7;
    let count = |text: String| series(&text)["mpwatch_host_rtt_seconds_count"];
    let once = count(scraped.tick(vec![connection.clone()]));
    let idle = count(scraped.tick(vec![connection.clone()]));
    connection.subflows[0].rtt_samples = 9;
    let again = count(scraped.tick(vec![connection.clone()]));
    connection.subflows[0].rtt_samples = 11;
    connection.subflows[0].rtt = None;
    let unknown = count(scraped.tick(vec![connection]));
    assert_eq!([once, idle, again, unknown].map(f64::to_bits), [1.0_f64, 1.0, 2.0, 2.0].map(f64::to_bits));
    let text = scraped.text();
    let all = series(&text);
    assert_eq!(all["mpwatch_host_rtt_seconds_bucket{le=\"0.00025\"}"].to_bits(), 0_f64.to_bits());
    assert_eq!(all["mpwatch_host_rtt_seconds_bucket{le=\"0.0005\"}"].to_bits(), 2_f64.to_bits());
}

/// The same as [`many`], with a control group for each connection except the first, whose group is unknown.
fn grouped(count: u32) -> Vec<Connection> {
    let mut all = many(count);
    for (n, connection) in all.iter_mut().enumerate() {
        connection.cgroup = (n > 0).then(|| format!("/service-{n}"));
    }
    all
}

#[test]
fn control_groups_have_series_by_their_paths_up_to_a_hundred() {
    let few = series(&Scraped::new(0).tick(grouped(3)));
    let of = |cgroup: &str| format!("mpwatch_cgroup_sent_bytes_total{{cgroup=\"{cgroup}\"}}");
    for cgroup in ["/service-1", "/service-2", "__unknown__"] {
        let sent = few[&of(cgroup)];
        assert!(sent > 0.0, "{cgroup} sent {sent}");
    }
    let lots = series(&Scraped::new(0).tick(grouped(500)));
    let named = lots.keys().filter(|name| name.starts_with("mpwatch_cgroup_sent_bytes_total{")).count();
    assert_eq!(named, 101);
    assert_eq!(
        sum(&lots, "mpwatch_cgroup_sent_bytes_total").to_bits(),
        lots["mpwatch_host_sent_bytes_total"].to_bits()
    );
}

#[test]
fn namespaces_of_pods_have_series_up_to_a_hundred_and_only_where_there_are_pods() {
    let of =
        |namespace: &str| format!("mpwatch_pod_namespace_sent_bytes_total{{pod_namespace=\"{namespace}\"}}");
    let mut no_pods = many(3);
    for connection in &mut no_pods {
        connection.pod = None;
    }
    let without = series(&Scraped::new(0).tick(no_pods));
    assert!(without.keys().all(|name| !name.starts_with("mpwatch_pod_namespace_")), "{without:?}");
    let in_pods = |count: u32, namespaces: u32| {
        let mut all = many(count);
        for (n, connection) in (0..).zip(&mut all) {
            let namespace = format!("team-{}", n % namespaces);
            connection.pod = (n > 0).then(|| Pod { namespace, ..fixture::pod() });
        }
        all
    };
    let few = series(&Scraped::new(0).tick(in_pods(5, 2)));
    for namespace in ["team-0", "team-1", "__unknown__"] {
        assert!(few[&of(namespace)] > 0.0, "{namespace}");
    }
    let lots = series(&Scraped::new(0).tick(in_pods(500, 300)));
    let named =
        lots.keys().filter(|name| name.starts_with("mpwatch_pod_namespace_sent_bytes_total{")).count();
    assert_eq!(named, 101);
    for all in [few, lots] {
        let sum = sum(&all, "mpwatch_pod_namespace_sent_bytes_total");
        assert_eq!(sum.to_bits(), all["mpwatch_host_sent_bytes_total"].to_bits());
    }
}

#[test]
fn an_interface_named_like_a_reserved_label_has_series_of_its_own() {
    let mut connection = fixture::connection(1, 2);
    for (subflow, name) in connection.subflows.iter_mut().zip(["__other__", "__unknown__"]) {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        subflow.interface = Some(Name::from_kernel(bytes));
    }
    let found = series(&Scraped::new(0).tick(vec![connection]));
    for (label, subflows) in [("/__other__", 1.0), ("/__unknown__", 1.0), ("__other__", 0.0)] {
        let name = format!("mpwatch_interface_subflows{{interface=\"{label}\"}}");
        assert!((found[&name] - subflows).abs() < 1e-9, "{name}");
    }
}
