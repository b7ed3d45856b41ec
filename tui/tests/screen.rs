// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden files of every view in every state and size. Read a changed file as a user would, then regenerate it with INSTA_UPDATE=always.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use std::fmt::Write as _;

use insta::assert_snapshot;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_tui::screen::Tab;

use stage::{empty, estimated, losses, many, no_rapl, normal, open};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 8)];

/// All views below each other, the detail of the first connection last.
fn views(snapshot: fn() -> Snapshot, (columns, rows): (u16, u16)) -> String {
    let mut stage = open(snapshot, columns, rows);
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

#[test]
fn data_lost() {
    golden("losses", losses);
}
