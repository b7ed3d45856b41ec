// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dashboards and rules use existing metrics, in syntax that Grafana and Prometheus accept. host_prometheus.rs tests that they show data.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpwatch_bench::dashboards::{DASHBOARDS, Dashboard, Draw, FLEET, Source, file, query};
use mpwatch_exporters::prometheus::sections;
use mpwatch_model::metric::Kind;
use mpwatch_tests::{list, skip, text};
use serde_json::Value;

const RULES: &str = "dashboards/rules/mpwatch.yml";
const RULE_TESTS: &str = "dashboards/rules/mpwatch_test.yml";
const RUNBOOK: &str = "docs/runbook.md";
/// Series that Prometheus adds to every scrape.
const PROMETHEUS: [&str; 2] = ["up", "scrape_duration_seconds"];

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(in_checkout(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of series that can be queried, and whether each is a counter.
fn exported() -> Vec<(String, bool)> {
    let sections = sections();
    let all = sections.iter().flat_map(|section| &section.families);
    let names = all.flat_map(|metric| match metric.kind {
        Kind::Histogram => {
            ["_bucket", "_sum", "_count"].map(|end| (format!("{}{end}", metric.name), true)).to_vec()
        }
        kind => vec![(metric.name.clone(), kind == Kind::Counter)],
    });
    names.collect()
}

/// Names of metrics in an expression, without labels, functions, and results of recording rules.
fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = expression.split(|letter| !is_part(letter));
    let named = |word: &&str| {
        let ours = word.starts_with("mpwatch_") || word.starts_with("process_");
        (ours || PROMETHEUS.contains(word)) && !word.contains(':')
    };
    words.filter(named).collect()
}

/// Expressions of the rules, each with its name.
fn rules() -> Vec<(String, String, Value)> {
    let file = yaml(RULES);
    let all = list(&file, "groups").iter().flat_map(|group| list(group, "rules").to_vec());
    let named = all.map(|rule| {
        let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap().to_owned();
        (name, text(&rule, "expr").to_owned(), rule)
    });
    named.collect()
}

/// Every query of every panel.
fn queries() -> impl Iterator<Item = (String, String)> {
    let panels = DASHBOARDS
        .iter()
        .flat_map(|board| board.rows.iter().flat_map(|(_, row)| *row).map(move |panel| (board.name, panel)));
    panels.flat_map(|(board, panel)| {
        let of = move |(text, _): &(&str, &str)| (format!("{board}: {}", panel.title), query(text));
        panel.queries.iter().map(of).collect::<Vec<_>>()
    })
}

/// The dashboards on Prometheus and on ClickHouse.
fn all_dashboards() -> impl Iterator<Item = &'static Dashboard> {
    DASHBOARDS.iter().chain([FLEET])
}

#[test]
fn dashboards_are_generated_from_their_panels() {
    let bless = std::env::var_os("MPWATCH_BLESS").is_some();
    for board in all_dashboards() {
        let name = format!("dashboards/grafana/{}.json", board.name);
        let made = format!("{:#}\n", file(board));
        if bless {
            fs::write(in_checkout(&name), &made).unwrap();
        }
        let advice = "run MPWATCH_BLESS=1 cargo test --workspace --test unit dashboards";
        assert!(
            fs::read_to_string(in_checkout(&name)).is_ok_and(|text| text == made),
            "{name} is stale; {advice}"
        );
    }
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    for board in all_dashboards() {
        let mut ids = BTreeSet::new();
        for panel in list(&file(board), "panels") {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have the same id");
            assert!(!text(panel, "title").is_empty());
            if text(panel, "type") == "row" {
                continue;
            }
            let about = text(panel, "description");
            assert!(about.ends_with('.') && about.starts_with(char::is_uppercase), "{about}");
            assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty());
            assert_eq!(text(&panel["datasource"], "uid"), "${datasource}");
            assert!(!list(panel, "targets").is_empty());
            let place = &panel["gridPos"];
            assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{place}");
        }
        let made = file(board);
        let variables: Vec<&str> =
            list(&made["templating"], "list").iter().map(|variable| text(variable, "name")).collect();
        let of_flows: &[&str] = if board.name == "flows" { &["connection"] } else { &[] };
        let of_hosts: &[&str] = if board.source == Source::Prometheus { &["job", "instance"] } else { &[] };
        assert_eq!(variables, [&["datasource"], of_hosts, of_flows].concat());
        assert_eq!(made["editable"], false);
    }
}

#[test]
fn panels_do_not_overlap() {
    for board in all_dashboards() {
        let mut taken = BTreeSet::new();
        for panel in list(&file(board), "panels") {
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
                assert!(taken.insert(cell), "{}: {} lies on another panel", board.name, panel["title"]);
            }
        }
    }
}

