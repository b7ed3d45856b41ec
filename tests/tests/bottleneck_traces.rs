// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored traces, replayed by every method: what each says of each two subflows at 3 s and at the end must not change unless somebody
//! wants it to. A new case is a trace with its labels in `fixtures/bottleneck`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mpwatch_bench::bottleneck::score::{Tally, score};
use mpwatch_bench::bottleneck::truth::{Labels, SECOND};
use mpwatch_bench::bottleneck::verdict::{Said, Verdicts};
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
fn every_method_says_of_stored_traces_what_it_said() {
    let mut table = String::new();
    for (name, _, verdicts) in cases() {
        for method in verdicts.methods() {
            for (a, b) in verdicts.pairs() {
                let looks = verdicts.looks(method, verdicts.subflows[a].connection);
                let first = looks.first().map_or(0, |look| look.at);
                let of = |look: Option<&mpwatch_bench::bottleneck::verdict::Look>| {
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
fn the_method_that_was_asked_for_is_the_one_that_is_named() {
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
    assert!(!replay(&[]).contains("judged by"), "the usual one goes without saying");
}

/// 20 Mbit/s with a class and a queue of 10 ms for each of two subflows (htb), reno: their rates move against each other for most of 12 s.
#[test]
fn one_rate_with_a_queue_for_each_is_a_shared_cap() {
    let trace = folder().join("../caps/fair-n2-20m-none-eq-reno-12s-s2.mpw");
    let outcome = mpwatch(&["replay", trace.to_str().unwrap(), "--format", "json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let found = &report["connections"][0]["bottlenecks"];
    let [cap] = &found["shared_caps"].as_array().unwrap()[..] else { panic!("{found:#}") };
    assert_eq!(cap["subflows"].as_array().unwrap().len(), 2);
    let sum = cap["sum_bps"].as_f64().unwrap();
    assert!((14e6..20e6).contains(&sum), "payload of a rate of 20 Mbit/s: {cap:#}");
    assert_eq!(found["pairs"][0]["verdict"], "disjoint", "there are two queues");
}

/// Equal links with other traffic on both, of which one looks like the other for seconds (docs/bottleneck.md tells how often).
const KNOWN_TO_BE_WRONG: [&str; 1] = ["disjoint-n2-20m-cross-eq-cubic-5s-s0"];

#[test]
fn our_own_method_is_right_or_undecided_about_stored_traces() {
    let cases = cases();
    assert!(cases.len() >= 3, "there are traces");
    let mut decided = 0;
    for (name, labels, verdicts) in cases {
        assert_eq!(labels.flaw(), None, "{name}");
        let score = score(&labels, &verdicts).remove("concordance").unwrap();
        let wrong: u32 = score.at.iter().map(Tally::wrong).sum();
        if KNOWN_TO_BE_WRONG.contains(&name.as_str()) {
            assert_ne!(wrong, 0, "{name} is right now: take it off the list. {score:?}");
            continue;
        }
        assert_eq!(wrong, 0, "{name}: {score:?}");
        decided += usize::from(!score.times.is_empty());
    }
    // Two identical links without other traffic may stay `unknown` for all of five seconds.
    assert!(decided >= 3, "{decided} traces are decided");
}
