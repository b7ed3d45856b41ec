// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real Prometheus scrapes the daemon over TLS with a password while there is real traffic: every panel of every dashboard and every
//! recording rule has data then. The energy counters are simulated; everything else is real.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "other targets need more of it")]
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use mpwatch_bench::dashboards::{DASHBOARDS, query};
use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Shape;
use mpwatch_lab::raplsim::live::Load;
use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{self, Spec, Workload};
use mpwatch_tests::prometheus::Prometheus;
use mpwatch_tests::simulated::Simulated;
use mpwatch_tests::{may_run_as_root, skip};

use service::Place;

/// Longest wait for data; a rate needs two scrapes, and a rule what was scraped.
const PATIENCE: Duration = Duration::from_secs(90);

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).canonicalize().unwrap()
}

/// The sample web-config file of the package, with the certificate that it names.
fn web_config(folder: &Path) -> PathBuf {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.join("server.crt"), pair.cert.pem()).unwrap();
    fs::write(folder.join("server.key"), pair.signing_key.serialize_pem()).unwrap();
    let path = folder.join("web.yml");
    fs::copy(in_checkout("packaging/examples/web.yml"), &path).unwrap();
    path
}

fn configuration(folder: &Path, target: &str) -> String {
    let (rules, folder) = (in_checkout("dashboards/rules/mpwatch.yml"), folder.display());
    format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n\
         - job_name: mpwatch\n  \
           scheme: https\n  \
           tls_config: {{ ca_file: \"{folder}/server.crt\", server_name: localhost }}\n  \
           basic_auth: {{ username: prometheus, password: change me }}\n  \
           sample_limit: 50000\n  \
           static_configs: [{{ targets: [\"{target}\"] }}]\n",
        rules.display()
    )
}

/// What must have data: every query of a panel as Grafana would send it, and every recording rule.
fn wanted() -> Vec<String> {
    let panels = DASHBOARDS.iter().flat_map(|board| board.rows).flat_map(|(_, row)| *row);
    let queries = panels.flat_map(|panel| panel.queries).map(|(text, _)| {
        let text = query(text).replace("$__rate_interval", "10s").replace("$__range", "1m");
        text.replace("$job", "mpwatch").replace("$instance", ".+")
    });
    let rules = fs::read_to_string(in_checkout("dashboards/rules/mpwatch.yml")).unwrap();
    let recorded = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ").map(str::to_owned));
    queries.chain(recorded).collect()
}

/// Short exchanges over two paths, one after the other and some at a time.
fn exchanges(lab: &Topology) -> Spec {
    let think = Duration::from_millis(20);
    let mut spec = lab.traffic(Workload::Requests { count: 20, up: 1_000, down: 20_000, think }).unwrap();
    (spec.connections, spec.concurrency) = (4, 4);
    spec
}

#[test]
fn every_panel_shows_what_a_real_prometheus_has_scraped() {
    if !may_run_as_root() {
        return;
    }
    if !Prometheus::is_there() {
        skip("there is no prometheus; Debian's package of that name has it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut simulated = Simulated::new(Shape::Intel1);
    simulated.write_law();
    simulated.run(Load::Everything);
    let lab = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    let place = Place::new();
    let web_config = web_config(folder.path());
    let options = simulated.arguments();
    let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
    arguments.extend(["--web.config.file", web_config.to_str().unwrap()]);
    let daemon = place.start(&arguments);
    let prometheus = Prometheus::start(folder.path(), &configuration(folder.path(), daemon.address()));

    let until = Instant::now() + PATIENCE;
    let mut wanted = wanted();
    assert!(wanted.len() > 50, "{}", wanted.len());
    while !wanted.is_empty() {
        assert!(Instant::now() < until, "no data: {wanted:#?}\n{}", prometheus.targets());
        traffic::run(lab.client(), lab.server(), &exchanges(&lab)).unwrap();
        // What is not a number says as little as nothing.
        wanted.retain(|expression| !prometheus.query(expression).iter().any(|(_, value)| value.is_finite()));
    }
    let firing = prometheus.query("ALERTS{alertstate=\"firing\",severity=\"critical\"}");
    assert!(firing.is_empty(), "{firing:?}");
    let up = prometheus.query("up{job=\"mpwatch\"}");
    assert!(up.iter().all(|(_, value)| *value > 0.5), "{}", prometheus.targets());
}

#[test]
fn promtool_finds_nothing_wrong_with_what_a_daemon_serves() {
    if !may_run_as_root() {
        return;
    }
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("there is no promtool; Debian's package `prometheus` has it");
        return;
    }
    let place = Place::new();
    let lab = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
    let daemon = place.start(&["--metrics.top-flows", "50"]);
    traffic::run(lab.client(), lab.server(), &exchanges(&lab)).unwrap();
    daemon.until("mpwatch_host_flow_duration_seconds_count", |closed| closed >= 4.0);
    let (status, text) = daemon.get("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut &file).unwrap();
    let output = Command::new("promtool").args(["check", "metrics"]).stdin(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
