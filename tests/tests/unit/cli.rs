// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line without tracing: wrong usage, wrong files, help, completions. Needs no root. Tests that need root are in
//! `root_cli.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use mpwatch_tests::{CommandOutput, mpwatch, program};
use tempfile::TempDir;

const COMMANDS: &[(&str, &str)] = &[
    ("top", "live"),
    ("ls", "List"),
    ("show", "timeline"),
    ("why", "no second path"),
    ("record", "raw events"),
    ("replay", "recording"),
    ("report", "database"),
    ("doctor", "can be traced"),
    ("demo", "private namespaces"),
    ("selftest", "kernel's own"),
    ("completions", "shell"),
    ("man", "man page"),
];

/// Asserts the exit code, the words of the error message, and that there is no backtrace.
#[track_caller]
fn assert_fails(outcome: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    assert_eq!(outcome.stdout, "", "an error prints nothing on standard output");
    for word in words {
        assert!(outcome.stderr.contains(word), "`{word}` is not in: {}", outcome.stderr);
    }
    for word in ["panicked", "backtrace", "RUST_BACKTRACE"] {
        assert!(!outcome.stderr.contains(word), "{}", outcome.stderr);
    }
}

#[test]
fn an_error_names_the_wrong_flag() {
    assert_fails(&mpwatch(&["ls", "--jsn"]), 2, &["--jsn", "--json"]);
    assert_fails(&mpwatch(&["frobnicate"]), 2, &["frobnicate"]);
    assert_fails(&mpwatch(&["top", "--json"]), 2, &["--batch"]);
    assert_fails(&mpwatch(&["ls", "--json", "--csv"]), 2, &["--csv"]);
    assert_fails(&mpwatch(&["show"]), 2, &["<ID>"]);
    assert_fails(&mpwatch(&["demo", "three-paths"]), 2, &["three-paths", "two-paths"]);
}

#[test]
fn an_error_names_the_wrong_method_and_lists_all_methods() {
    for command in [&["top"][..], &["ls"], &["show", "1"], &["daemon"], &["demo"], &["replay", "run.mpw"]] {
        let arguments = [command, &["--method", "guess"]].concat();
        assert_fails(
            &mpwatch(&arguments),
            2,
            &["guess", "concordance", "ese-literal", "rfc8382", "dcw", "dwc"],
        );
    }
    assert_fails(&mpwatch(&["ls", "--method", "ese", "--no-bottlenecks"]), 2, &["--no-bottlenecks"]);
    let shown = mpwatch(&["config", "show", "--origin", "--method", "rfc8382"]);
    assert!(shown.stdout.contains("trace.method = \"rfc8382\"  # flag --method"), "{shown:?}");
    let shown =
        mpwatch(&["config", "show", "--no-bottlenecks", "--ring-size", "16M", "--overflow-size", "4096"]);
    for line in
        ["trace.bottlenecks = false\n", "trace.ring_size = \"16M\"\n", "trace.overflow_size = \"4K\"\n"]
    {
        assert!(shown.stdout.contains(line), "{line} in {shown:?}");
    }
    assert!(!shown.stdout.contains("trace.method"), "nothing is detected: {shown:?}");
}

#[test]
fn an_error_names_the_wrong_token_of_a_filter() {
    assert_fails(&mpwatch(&["ls", "--filter", "rtt>fast"]), 2, &["rtt>fast"]);
    assert_fails(&mpwatch(&["ls", "--filter", "proc:nginx colour:red"]), 2, &["colour:red"]);
}

#[test]
fn an_error_names_the_wrong_value_and_the_valid_ones() {
    assert_fails(&mpwatch(&["top", "--interval", "10ms"]), 2, &["10ms", "use 100ms to 60s", "500ms"]);
    assert_fails(&mpwatch(&["top", "--interval", "soon"]), 2, &["soon", "use 100ms to 60s", "500ms"]);
    for wrong in ["1h", "10ms"] {
        let rule = &[wrong, "use 100ms to 60s, for example 500ms, 2s or 1m", "the default is \"1s\""];
        assert_fails(&mpwatch(&["config", "check", "--interval", wrong]), 2, rule);
    }
    assert_fails(&mpwatch(&["demo", "--seconds", "0"]), 2, &["0", "2..=3600"]);
    assert_fails(&mpwatch(&["top", "--batch", "-n", "0"]), 2, &["0", "a whole number above 0"]);
    assert_fails(&mpwatch(&["top", "--batch", "--netns", "no-such"]), 2, &["no network namespace `no-such`"]);
    assert_fails(&mpwatch(&["top", "--ring-size", "3M"]), 2, &["3M", "power of two"]);
}