#[test]
fn every_metric_that_is_named_is_exported() {
    let exported: BTreeSet<String> = exported().into_iter().map(|(name, _)| name).collect();
    let known = |name: &str| exported.contains(name) || PROMETHEUS.contains(&name);
    for (place, expression) in queries() {
        let metrics = metrics_of(&expression);
        assert!(!metrics.is_empty(), "{place} names no metric");
        for metric in metrics {
            assert!(known(metric), "{place}: {metric} is not exported");
        }
    }
    let recorded: BTreeSet<String> = rules().into_iter().map(|(name, ..)| name).collect();
    for (name, expression, _) in rules() {
        for metric in metrics_of(&expression) {
            assert!(known(metric), "{name}: {metric} is not exported");
        }
        let words =
            expression.split(|letter: char| !(letter.is_ascii_alphanumeric() || "_:".contains(letter)));
        for word in words.filter(|word| word.contains(":mpwatch_")) {
            assert!(recorded.contains(word), "{name}: nothing records {word}");
        }
    }
    for metric in metrics_of(&read(RUNBOOK)) {
        assert!(known(metric), "the runbook: {metric} is not exported");
    }
}

#[test]
fn counters_are_read_as_rates_and_every_query_is_narrowed() {
    let exported = exported();
    for (place, expression) in queries() {
        for metric in metrics_of(&expression) {
            for (at, _) in expression.match_indices(metric) {
                let after = &expression[at + metric.len()..];
                if after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
                    continue;
                }
                assert!(
                    ["}", ",connection=~\"$connection\"}"].iter().any(|rest| {
                        after.starts_with(&format!("{{job=~\"$job\",instance=~\"$instance\"{rest}"))
                    }),
                    "{place}: {metric} of all"
                );
                let is_counter = exported.iter().any(|(name, counter)| name == metric && *counter);
                // The conservation error is a difference of the totals themselves.
                let is_difference = place.ends_with("Conservation error");
                if is_counter && !is_difference {
                    let before = &expression[..at];
                    assert!(
                        before.ends_with("rate(") || before.ends_with("increase("),
                        "{place}: {metric} alone"
                    );
                    let range = after.split('}').nth(1).unwrap_or_default();
                    let windows = ["[$__rate_interval]", "[$__range]"];
                    assert!(
                        windows.iter().any(|window| range.starts_with(window)),
                        "{place}: {metric}{after}"
                    );
                }
            }
        }
    }
    assert!(
        DASHBOARDS
            .iter()
            .flat_map(|board| board.rows)
            .flat_map(|(_, row)| *row)
            .any(|p| p.draw == Draw::Table)
    );
}

#[test]
fn every_alert_has_a_severity_a_runbook_and_a_test() {
    let runbook = read(RUNBOOK);
    let headings: BTreeSet<String> =
        runbook.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_lowercase).collect();
    let tests = yaml(RULE_TESTS);
    let alerts: Vec<_> = rules().into_iter().filter(|(_, _, rule)| rule["alert"].is_string()).collect();
    assert!(alerts.len() > 5);
    for (name, _, rule) in &alerts {
        assert!(["info", "warning", "critical"].contains(&text(&rule["labels"], "severity")), "{name}");
        assert!(!text(&rule["annotations"], "summary").is_empty(), "{name}");
        let link = text(&rule["annotations"], "runbook_url");
        let anchor = link.strip_prefix("docs/runbook.md#").unwrap_or_else(|| panic!("{name}: {link}"));
        assert!(headings.contains(anchor), "the runbook has no section {anchor}");
        let of_alert = |test: &Value| -> Vec<bool> {
            let all = test["alert_rule_test"].as_array().into_iter().flatten();
            let ours = all.filter(|case| text(case, "alertname") == name);
            ours.map(|case| !list(case, "exp_alerts").is_empty()).collect()
        };
        let outcomes: BTreeSet<bool> = list(&tests, "tests").iter().flat_map(of_alert).collect();
        assert_eq!(
            outcomes,
            BTreeSet::from([false, true]),
            "{name} needs a test in which it fires and a test in which it does not fire"
        );
    }
    for heading in headings {
        assert!(
            alerts.iter().any(|(name, ..)| name.to_lowercase() == heading),
            "no alert is named {heading}"
        );
    }
}

#[test]
fn promtool_finds_the_rules_right_and_their_tests_pass() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("there is no promtool; Debian's package `prometheus` has it");
        return;
    }
    for arguments in [&["check", "rules", "--lint=all", RULES][..], &["test", "rules", RULE_TESTS]] {
        let output = Command::new("promtool").args(arguments).current_dir(in_checkout("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}
