// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored traces, replayed with every method: the verdict for every pair of subflows after 3 s and at the end must not change
//! unintentionally. To add a case, add a trace with its labels to `fixtures/bottleneck`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mpwatch_tests::bench::bottleneck::score::{Tally, score};
use mpwatch_tests::bench::bottleneck::truth::{Labels, SECOND};
use mpwatch_tests::bench::bottleneck::verdict::{Said, Verdicts};
use mpwatch_tests::mpwatch;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bottleneck")
}

fn cases() -> Vec<(String, Labels, Verdicts)> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "mpw")).collect();
    traces.sort();
    let read = |trace: PathBuf| {
        let labels = std::fs::read(trace.with_extension("json")).unwrap();
        let outcome = mpwatch(&["replay", trace.to_str().unwrap(), "--verdicts"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", trace.display());
        let name = trace.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&labels).unwrap(), Verdicts::parse(&outcome.stdout).unwrap())
    };
    traces.into_iter().map(read).collect()
}

fn words(said: Said) -> &'static str {
    match said {
        Said::Shared => "shared",
        Said::Disjoint => "disjoint",
        Said::NoBottleneck => "no bottleneck",
        Said::Unknown => "unknown",
    }
}

#[test]
fn verdicts_of_every_method_about_stored_traces_are_unchanged() {
    let mut table = String::new();
    for (name, _, verdicts) in cases() {
        for method in verdicts.methods() {
            for (a, b) in verdicts.pairs() {
                let looks = verdicts.looks(method, verdicts.subflows[a].connection);
                let first = looks.first().map_or(0, |look| look.at);
                let of = |look: Option<&mpwatch_tests::bench::bottleneck::verdict::Look>| {
                    words(look.and_then(|look| look.of(a, b)).map_or(Said::Unknown, |pair| pair.verdict))
                };
                let at_3_s = of(looks.iter().rev().find(|look| look.at <= first + 3 * SECOND));
                let addresses = [a, b].map(|id| verdicts.subflows[id].address().to_string());
                writeln!(
                    table,
                    "{name}, {method}, {}: {at_3_s}, {}",
                    addresses.join(" and "),
                    of(looks.last())
                )
                .unwrap();
            }
        }
    }
    insta::assert_snapshot!("bottleneck_traces", table);
}

#[test]
fn the_selected_method_is_used_and_named() {
    let trace = folder().join("shared-n2-20m-none-uneq-bbr-5s-s0.mpw");
    let replay = |more: &[&str]| {
        let outcome = mpwatch(&[&["replay", trace.to_str().unwrap()], more].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        outcome.stdout
    };
    for (method, verdict) in [("concordance", "shared"), ("rfc8382", "unknown")] {
        let report: serde_json::Value =
            serde_json::from_str(&replay(&["--method", method, "--format", "json"])).unwrap();
        let found = &report["connections"][0]["bottlenecks"];
        assert_eq!((&found["method"], &found["pairs"][0]["verdict"]), (&method.into(), &verdict.into()));
    }
    assert!(replay(&["--method", "rfc8382"]).contains("judged by rfc8382"));
    assert!(!replay(&[]).contains("judged by"), "the default method is not named");
}

/// Two subflows share 20 Mbit/s; each has its own htb class and queue of 10 ms. With reno, the rate of one falls when the other's
/// rises, for most of 12 s.
#[test]
fn one_rate_with_a_queue_per_subflow_is_a_shared_cap() {
    let trace = folder().join("../caps/fair-n2-20m-none-eq-reno-12s-s2.mpw");
    let outcome = mpwatch(&["replay", trace.to_str().unwrap(), "--format", "json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let found = &report["connections"][0]["bottlenecks"];
    let [cap] = &found["shared_caps"].as_array().unwrap()[..] else { panic!("{found:#}") };
    assert_eq!(cap["subflows"].as_array().unwrap().len(), 2);
    let sum = cap["sum_bps"].as_f64().unwrap();
    assert!((14e6..20e6).contains(&sum), "payload at a rate of 20 Mbit/s: {cap:#}");
    assert_eq!(found["pairs"][0]["verdict"], "disjoint", "there are two queues");
}

/// Equal links with cross traffic on both, which look alike for some seconds (docs/bottleneck.md says how often).
const KNOWN_TO_BE_WRONG: [&str; 1] = ["disjoint-n2-20m-cross-eq-cubic-5s-s0"];

#[test]
fn verdicts_of_the_default_method_about_stored_traces_are_right_or_undecided() {
    let cases = cases();
    assert!(cases.len() >= 3, "there are traces");
    let mut decided = 0;
    for (name, labels, verdicts) in cases {
        assert_eq!(labels.flaw(), None, "{name}");
        let score = score(&labels, &verdicts).remove("concordance").unwrap();
        let wrong: u32 = score.at.iter().map(Tally::wrong).sum();
        if KNOWN_TO_BE_WRONG.contains(&name.as_str()) {
            assert_ne!(wrong, 0, "the verdict on {name} is now right: remove it from the list. {score:?}");
            continue;
        }
        assert_eq!(wrong, 0, "{name}: {score:?}");
        decided += usize::from(!score.times.is_empty());
    }
    // Two identical links without cross traffic may stay `unknown` for all five seconds.
    assert!(decided >= 3, "only {decided} traces have a decided verdict");
}

#[test]
fn with_across_one_detector_gets_all_subflows_to_one_address() {
    let trace = folder().join("shared-n2-20m-none-uneq-bbr-5s-s0.mpw");
    let replay = |more: &[&str]| {
        let outcome = mpwatch(&[&["replay", trace.to_str().unwrap(), "--verdicts"], more].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        Verdicts::parse(&outcome.stdout).unwrap()
    };
    let (within, across) = (replay(&[]), replay(&["--across"]));
    let [(a, b)] = within.pairs()[..] else { panic!("{:?}", within.pairs()) };
    let last = |verdicts: &Verdicts| {
        let looks = verdicts.looks("concordance", within.subflows[a].connection);
        looks.last().unwrap().of(a, b).unwrap().verdict
    };
    assert_eq!((last(&within), last(&across)), (Said::Shared, Said::Shared));
    assert!(across.across && across.pairs().is_empty(), "one connection is not compared with itself");
}
