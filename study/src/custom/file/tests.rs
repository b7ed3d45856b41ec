// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of experiment files: valid files, and the error messages for invalid ones.

use super::*;
use crate::data::key;

const EXAMPLE: &str = include_str!("../../../../packaging/examples/study.toml");

fn keys(custom: &CustomExperiment) -> Vec<String> {
    custom.experiment.cells(crate::experiment::Scale::Full).iter().map(|cell| key(&cell.factors)).collect()
}

#[test]
fn the_documented_example_has_a_cell_for_each_combination() {
    let custom = CustomExperiment::parse(EXAMPLE, &["energy"]).unwrap();
    let expected = [
        "bytes=1000000 transport=tcp",
        "bytes=1000000 transport=mptcp",
        "bytes=100000000 transport=tcp",
        "bytes=100000000 transport=mptcp",
    ];
    assert_eq!(keys(&custom), expected);
    assert_eq!(custom.server.words(), ["ssh", "root@rack2", "mpwatch", "study", "endpoint"]);
    assert_eq!(custom.experiment.description.baseline, [Factor::new("transport", &"tcp")]);
}

#[test]
fn the_manual_shows_the_example() {
    let manual = include_str!("../../../../docs/study.md");
    for line in EXAMPLE.lines().filter(|line| !line.starts_with('#')) {
        assert!(manual.contains(line), "docs/study.md lacks `{line}`");
    }
}

#[test]
fn without_a_command_an_end_is_this_program_on_this_machine() {
    let text = EXAMPLE.replace("command = [\"ssh\", \"root@rack1\"]", "");
    let words = CustomExperiment::parse(&text, &[]).unwrap().client.words();
    assert_eq!(words, [&std::env::current_exe().unwrap().display().to_string(), "endpoint"]);
}

#[test]
fn every_error_states_the_problem_and_a_remedy() {
    let cases = [
        ("name = \"racks\"", "name = \"energy\"", "choose another name"),
        ("name = \"racks\"", "name = \"My racks\"", "lower-case"),
        ("name = \"racks\"", "nmae = \"racks\"", "line 3: unknown field `nmae`"),
        ("address = \"192.0.2.7\"", "", "[server] has no address"),
        ("\"goodput_bps\"", "\"goodput\"", "did you mean `goodput_bps`?"),
        ("\"goodput_bps\"", "\"core_use\"", "only in the lab"),
        ("transport = \"tcp\" }", "transport = \"udp\" }", "not a value of a factor"),
        ("[\"tcp\", \"mptcp\"]", "[\"tcp\", \"udp\"]", "unknown variant `udp`"),
        ("[\"tcp\", \"mptcp\"]", "\"tcp\"", "write for example transport = [1, 2]"),
        ("over = \"bytes\"", "over = \"size\"", "add it to [factors]"),
        ("connections = 4", "seconds = 4", "either bytes or seconds"),
        ("connections = 4", "connections = 0", "use 1 or more"),
        ("connections = 4", "streams = 4", "unknown field `streams`"),
    ];
    for (from, to, expected) in cases {
        assert!(EXAMPLE.contains(from), "{from}");
        let error = CustomExperiment::parse(&EXAMPLE.replacen(from, to, 1), &["energy"]).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
