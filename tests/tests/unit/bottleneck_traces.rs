// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every method evaluates the stored traces. The verdicts on every pair of subflows at 3 s and at the end must not change by accident. A
//! new case is a trace with its labels in `fixtures/bottleneck`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mpwatch_bench::bottleneck::replay::replay;
use mpwatch_bench::bottleneck::score::{Tally, score};
use mpwatch_bench::bottleneck::tables::OURS;
use mpwatch_bench::bottleneck::truth::{Labels, SECOND};
use mpwatch_bench::bottleneck::verdict::{Evaluation, Verdicts};
use mpwatch_model::flow::bottleneck::Verdict;
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
        let name = trace.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&labels).unwrap(), replay(&trace).unwrap())
    };
    traces.into_iter().map(read).collect()
}

fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Shared => "shared",
        Verdict::Disjoint => "disjoint",
        Verdict::NoBottleneck => "no bottleneck",
        Verdict::Unknown => "unknown",
    }
}

#[test]
fn the_verdicts_of_every_method_on_stored_traces_are_unchanged() {
    let mut table = String::new();
    for (name, _, verdicts) in cases() {
        for method in verdicts.methods() {
            for (a, b) in verdicts.pairs() {
                let evaluations = verdicts.evaluations(method, verdicts.subflows[&a].connection);
                let first = evaluations.first().map_or(0, |evaluation| evaluation.at);
                let of = |evaluation: Option<&Evaluation>| {
                    words(evaluation.map_or(Verdict::Unknown, |evaluation| evaluation.verdict(a, b)))
                };
                let at_3_s =
                    of(evaluations.iter().rev().find(|evaluation| evaluation.at <= first + 3 * SECOND));
                let addresses = [a, b].map(|id| verdicts.subflows[&id].address.to_string());
                let (pair, last) = (addresses.join(" and "), of(evaluations.last()));
                writeln!(table, "{name}, {method}, {pair}: {at_3_s}, {last}").unwrap();
            }
        }
    }
    insta::assert_snapshot!("bottleneck_traces", table);
}

#[test]
fn a_report_names_the_method_unless_it_is_the_default_one() {
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
    assert!(!replay(&[]).contains("judged by"));
}

/// Two reno subflows share 20 Mbit/s (htb), each with a class and a queue of 10 ms. For most of 12 s, one gains the rate that the other
/// loses.
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

/// Traces of equal links with cross traffic, whose delays are similar for seconds (docs/bottleneck.md reports how often).
const KNOWN_TO_BE_WRONG: [&str; 1] = ["disjoint-n2-20m-cross-eq-cubic-5s-s0"];

#[test]
fn our_method_is_right_or_undecided_on_stored_traces() {
    let cases = cases();
    assert!(cases.len() >= 3, "there are traces");
    let mut decided = 0;
    for (name, labels, verdicts) in cases {
        assert_eq!(labels.flaw(), None, "{name}");
        let score = score(&labels, &verdicts).remove(OURS).unwrap();
        let wrong: u32 = score.at.iter().map(Tally::wrong).sum();
        if KNOWN_TO_BE_WRONG.contains(&name.as_str()) {
            assert_ne!(wrong, 0, "{name} is right now: remove it from the list. {score:?}");
            continue;
        }
        assert_eq!(wrong, 0, "{name}: {score:?}");
        decided += usize::from(!score.times.is_empty());
    }
    // Two equal links without other traffic may stay undecided for all of five seconds.
    assert!(decided >= 3, "{decided} traces are decided");
}
