// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares every view in many states and sizes with golden files. INSTA_UPDATE=always regenerates them; read changed files as a user would.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use std::fmt::Write as _;

use insta::assert_snapshot;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::screen::{Settings, Tab};

use stage::{Stage, empty, estimated, losses, many, no_rapl, normal, open, second};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 8)];

/// The text of all views below each other; the detail view of the first connection is last.
fn views(snapshot: fn() -> Snapshot, (columns, rows): (u16, u16)) -> String {
    all_views(&mut open(snapshot, columns, rows))
}

fn all_views(stage: &mut Stage) -> String {
    let mut text = String::new();
    for (key, tab) in (1..).zip(Tab::ALL) {
        stage.press(&key.to_string());
        let _ = write!(text, "==== {} ====\n{}\n", tab.as_str(), stage.text());
    }
    stage.press("1 g enter");
    let _ = write!(text, "==== Detail ====\n{}\n", stage.text());
    text
}

fn golden(name: &str, snapshot: fn() -> Snapshot) {
    for (columns, rows) in SIZES {
        assert_snapshot!(format!("{name}_{columns}x{rows}"), views(snapshot, (columns, rows)));
    }
}

#[test]
fn no_connection() {
    golden("empty", empty);
}

#[test]
fn connections_of_every_kind() {
    golden("normal", normal);
}

#[test]
fn ten_thousand_flows() {
    golden("many", || many(10_000));
}

#[test]
fn no_energy_counter() {
    golden("no_rapl", no_rapl);
}

#[test]
fn estimated_energy() {
    assert_snapshot!("estimated_120x40", views(estimated, (120, 40)));
}

/// Golden files of all views and the help in ASCII.
#[test]
fn a_terminal_without_utf_8() {
    for (columns, rows) in [(80, 24), (120, 40)] {
        let mut stage = Stage::with(Settings { ascii: true, ..Settings::default() }, columns, rows);
        for number in 0..8 {
            stage.show(second(losses(), number));
        }
        let text = all_views(&mut stage) + "==== Help ====\n" + &stage.press("?").text();
        assert!(text.is_ascii(), "{text}");
        assert_snapshot!(format!("ascii_{columns}x{rows}"), text);
    }
}

#[test]
fn help() {
    for (columns, rows) in SIZES {
        assert_snapshot!(format!("help_{columns}x{rows}"), open(empty, columns, rows).press("?").text());
    }
}

#[test]
fn data_lost() {
    golden("losses", losses);
}