/// Writes a temporary file.
fn file(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.mpw");
    std::fs::File::create(&path).unwrap().write_all(content).unwrap();
    (folder, path)
}

fn replay(content: &[u8]) -> CommandOutput {
    let (_folder, path) = file(content);
    mpwatch(&["replay", path.to_str().unwrap()])
}

fn compressed(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 3).unwrap()
}

#[test]
fn a_file_that_is_not_a_recording_is_refused_with_a_reason() {
    assert_fails(&mpwatch(&["replay", "/nonexistent/run.mpw"]), 1, &["/nonexistent/run.mpw", "No such file"]);
    assert_fails(&replay(b""), 1, &["run.mpw", "not a recording", "mpwatch record"]);
    let noise: Vec<u8> = (0..5_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    assert_fails(&replay(&noise), 1, &["run.mpw", "not a recording"]);
    assert_fails(&replay(b"{\"mpwatch_recording\":1}\n"), 1, &["run.mpw", "not a recording"]);
    assert_fails(&replay(&compressed("")), 1, &["not a recording", "empty"]);
    assert_fails(&replay(&compressed("{\"name\":\"x\"}\n")), 1, &["not a recording"]);
    assert_fails(&replay(&compressed("[1]\n[2]\n")), 1, &["not a recording"]);
    assert_fails(&replay(&compressed("{\"mpwatch_recording\":1}\n{}\n")), 1, &["not a recording"]);
    assert_fails(&replay(&compressed(&"x".repeat(3 << 20))), 1, &["not a recording"]);
}

/// Replays a stored recording without its last bytes, and one with some bytes changed.
#[test]
fn a_damaged_recording_is_replayed_up_to_the_damage_with_exit_code_1() {
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/events/two_paths.mpw");
    let whole = std::fs::read(stored).unwrap();
    let complete = replay(&whole);
    assert_eq!((complete.code, complete.stderr.as_str()), (Some(0), ""));
    let truncated = whole[..whole.len() - 20].to_vec();
    let mut overwritten = whole.clone();
    let middle = whole.len() * 9 / 10;
    overwritten[middle..middle + 64].fill(0x5a);
    for damaged in [truncated, overwritten] {
        let (folder, path) = file(&damaged);
        let db = folder.path().join("run.db");
        let outcome = mpwatch(&["replay", path.to_str().unwrap(), "--db", db.to_str().unwrap()]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("the output has everything before that"), "{}", outcome.stderr);
        assert!(outcome.stdout.contains("RECORDING CUT SHORT"), "{}", outcome.stdout);
        let reported = mpwatch(&["report", "--db", db.to_str().unwrap()]);
        assert_eq!((reported.code, reported.stdout), (Some(0), outcome.stdout), "the same from the database");
    }
}

#[test]
fn a_recording_of_a_newer_version_needs_a_newer_program() {
    let outcome = replay(&compressed("{\"mpwatch_recording\":99}\n"));
    assert_fails(&outcome, 1, &["format 99", "newer mpwatch"]);
}

#[test]
fn an_unknown_variable_of_the_environment_is_an_error_with_the_nearest_name() {
    let run = |variable: &str, arguments: &[&str]| -> CommandOutput {
        let output = Command::new(program()).args(arguments).env(variable, "5s").output();
        output.expect("mpwatch can be started").into()
    };
    for arguments in [&["config", "check"][..], &["daemon"], &["ls"], &["man"]] {
        assert_fails(&run("MPWATCH_INTERVALL", arguments), 2, &["MPWATCH_INTERVALL", "`MPWATCH_INTERVAL`?"]);
    }
    assert_fails(&run("MPWATCH_FOO", &["daemon"]), 2, &["MPWATCH_FOO", "does not know"]);
    let shown = run("MPWATCH_INTERVAL", &["config", "show", "--origin"]);
    assert!(shown.stdout.contains("interval = \"5s\"  # environment MPWATCH_INTERVAL"), "{shown:?}");
    let checked = run("MPWATCH_INTERVAL", &["config", "check", "--config", "/dev/null"]);
    assert_eq!(checked.stdout, "the configuration is valid\nread from /dev/null\n", "{checked:?}");
}

#[test]
fn a_file_that_is_not_btf_is_refused() {
    let (_folder, path) = file(b"no BTF at all");
    let outcome = mpwatch(&["doctor", "--btf", path.to_str().unwrap()]);
    assert_fails(&outcome, 1, &["BTF", path.to_str().unwrap()]);
    assert_fails(&mpwatch(&["doctor", "--btf", "/nonexistent"]), 1, &["/nonexistent", "No such file"]);
}

#[test]
fn the_help_of_every_command_begins_with_its_effect() {
    let all = mpwatch(&["--help"]);
    assert_eq!(all.code, Some(0));
    for (command, word) in COMMANDS {
        assert!(all.stdout.contains(command), "{command} is not in the help");
        let help = mpwatch(&[command, "--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command}");
        let first = help.stdout.lines().next().unwrap_or_default();
        assert!(first.contains(word), "`{word}` is not in the first line of {command}'s help: {first}");
    }
    let version = mpwatch(&["--version"]);
    assert_eq!(version.stdout.trim(), concat!("mpwatch ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_man_page_contain_every_command() {
    let texts = ["bash", "zsh", "fish"].map(|shell| mpwatch(&["completions", shell]));
    for text in texts.into_iter().chain([mpwatch(&["man"])]) {
        assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
        for (command, _) in COMMANDS {
            assert!(text.stdout.contains(command), "{command} is missing in: {}", text.stdout);
        }
    }
    assert!(mpwatch(&["man"]).stdout.contains(".TH MPWATCH 1"));
    assert_fails(&mpwatch(&["completions", "cmd.exe"]), 2, &["cmd.exe", "bash"]);
}

#[test]
fn a_command_refuses_options_that_it_cannot_follow() {
    for arguments in [
        &["report", "--tcp"][..],
        &["replay", "run.mpw", "--ring-size", "4K"],
        &["config", "schema", "--no-bottlenecks"],
        &["completions", "bash", "--socket", "x"],
        &["man", "--netns", "x"],
        &["daemon", "--filter", "port:1"],
        &["--tcp", "ls"],
    ] {
        let option = arguments.iter().find(|argument| argument.starts_with("--")).unwrap();
        assert_fails(&mpwatch(arguments), 2, &[option]);
    }
}

#[test]
fn a_misspelt_option_and_an_empty_id_are_refused_with_a_hint() {
    for command in ["top", "record", "daemon"] {
        let outcome = mpwatch(&[command, "--intervall", "2s"]);
        assert_fails(&outcome, 2, &["--intervall", "did you mean `--interval`?"]);
    }
    let outcome = mpwatch(&["ls", "--intervall", "2s"]);
    assert_fails(&outcome, 2, &["`--interval` is an option of `top`, `daemon`, `record`"]);
    assert_fails(&mpwatch(&["show", ""]), 2, &["a value is required for '<ID>'"]);
}

#[test]
fn wrong_tracing_options_are_refused_with_advice() {
    assert_fails(&mpwatch(&["top", "--ledger", "exakt"]), 2, &["exakt", "'exact'"]);
    assert_fails(&mpwatch(&["demo", "--simulate-rapl", "--ledger", "off"]), 2, &["--simulate-rapl needs"]);
    for budget in ["0", "0%", "100.5%", "much"] {
        assert_fails(&mpwatch(&["record", "x.mpw", "--budget", budget]), 2, &["--budget", "for example 1%"]);
    }
}

#[test]
fn every_command_has_a_man_page_of_its_own() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("man1");
    let written = mpwatch(&["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{}", written.stderr);
    for (command, _) in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("mpwatch-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH MPWATCH-{} 1", command.to_uppercase())), "{page}");
        assert_eq!(page, mpwatch(&["man", command]).stdout, "{command}");
    }
    let page = std::fs::read_to_string(pages.join("mpwatch.1")).unwrap();
    assert!(page.contains("mpwatch\\-report(1)"), "{page}");
    assert_fails(&mpwatch(&["man", "reprot"]), 2, &["reprot", "`report`?"]);
    assert_fails(&mpwatch(&["man", "--dir", "/proc/x"]), 1, &["/proc/x"]);
}

#[test]
fn the_man_page_describes_every_option_of_every_command() {
    for (command, _) in COMMANDS.iter().chain(&[("daemon", ""), ("calibrate", "")]) {
        let page = mpwatch(&["man", command]).stdout.replace('\\', "");
        let help = mpwatch(&[command, "-h"]).stdout;
        let words = help.lines().filter_map(|line| {
            line.trim_start().strip_prefix('-')?.split_whitespace().find(|word| word.starts_with('-'))
        });
        for option in words.filter(|option| *option != "--help") {
            let described = page.split(".TP\n").any(|entry| {
                let mut lines = entry.lines();
                let is_this = lines
                    .next()
                    .is_some_and(|head| head.contains(&format!("-{}", option.trim_start_matches('-'))));
                is_this && lines.next().is_some_and(|text| text.len() > 5)
            });
            assert!(described, "{command} {option} has no description in the man page");
        }
    }
}
