// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `top --batch` and `ls` with golden files. INSTA_UPDATE=always regenerates them; read each changed file as a user would.
#![allow(clippy::unwrap_used, reason = "a test")]

use insta::assert_snapshot;
use mpwatch_fixtures as fixture;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::{list, table};

fn normal() -> Snapshot {
    fixture::snapshot(vec![fixture::fallen_back(0x0fa1_1bac), fixture::connection(0x9f3c_0a1b, 2)])
}

fn losses() -> Snapshot {
    let mut snapshot = normal();
    snapshot.losses = fixture::losses();
    snapshot.host.missing.push(fixture::missing_hook());
    snapshot
}

fn failover_and_closed() -> Snapshot {
    fixture::snapshot(vec![fixture::closed(0x00c1_05ed), fixture::failover(0x5c11_a0e2)])
}

fn hostile() -> Snapshot {
    let mut snapshot = failover_and_closed();
    let comm = *b"\x1b[2J\xe6\x97\xa5\xe6\x9c\xac\n\0\0\0\0\0";
    snapshot.connections[0].process.as_mut().unwrap().comm = Name::from_kernel(comm);
    "a\rb".clone_into(&mut snapshot.connections[0].netns);
    snapshot.host.name = "x".repeat(300);
    snapshot
}

#[test]
fn more_width_shows_more_columns() {
    assert_snapshot!("normal_80", table(&normal(), 80));
    assert_snapshot!("normal_160", table(&normal(), 160));
    assert_snapshot!("normal_240", table(&normal(), 240));
    assert_snapshot!("failover_160", table(&failover_and_closed(), 160));
    assert_snapshot!("losses_160", table(&losses(), 160));
    assert_snapshot!("empty_160", table(&fixture::snapshot(Vec::new()), 160));
}

#[test]
fn a_list_has_a_line_for_each_connection() {
    let mut snapshot = normal();
    snapshot.connections.push(fixture::closed(0x00c1_05ed));
    assert_snapshot!("list", list(&snapshot));
    assert_eq!(list(&fixture::snapshot(Vec::new())).lines().count(), 1);
}

#[test]
fn no_line_is_too_wide_and_no_name_controls_the_terminal() {
    for snapshot in [normal(), losses(), failover_and_closed(), hostile()] {
        for width in 1..=260 {
            let text = table(&snapshot, width);
            for line in text.lines() {
                let actual = unicode_width::UnicodeWidthStr::width(line);
                assert!(actual <= width, "{actual} of {width} columns: {line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
        assert!(!list(&snapshot).chars().any(|letter| letter.is_control() && letter != '\n'));
    }
}

#[test]
fn connections_that_were_observed_partly_are_marked_and_the_mark_is_explained() {
    let lists =
        [fixture::fallen_back(1), fixture::connection(2, 2)].map(|flow| list(&fixture::snapshot(vec![flow])));
    let marks = lists.each_ref().map(|text| {
        (text.lines().any(|line| line.ends_with(" partly")), text.contains("partly, *: not all"))
    });
    assert_eq!(marks, [(true, true), (false, false)], "{lists:?}");
}
