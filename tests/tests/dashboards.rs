// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dashboards and rules are valid and use only exported metrics. host_prometheus.rs checks that they show data.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpwatch_exporters::prometheus::described;
use mpwatch_model::metric::Kind;
use mpwatch_tests::dashboards::{DASHBOARDS, Draw, file, query};
use mpwatch_tests::{list, skip, text};
use serde_json::Value;

const RULES: &str = "dashboards/rules/mpwatch.yml";
const RULE_TESTS: &str = "dashboards/rules/mpwatch_test.yml";
const RUNBOOK: &str = "docs/runbook.md";
/// Metrics that Prometheus adds to every scrape.
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

/// Exported series names, and whether each is a counter.
fn exported() -> Vec<(String, bool)> {
    let sections = described();
    let all = sections.iter().flat_map(|section| &section.metrics);
    let names = all.flat_map(|metric| match metric.kind {
        Kind::Histogram => {
            ["_bucket", "_sum", "_count"].map(|end| (format!("{}{end}", metric.name), true)).to_vec()
        }
        kind => vec![(metric.name.clone(), kind == Kind::Counter)],
    });
    names.collect()
}

/// Metric names in an expression, without those of recording rules.
fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = expression.split(|letter| !is_part(letter));
    let is_metric = |word: &&str| {
        let is_exported = word.starts_with("mpwatch_") || word.starts_with("process_");
        (is_exported || PROMETHEUS.contains(word)) && !word.contains(':')
    };
    words.filter(is_metric).collect()
}

/// Name, expression and definition of every rule.
fn rules() -> Vec<(String, String, Value)> {
    let file = yaml(RULES);
    let all = list(&file, "groups").iter().flat_map(|group| list(group, "rules").to_vec());
    let named = all.map(|rule| {
        let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap().to_owned();
        (name, text(&rule, "expr").to_owned(), rule)
    });
    named.collect()
}

/// Every query of every panel, with the names of its dashboard and panel.
fn queries() -> impl Iterator<Item = (String, String)> {
    let panels = DASHBOARDS
        .iter()
        .flat_map(|board| board.rows.iter().flat_map(|(_, row)| *row).map(move |panel| (board.name, panel)));
    panels.flat_map(|(board, panel)| {
        let of = move |(text, _): &(&str, &str)| (format!("{board}: {}", panel.title), query(text));
        panel.queries.iter().map(of).collect::<Vec<_>>()
    })
}

#[test]
fn generated_dashboards_are_current() {
    let bless = std::env::var_os("MPWATCH_BLESS").is_some();
    for board in DASHBOARDS {
        let name = format!("dashboards/grafana/{}.json", board.name);
        let generated = format!("{:#}\n", file(board));
        if bless {
            fs::write(in_checkout(&name), &generated).unwrap();
        }
        let advice = "run MPWATCH_BLESS=1 cargo test -p mpwatch-tests --test dashboards";
        assert!(
            fs::read_to_string(in_checkout(&name)).is_ok_and(|text| text == generated),
            "{name} is out of date; {advice}"
        );
    }
}

#[test]
fn every_panel_has_a_description_and_a_unit() {
    for board in DASHBOARDS {
        let mut ids = BTreeSet::new();
        for panel in list(&file(board), "panels") {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "panel ids are unique");
            assert!(!text(panel, "title").is_empty());
            if text(panel, "type") == "row" {
                continue;
            }
            let description = text(panel, "description");
            assert!(
                description.ends_with('.') && description.starts_with(char::is_uppercase),
                "{description}"
            );
            assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty());
            assert_eq!(text(&panel["datasource"], "uid"), "${datasource}");
            assert!(!list(panel, "targets").is_empty());
            let position = &panel["gridPos"];
            assert!(position["x"].as_u64().unwrap() + position["w"].as_u64().unwrap() <= 24, "{position}");
        }
        let dashboard = file(board);
        let variables: Vec<&str> =
            list(&dashboard["templating"], "list").iter().map(|one| text(one, "name")).collect();
        assert_eq!(variables, ["datasource", "job", "instance"]);
        assert_eq!(dashboard["editable"], false);
    }
}

#[test]
fn panels_do_not_overlap() {
    for board in DASHBOARDS {
        let mut taken = BTreeSet::new();
        for panel in list(&file(board), "panels") {
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
                assert!(taken.insert(cell), "{}: {} overlaps another panel", board.name, panel["title"]);
            }
        }
    }
}

#[test]
fn dashboards_rules_and_runbook_use_only_exported_metrics() {
    let exported: BTreeSet<String> = exported().into_iter().map(|(name, _)| name).collect();
    let known = |name: &str| exported.contains(name) || PROMETHEUS.contains(&name);
    for (panel, expression) in queries() {
        let metrics = metrics_of(&expression);
        assert!(!metrics.is_empty(), "{panel} uses no metric");
        for metric in metrics {
            assert!(known(metric), "{panel}: {metric} is not exported");
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
            assert!(recorded.contains(word), "{name}: no rule records {word}");
        }
    }
    for metric in metrics_of(&read(RUNBOOK)) {
        assert!(known(metric), "the runbook: {metric} is not exported");
    }
}

#[test]
fn counters_are_queried_as_rates_and_every_query_selects_job_and_instance() {
    let exported = exported();
    for (panel, expression) in queries() {
        for metric in metrics_of(&expression) {
            for (at, _) in expression.match_indices(metric) {
                let after = &expression[at + metric.len()..];
                if after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
                    continue;
                }
                assert!(
                    after.starts_with("{job=~\"$job\",instance=~\"$instance\"}"),
                    "{panel}: {metric} without job and instance"
                );
                let is_counter = exported.iter().any(|(name, counter)| name == metric && *counter);
                // This panel shows the difference between a zone and its parts: of the totals, not of rates.
                let is_difference = panel.ends_with("Not conserved");
                if is_counter && !is_difference {
                    let before = &expression[..at];
                    assert!(
                        before.ends_with("rate(") || before.ends_with("increase("),
                        "{panel}: {metric} without rate()"
                    );
                    let range = after.split('}').nth(1).unwrap_or_default();
                    let windows = ["[$__rate_interval]", "[$__range]"];
                    assert!(
                        windows.iter().any(|window| range.starts_with(window)),
                        "{panel}: {metric}{after}"
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
            let of_this_alert = all.filter(|one| text(one, "alertname") == name);
            of_this_alert.map(|one| !list(one, "exp_alerts").is_empty()).collect()
        };
        let outcomes: BTreeSet<bool> = list(&tests, "tests").iter().flat_map(of_alert).collect();
        assert_eq!(
            outcomes,
            BTreeSet::from([false, true]),
            "{name} has no test in which it fires, or none in which it does not"
        );
    }
    for heading in headings {
        assert!(alerts.iter().any(|(name, ..)| name.to_lowercase() == heading), "{heading} is not an alert");
    }
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    if Command::new("promtool").arg("--version").output().is_err() {
        skip("promtool is missing; it is in Debian's package `prometheus`");
        return;
    }
    for arguments in [&["check", "rules", "--lint=all", RULES][..], &["test", "rules", RULE_TESTS]] {
        let output = Command::new("promtool").args(arguments).current_dir(in_checkout("")).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {messages}");
    }
}
