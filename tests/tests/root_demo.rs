// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every scenario of the demo has the expected results, and removes everything that it created, also when it is interrupted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_report::schema::report_schema;
use mpwatch_tests::{ZONE_PARTS, list, may_run_as_root, mpwatch, number, program, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Timeout of a demo. A demo of two seconds takes about four.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A running demo.
struct Demo {
    child: Child,
}

impl Demo {
    fn start(scenario: &str, seconds: &str) -> Self {
        Self::start_with(scenario, seconds, &[])
    }

    fn start_with(scenario: &str, seconds: &str, more: &[&str]) -> Self {
        let child = Command::new(program())
            .args(["demo", scenario, "--headless", "--seconds", seconds, "--json"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        Self { child }
    }

    /// Names of the demo's namespaces, which contain its process id.
    fn namespaces(&self) -> Vec<String> {
        let prefix = format!("mpw-{}-", self.child.id());
        let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&prefix)).collect()
    }

    /// Waits for the end of the demo and returns its report. Asserts that the report is valid and that no namespaces are left.
    fn report(mut self) -> Value {
        let mut stdout = self.child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let status = poll_until("the demo to end", TIMEOUT, || self.child.try_wait().unwrap()).unwrap();
        let text = reader.join().unwrap().unwrap();
        assert_eq!(status.code(), Some(0), "{text}");
        assert_eq!(self.namespaces(), Vec::<String>::new());
        let report =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("invalid JSON ({error}): {text}"));
        let validator = jsonschema::validator_for(&report_schema()).expect("the schema is valid");
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        // A BPF program may miss an event while it is interrupted. That changes no total.
        let mut losses = report["losses"].as_object().unwrap().clone();
        losses.remove("events_missed");
        assert!(losses.values().all(|count| *count == 0), "{losses:?}");
        report
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // After a panic the demo still runs. It cleans up after SIGINT.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT);
            let _ = self.child.wait();
        }
    }
}

/// The connections with a role.
fn of_role<'a>(report: &'a Value, role: &str) -> Vec<&'a Value> {
    list(report, "connections").iter().filter(|connection| connection["role"] == role).collect()
}

/// The only connection, at its client.
#[track_caller]
fn only_client(report: &Value) -> &Value {
    let [clients, servers] = ["client", "server"].map(|role| of_role(report, role));
    assert_eq!((clients.len(), servers.len()), (1, 1), "{report:#}");
    let (client, server) = (clients[0], servers[0]);
    assert_eq!((&client["token"], &client["remote_token"]), (&server["remote_token"], &server["token"]));
    assert_eq!(client["bytes_sent"], server["bytes_received"]);
    assert_eq!((client["protocol"].as_str(), &client["fallback"]), (Some("mptcp"), &Value::Null));
    assert!(client["closed_at"].is_string(), "{client:#}");
    client
}

/// Asserts the properties that all scenarios with several subflows have in common.
fn assert_multipath(connection: &Value, subflows: usize) {
    let all = list(connection, "subflows");
    assert_eq!(all.len(), subflows, "{connection:#}");
    let shares: Vec<f64> = all.iter().map(|subflow| subflow["share_sent"].as_f64().unwrap()).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
    let second = &connection["second_path"];
    // A join takes slightly more than two round trips.
    assert!((1_000..500_000).contains(&number(second, "after_us")), "{second}");
    for subflow in all {
        assert!(number(subflow, "rtt_samples") > 10, "{subflow:#}");
        // A percentile is the middle of a histogram bucket, with an error of up to 6 %.
        assert!(number(subflow, "rtt_min_us") * 94 / 100 <= number(subflow, "rtt_p50_us"), "{subflow:#}");
        assert!(number(subflow, "rtt_p50_us") <= number(subflow, "rtt_p99_us"), "{subflow:#}");
    }
}

/// Asserts that the minimum RTT is the delay of the path, or slightly more on a busy machine.
#[track_caller]
fn assert_min_rtt(subflow: &Value, delay_us: u64) {
    let min = number(subflow, "rtt_min_us");
    assert!((delay_us * 9 / 10..delay_us * 3 / 2).contains(&min), "minimum RTT {min}, path {delay_us}");
}

#[test]
fn two_paths_with_different_rates_are_both_used_and_the_database_has_labels_and_settings() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("demo.db").to_str().unwrap().to_owned();
    let labels = ["--label", "scheduler=default", "--label", "kind=test", "--db", &db, "--samples", "200ms"];
    let report = Demo::start_with("two-paths", "2", &labels).report();
    assert_settings(&report, &db);
    let connection = only_client(&report);
    assert_multipath(connection, 2);
    let [first, second] = list(connection, "subflows") else { panic!("two") };
    assert_min_rtt(first, 10_000);
    assert_min_rtt(second, 30_000);
    // The paths have 40 and 20 Mbit/s.
    let share = first["share_sent"].as_f64().unwrap();
    assert!((0.5..0.85).contains(&share), "the first path carried {share}");
    let sent = number(connection, "bytes_sent");
    assert!((5_000_000..16_000_000).contains(&sent), "{sent} bytes in 2 s over 60 Mbit/s");
}

