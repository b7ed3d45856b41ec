// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of texts: help, findings, time axes, and the text that replaces an empty table.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use mpwatch_fixtures as fixture;
use mpwatch_tui::screen::{Link, Origin, Settings};

use stage::{Stage, empty, losses, no_rapl, normal, open, second};

fn replay() -> Stage {
    let origin = Origin::Replay("run.mpw".to_owned());
    let mut stage = Stage::with(Settings { origin: origin.clone(), ..Settings::default() }, 120, 40);
    stage.link(Link::Up(origin));
    stage
}

/// Eight intervals of a second, then a short interval in which the recording stopped and the connection closed.
#[test]
fn the_time_axis_follows_from_the_times_of_the_snapshots() {
    let mut stage = replay();
    for number in 0..8 {
        stage.show(second(fixture::snapshot(vec![fixture::connection(1, 2)]), number));
    }
    let mut last = fixture::snapshot(vec![fixture::closed(1)]);
    last.at = fixture::at(12_500_000 + 7_103_000);
    last.interval_s = Some(0.103);
    stage.show(last).press("o enter").has("─ Rate  1 eth1  2 eth2").has("─ RTT  1 eth1");
    let axis = stage.line_with("-5 s");
    assert_eq!(axis.split_whitespace().collect::<Vec<_>>(), ["-10", "s", "-5", "s", "0", "s"].repeat(2));
}

#[test]
fn an_empty_replay_gives_no_advice_about_this_machine() {
    let mut stage = replay();
    stage
        .show(empty())
        .has("No open connection at this time of the recording.")
        .lacks("sysctl")
        .lacks("mptcpize");
    let mut live = Stage::new(120, 40);
    live.link(Link::Up(Origin::Tracer)).show(empty()).has("sysctl net.mptcp.enabled");
}

#[test]
fn the_lists_of_columns_show_every_help_in_full() {
    for keys in ["c", "s", "4 c"] {
        let mut stage = open(normal, 80, 24);
        stage.press(keys);
        let mut seen = String::new();
        for _ in 0..80 {
            let text = stage.text();
            let is_of_list = |line: &&str| line.contains('│');
            seen.extend(text.lines().filter(is_of_list).map(|line| format!("{line}\n")));
            stage.press("down");
        }
        let cut: Vec<&str> =
            seen.lines().filter(|line| line.contains('…') && line.matches('│').count() > 1).collect();
        assert!(cut.is_empty(), "{cut:#?}");
    }
    // Some help texts need two lines at this width. The end of the list can still be reached.
    let mut stage = open(normal, 80, 24);
    stage.press("c G").has("J/GB");
}

#[test]
fn findings_that_do_not_fit_end_with_an_ellipsis() {
    let mut stage = open(losses, 80, 24);
    stage.press("enter").has("and cost …").resize(200, 60).lacks(" …");
}

#[test]
fn the_detail_view_has_no_energy_columns_without_joules() {
    open(no_rapl, 200, 60).press("enter").has("SUBFLOW").lacks("ENERGY");
    open(normal, 200, 60).press("enter").has("SUBFLOW").has("ENERGY");
}

#[test]
fn names_cannot_control_the_terminal() {
    let mut hostile = normal();
    let connection = &mut hostile.connections[0];
    let comm = *b"\x1b[2J\xe6\x97\xa5\xe6\x9c\xac\n\0\0\0\0\0";
    connection.process.as_mut().unwrap().comm = mpwatch_model::kernel::endpoint::Name::from_kernel(comm);
    "a\rb\x1b]0;x\x07".clone_into(&mut connection.netns);
    connection.cgroup = Some("/x\x1b[31m".to_owned());
    hostile.host.name = "h\x1b[2J".to_owned();
    let mut stage =
        Stage::with(Settings { columns: vec![("cgroup".to_owned(), true)], ..Settings::default() }, 200, 60);
    stage.show(hostile);
    for keys in ["1", "2", "3", "4", "4 p", "4 p p", "5", "1 g enter"] {
        assert!(!stage.press(keys).text().contains(['\x1b', '\r', '\x07']), "{keys}");
    }
}
