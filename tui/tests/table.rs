// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goldens of the live table, and what must hold at every size. Read a changed golden as a user would, then accept it
//! with INSTA_UPDATE=always.
#![allow(clippy::expect_used, reason = "the fixtures are known")]

use insta::assert_snapshot;
use mpwatch_model::fixture;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::{Size, Style, table};

fn draw(snapshot: &Snapshot, columns: u16, rows: u16) -> String {
    table(snapshot, Size { columns, rows }, Style::Plain)
}

fn empty() -> Snapshot {
    fixture::snapshot(Vec::new())
}

fn normal() -> Snapshot {
    fixture::snapshot(vec![fixture::fallen_back(0x0fa1_1bac), fixture::connection(0x9f3c_0a1b, 2)])
}

fn closed() -> Snapshot {
    fixture::snapshot(vec![fixture::closed(0x00c1_05ed), fixture::connection(0x9f3c_0a1b, 2)])
}

fn failover() -> Snapshot {
    fixture::snapshot(vec![fixture::failover(0x5c11_a0e2)])
}

fn losses() -> Snapshot {
    let mut snapshot = normal();
    snapshot.losses = fixture::losses();
    snapshot.host.missing.push(fixture::missing_hook());
    snapshot
}

fn many() -> Snapshot {
    let mut connections: Vec<_> =
        (0..14u8).map(|n| fixture::connection(0x4d2a_0b10 + u32::from(n), 1 + n % 4)).collect();
    connections.push(fixture::closed(0x00c1_05ed));
    fixture::snapshot(connections)
}

fn hostile() -> Snapshot {
    let mut snapshot = failover();
    let mut comm = *b"\x1b[2J\xe6\x97\xa5\xe6\x9c\xac\n\0\0\0\0\0";
    comm[15] = 0;
    let process = snapshot.connections[0].process.as_mut().expect("the fixture has a process");
    process.comm = mpwatch_model::endpoint::Name::from_kernel(comm);
    "a\rb".clone_into(&mut snapshot.connections[0].netns);
    snapshot.host.name = "x".repeat(300);
    snapshot
}

#[test]
fn eighty_columns_are_usable() {
    assert_snapshot!("empty_80x24", draw(&empty(), 80, 24));
    assert_snapshot!("normal_80x24", draw(&normal(), 80, 24));
    assert_snapshot!("closed_80x24", draw(&closed(), 80, 24));
    assert_snapshot!("failover_80x24", draw(&failover(), 80, 24));
    assert_snapshot!("losses_80x24", draw(&losses(), 80, 24));
    assert_snapshot!("many_80x24", draw(&many(), 80, 24));
}

#[test]
fn more_width_shows_more_columns() {
    assert_snapshot!("normal_120x40", draw(&normal(), 120, 40));
    assert_snapshot!("closed_120x40", draw(&closed(), 120, 40));
    assert_snapshot!("failover_120x40", draw(&failover(), 120, 40));
    assert_snapshot!("losses_120x40", draw(&losses(), 120, 40));
    assert_snapshot!("normal_200x60", draw(&normal(), 200, 60));
    assert_snapshot!("failover_200x60", draw(&failover(), 200, 60));
}

#[test]
fn a_screen_too_small_says_so() {
    assert_snapshot!(draw(&normal(), 40, 8), @r"
    This terminal is 40x8.
    mpwatch needs 60x10.
    ");
    assert_eq!(draw(&normal(), 0, 0), "");
}

#[test]
fn no_line_wraps_and_no_frame_scrolls() {
    for snapshot in [empty(), normal(), closed(), failover(), losses(), many(), hostile()] {
        for (columns, rows) in
            (1..=260).flat_map(|columns| [(columns, 3), (columns, 10), (columns, 24), (columns, 90)])
        {
            let text = draw(&snapshot, columns, rows);
            assert!(text.lines().count() <= rows.into(), "{columns}x{rows}:\n{text}");
            for line in text.lines() {
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= columns.into(), "{width} of {columns} columns: {line}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }
}

#[test]
fn a_connection_too_high_for_the_screen_shows_what_fits() {
    let text = draw(&fixture::snapshot(vec![fixture::connection(0x9f3c_0a1b, 20)]), 80, 12);
    assert_eq!(text.lines().count(), 12);
    assert!(text.ends_with("13 more subflows"), "{text}");
}

#[test]
fn colour_adds_nothing_but_colour() {
    for snapshot in [empty(), closed(), failover(), losses(), many()] {
        let size = Size { columns: 120, rows: 40 };
        let coloured = table(&snapshot, size, Style::Colour);
        assert_eq!(without_sgr(&coloured), table(&snapshot, size, Style::Plain));
    }
    let red = table(&losses(), Size { columns: 80, rows: 24 }, Style::Colour);
    assert!(
        red.lines().nth(1).is_some_and(|line| line.starts_with("\x1b[1;31mINCOMPLETE: final records lost")),
        "{red}"
    );
}

fn without_sgr(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or("").to_owned();
    pieces.fold(first, |plain, piece| plain + piece.split_once('m').map_or("", |(_, rest)| rest))
}