#[test]
fn three_subflows_share_one_bottleneck() {
    if !may_run_as_root() {
        return;
    }
    let report = Demo::start("shared", "2").report();
    let connection = only_client(&report);
    assert_multipath(connection, 3);
    for subflow in list(connection, "subflows") {
        assert_min_rtt(subflow, 20_000);
    }
    let sent = number(connection, "bytes_sent");
    assert!((3_000_000..11_000_000).contains(&sent), "{sent} bytes in 2 s over 40 Mbit/s");
}

#[test]
fn after_a_path_failure_the_transfer_continues_on_the_other() {
    if !may_run_as_root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("flows.db");
    let file = file.to_str().unwrap();
    let report = Demo::start_with("failover", "3", &["--db", file]).report();
    let connection = only_client(&report);
    assert_multipath(connection, 2);
    let [first, second] = list(connection, "subflows") else { panic!("two") };
    assert_min_rtt(second, 20_000);
    let shares = [first, second].map(|subflow| subflow["share_sent"].as_f64().unwrap());
    // Halfway, when the first path fails, each path has carried about a quarter.
    assert!(shares[1] > 0.4, "the other path carried the rest: {shares:?}");
    let stale = list(connection, "timeline").iter().any(|entry| entry["event"] == "subflow_stale");
    let failed = !first["closed"].is_null() && first["closed"]["reason"] != "fin";
    assert!(stale || failed, "the failure of the first path is not reported: {connection:#}");
    assert!(number(connection, "bytes_reinjected") > 0, "{connection:#}");
    let html = mpwatch(&["report", "--db", file, "--format", "html"]);
    assert_eq!(html.code, Some(0), "{}", html.stderr);
    let number_of = |what: &str| html.stdout.matches(what).count();
    assert_eq!((number_of("<section>"), number_of("<summary>Other end: ")), (1, 1), "only the two ends");
    assert_eq!(
        number_of("class=\"plot\""),
        5,
        "throughput, RTT and window over time; RTT and energy of the subflows"
    );
    assert!(html.stdout.contains("class=\"failure\"") && html.stdout.contains("failed"), "{}", html.stdout);
}

#[test]
fn the_fallback_scenario_shows_the_reason_and_a_connection_that_keeps_mptcp() {
    if !may_run_as_root() {
        return;
    }
    let report = Demo::start("fallback", "2").report();
    let connections = list(&report, "connections");
    let fell_back: Vec<_> =
        connections.iter().filter(|connection| !connection["fallback"].is_null()).collect();
    let [client] = fell_back[..] else { panic!("{report:#}") };
    assert_eq!(text(&client["fallback"], "reason"), "no_mp_capable_in_syn_ack", "{client:#}");
    assert_eq!((text(client, "role"), list(client, "subflows").len()), ("client", 1), "{client:#}");
    assert!(connections.len() == 3 && number(client, "bytes_acked") > 1_000_000, "{report:#}");
}

#[test]
fn the_requests_scenario_opens_many_connections() {
    if !may_run_as_root() {
        return;
    }
    let report = Demo::start("requests", "2").report();
    let clients = of_role(&report, "client");
    assert!(clients.len() >= 4 && clients.len() == of_role(&report, "server").len(), "{}", clients.len());
    for connection in &clients {
        // 20 requests of 200 bytes with responses of 10 000 bytes.
        assert_eq!(
            (number(connection, "bytes_sent"), number(connection, "bytes_received")),
            (4_000, 200_000)
        );
        assert_min_rtt(&list(connection, "subflows")[0], 10_000);
    }
    // On a busy machine a connection may close before its second subflow has joined.
    let joined = clients.iter().filter(|connection| connection["second_path"].is_object()).count();
    assert!(joined * 2 > clients.len(), "{joined} of {}", clients.len());
}

#[test]
fn an_interrupted_demo_reports_and_leaves_nothing() {
    if !may_run_as_root() {
        return;
    }
    let demo = Demo::start("two-paths", "60");
    let is_built = || (demo.namespaces().len() >= 4).then_some(());
    poll_until("the demo's network to be built", TIMEOUT, is_built).unwrap();
    // The traffic runs when the client has sent payload.
    let netdev = || {
        let name = demo.namespaces().into_iter().find(|name| name.ends_with("client"))?;
        let file = std::fs::File::open(format!("/run/netns/{name}")).ok()?;
        sent_bytes(file)
    };
    let flows = || netdev().filter(|bytes| *bytes > 1_000_000);
    poll_until("the demo's traffic to flow", TIMEOUT, flows).unwrap();
    kill(Pid::from_raw(demo.child.id().cast_signed()), Signal::SIGINT).unwrap();
    let report = demo.report();
    let [connection] = of_role(&report, "client")[..] else { panic!("{report:#}") };
    assert!(number(connection, "bytes_sent") > 0, "{connection:#}");
    assert!(!text(connection, "id").is_empty());
}

