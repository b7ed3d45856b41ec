// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real Prometheus scrapes the daemon over TLS with a password during real traffic. Every panel of every dashboard and every
//! recording rule then has data. Only the energy counters are simulated.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "daemon/service.rs"]
#[allow(dead_code, reason = "only some targets use all of it")]
mod service;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mpwatch_bench::dashboards::{DASHBOARDS, query};
use mpwatch_exporters::clickhouse::schema::VERSION;
use mpwatch_lab::Topology;
use mpwatch_lab::raplsim::Platform;
use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_tests::prometheus::Prometheus;
use mpwatch_tests::scripted_server::{Answer, Request, answering};
use mpwatch_tests::simulated_counters::SimulatedCounters;
use mpwatch_tests::{may_run_as_root, skip};

use service::DaemonDir;
use socket2::{Domain, Protocol, Socket, Type};

/// Timeout for data. A rate needs two scrapes, and a rule needs an evaluation after both.
const TIMEOUT: Duration = Duration::from_secs(90);

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).canonicalize().unwrap()
}

/// The web-config example of the package, with its certificate.
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

/// All expressions that must have data: every query of a panel, as Grafana sends it, and every recording rule.
fn expressions() -> Vec<String> {
    let panels = DASHBOARDS.iter().flat_map(|board| board.rows).flat_map(|(_, row)| *row);
    let queries = panels.flat_map(|panel| panel.queries).map(|(text, _)| {
        let text = query(text).replace("$__rate_interval", "10s").replace("$__range", "1m");
        text.replace("$job", "mpwatch").replace("$instance", ".+").replace("$connection", ".+")
    });
    let rules = fs::read_to_string(in_checkout("dashboards/rules/mpwatch.yml")).unwrap();
    let recorded = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ").map(str::to_owned));
    queries.chain(recorded).collect()
}

/// Requests and responses over two paths, on four connections at a time.
fn requests(lab: &Topology) -> TrafficSpec {
    let think = Duration::from_millis(20);
    let mut spec = lab
        .traffic(Workload::Requests {
            count: 20,
            request_bytes: 1_000,
            response_bytes: 20_000,
            think_time: think,
        })
        .unwrap();
    (spec.connections, spec.concurrency) = (4, 4);
    spec
}

/// A ClickHouse server that confirms every request until the receiver is dropped. Returns its port, and the receiver of requests.
fn clickhouse() -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let version: &'static str = VERSION.to_string().leak();
    let answer = move |request: &Request| {
        Some(Answer::Status(200, if request.body.is_empty() { version } else { "" }))
    };
    (port, answering(listener, answer))
}

#[test]
fn every_panel_has_data_from_a_real_prometheus() {
    if !may_run_as_root() {
        return;
    }
    if !Prometheus::is_installed() {
        skip("prometheus is missing; it is in Debian's package `prometheus`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut simulated = SimulatedCounters::new(Platform::Intel1);
    simulated.write_power_file();
    simulated.start(LoadScope::Machine);
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let daemon_dir = DaemonDir::new();
    let web_config = web_config(folder.path());
    let (port, _requests) = clickhouse();
    daemon_dir.configure(&format!("[export.clickhouse]\nurl = \"http://127.0.0.1:{port}\"\n"));
    let options = simulated.arguments();
    let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
    arguments.extend(["--web.config.file", web_config.to_str().unwrap(), "--metrics.top-flows", "10"]);
    let daemon = daemon_dir.start(&arguments);
    let prometheus = Prometheus::start(folder.path(), &configuration(folder.path(), daemon.address()));

    // Its cause is that the listener has TCP. The daemon explains connections of its own namespace only.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fallen_back = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    fallen_back.connect(&listener.local_addr().unwrap().into()).unwrap();
    fallen_back.write_all(&[7; 1_000]).unwrap();

    let deadline = Instant::now() + TIMEOUT;
    let mut without_data = expressions();
    assert!(without_data.len() > 50, "{}", without_data.len());
    while !without_data.is_empty() {
        assert!(Instant::now() < deadline, "no data: {without_data:#?}\n{}", prometheus.targets());
        traffic::run(lab.client(), lab.server(), &requests(&lab)).unwrap();
        // NaN does not count as data.
        without_data
            .retain(|expression| !prometheus.query(expression).iter().any(|(_, value)| value.is_finite()));
    }
    let firing = prometheus.query("ALERTS{alertstate=\"firing\",severity=\"critical\"}");
    assert!(firing.is_empty(), "{firing:?}");
    let up = prometheus.query("up{job=\"mpwatch\"}");
    assert!(up.iter().all(|(_, value)| *value > 0.5), "{}", prometheus.targets());
}

#[test]
fn promtool_accepts_the_metrics_of_a_daemon() {
    if !may_run_as_root() {
        return;
    }
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("promtool is missing; it is in Debian's package `prometheus`");
        return;
    }
    let daemon_dir = DaemonDir::new();
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let daemon = daemon_dir.start(&["--metrics.top-flows", "50"]);
    traffic::run(lab.client(), lab.server(), &requests(&lab)).unwrap();
    daemon.wait_for_metric("mpwatch_host_flow_duration_seconds_count", |closed| closed >= 4.0);
    let (status, text) = daemon.get("/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut &file).unwrap();
    let output = Command::new("promtool").args(["check", "metrics"]).stdin(file).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && messages.is_empty(), "{messages}");
}