/// Bytes sent by all interfaces of a namespace.
fn sent_bytes(namespace: std::fs::File) -> Option<u64> {
    let table = std::thread::spawn(move || {
        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).ok()?;
        std::fs::read_to_string("/proc/thread-self/net/dev").ok()
    });
    let table = table.join().ok()??;
    let sent = |line: &str| line.split_once(':')?.1.split_whitespace().nth(8)?.parse::<u64>().ok();
    Some(table.lines().filter_map(sent).sum())
}

/// Asserts that the parts of every zone sum to the zone, and that subflows sum to their connection.
fn assert_energy_sums(report: &Value, source: &str) {
    let zones = list(&report["energy"], "zones");
    assert!(!zones.is_empty() && report["energy"]["source"] == source, "{}", report["energy"]);
    for zone in zones {
        assert_eq!(
            ZONE_PARTS.iter().map(|part| number(zone, part)).sum::<u64>(),
            number(zone, "zone_uj"),
            "{zone}"
        );
        assert!(number(zone, "flows_uj") > 0, "{zone}");
    }
    for connection in list(report, "connections") {
        let energy = &connection["energy"];
        assert_eq!(energy["source"], source, "{connection}");
        for field in ["active_uj", "lo_uj", "hi_uj", "full_uj", "cpu_ns"] {
            let parts = list(connection, "subflows").iter().map(|subflow| number(&subflow["energy"], field));
            assert_eq!(parts.sum::<u64>(), number(energy, field), "{field} of {connection}");
        }
        let [lo, active, hi] = ["lo_uj", "active_uj", "hi_uj"].map(|field| number(energy, field));
        assert!(lo <= active && active <= hi && active > 0, "{energy}");
    }
}

#[test]
fn simulated_energy_adds_up_and_is_marked_as_simulated() {
    if !may_run_as_root() {
        return;
    }
    let report = Demo::start_with("two-paths", "2", &["--simulate-rapl", "--tcp"]).report();
    assert_energy_sums(&report, "simulated");
    assert_eq!(report["energy"]["idle"], "calibrated");
    let output = mpwatch(&["demo", "--headless", "--seconds", "2", "--simulate-rapl"]).stdout;
    let is_unit = |word: &str| ["J", "mJ", "uJ", "kJ"].contains(&word.trim_end_matches([',', ';', ')', ']']));
    for line in output.lines().filter(|line| line.split_whitespace().any(is_unit)) {
        assert!(line.contains('~'), "not marked as an estimate: {line}");
    }
    assert!(output.matches("SIMULATED").count() >= 4, "{output}");
}

/// With an empty sysfs root, the machine has no energy counters.
#[test]
fn without_counters_energy_is_a_marked_model_with_one_line_of_advice() {
    if !may_run_as_root() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let root = empty.path().to_str().unwrap();
    let report = Demo::start_with("two-paths", "2", &["--sysfs-root", root]).report();
    assert_energy_sums(&report, "model");
    let advice = text(&report["energy"], "advice");
    assert!(advice.contains("docs/energy.md") && advice.lines().count() == 1, "{advice}");
    for connection in list(&report, "connections") {
        let [lo, active, hi] =
            ["lo_uj", "active_uj", "hi_uj"].map(|field| number(&connection["energy"], field));
        assert!(2 * lo <= active + 2 && 2 * hi + 2 >= 3 * active, "{connection}");
    }
}

/// Asserts that a run has its labels, its settings and the congestion control of each subflow, in the report and in the database.
fn assert_settings(report: &Value, db: &str) {
    let setup = &report["run"]["setup"];
    assert_eq!(setup["labels"], serde_json::json!({ "kind": "test", "scheduler": "default" }));
    assert_eq!(number(setup, "interval_ms"), 200, "the step of the samples");
    // The sysctls of the demo's namespace. Older kernels have no `scheduler`.
    assert_eq!(text(&setup["mptcp_sysctls"], "enabled"), "1", "{setup}");
    assert!(setup["cpu_model"].is_string(), "{setup}");
    for subflow in list(report, "connections").iter().flat_map(|connection| list(connection, "subflows")) {
        assert_eq!(text(subflow, "congestion_control"), "cubic", "{subflow}");
    }
    let database = rusqlite::Connection::open(db).unwrap();
    let value = |sql: &str| -> String { database.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(value("SELECT labels ->> 'kind' FROM v_connection LIMIT 1"), "test");
    assert_eq!(value("SELECT congestion_control FROM v_subflow LIMIT 1"), "cubic");
    assert_eq!(value("SELECT mptcp_sysctls ->> 'enabled' FROM v_run"), "1");
    // Both ends have at least two subflows, which are open for two seconds.
    let samples: i64 = database.query_row("SELECT count(*) FROM v_sample", [], |row| row.get(0)).unwrap();
    assert!(samples >= 4 * 2 * 5 / 2, "{samples} samples of four subflows in two seconds");
    let printed = mpwatch(&["report", "--db", db]);
    assert!(
        printed.stdout.contains("labels") && printed.stdout.contains("kind=test, scheduler=default"),
        "{}",
        printed.stdout
    );
    assert!(printed.stdout.contains("congestion     cubic"), "{}", printed.stdout);
}
