// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the views in different states and sizes: charts, failed paths, the filter, the end of a replay.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::unit::BitsPerSecond;
use mpwatch_tui::screen::{Link, Origin, Settings};

use stage::{Stage, empty, many, normal, open, second};

const LARGE: (u16, u16) = (200, 60);

#[test]
fn a_filter_is_completed_and_its_error_is_shown_in_full() {
    let mut stage = open(normal, 80, 24);
    stage.press("/").type_text("p").has("filter: p   tab: peer: port: proc:").lacks("unknown");
    stage.type_text("r").press("tab").has("filter: proc:").type_text("perf").has("3 connections ");
    stage.press("ctrl-u").type_text("nonsense:3").has("filter: nonsense:3");
    stage.has("✗ `nonsense` is unknown; known are peer, local,").has("(term `nonsense:3`, column 1)");
    let text = stage.press("ctrl-u").type_text("rate>1M").text();
    assert!(text.ends_with("enter keeps the filter, esc clears it"), "{text}");
    // A term matches a part of a name; a term with `=` matches only the whole name.
    stage.press("ctrl-u").type_text("iface:th1 proc:=nginx").has("0 connections ");
    stage.press("ctrl-u").type_text("iface:th1 proc:ngi").has("1 connection ");
}

/// A failed path whose subflow is first open, then reset.
#[test]
fn a_failed_path_is_marked_in_the_paths_view_also_after_the_end() {
    let mut stage = Stage::new(80, 24);
    let mut failover = fixture::failover(0x5c11_a0e2);
    stage.show(fixture::snapshot(vec![failover.clone()])).press("2").has("✗ eth2").has("FAILED").has("✗ 1");
    let row = stage.line_with("✗ eth2");
    assert!(row.contains(" - "), "no RTT: {row}");
    let at = fixture::at(12_000_000);
    (failover.closed_at, failover.subflows[2].closed) =
        (Some(at), Some(Closed { at, reason: CloseReason::Fin }));
    let earlier = fixture::at(11_000_000);
    failover.subflows[1].closed = Some(Closed { at: earlier, reason: CloseReason::ResetSent });
    fixture::settle(&mut failover);
    stage.show(fixture::snapshot(vec![failover])).has("✗ eth1").has("✗ eth2");
    assert!(stage.line_with("✗ eth2").contains(" 0 "));
}

#[test]
fn a_replay_ends_with_its_closed_connections() {
    let origin = Origin::Replay("run.mpw".to_owned());
    let mut stage = Stage::with(Settings { origin: origin.clone(), ..Settings::default() }, 80, 24);
    stage.link(Link::Up(origin)).show(fixture::snapshot(vec![fixture::closed(0x00c1_05ed)]));
    stage.show(empty()).lacks("c105ed").link(Link::Ended).has("c105ed").has("12:00:");
    let mut last = empty();
    last.interval_s = Some(0.005_74);
    stage.show(last).press("5").has("interval                1.00 s");
}

#[test]
fn the_clock_is_in_the_title_at_every_width() {
    let mut stage = open(normal, 60, 24);
    stage.has("12:00:19").press("space").has("12:00:19");
    for number in 8..40 {
        stage.show(second(normal(), number));
    }
    stage.has("PAUSED, 32 back").has("12:00:19");
    let text =
        |stage: &mut Stage, columns| stage.resize(columns, 24).text().lines().next().unwrap().to_owned();
    for columns in 60..200 {
        assert!(text(&mut stage, columns).contains("12:00:19"), "{columns}");
    }
}

#[test]
fn charts_use_the_space_that_the_table_does_not_need() {
    for (columns, rows) in [(120, 40), LARGE] {
        for keys in ["1", "2", "4"] {
            open(normal, columns, rows).press(keys).has("─ Rate").has("─ RTT").has("80 Mbit/s│").has("-5 s");
        }
        open(normal, columns, rows).press("3").has("─ Power").press("enter").has("─ RTT  1 eth1  2 eth2");
        open(|| many(300), columns, rows).lacks("─ Rate");
    }
    // The charts of a connection with a failed path are drawn in the units that the user chose.
    let mut stage = open(|| fixture::snapshot(vec![fixture::failover(0x5c11_a0e2)]), 120, 40);
    stage.has("─ Rate").press("b").has("MB/s│").press("e b").has("Mbit/s│");
}

/// The rates of the first snapshot are unknown, because they need two snapshots.
#[test]
fn unknown_rates_are_dashes_and_no_rate_is_shown_of_closed_connections() {
    let mut first = normal();
    for connection in &mut first.connections {
        (connection.send, connection.receive) = (None, None);
        connection.subflows.iter_mut().for_each(|flow| (flow.send, flow.receive) = (None, None));
    }
    let mut stage = Stage::new(120, 40);
    stage.show(first).has("↑ -  ↓ -").press("2").has("no values yet");
    for line in ["eth1 ", "eth2 "] {
        assert!(stage.line_with(line).contains(" - "), "{}", stage.text());
    }
    stage.show(empty()).has("↑ 0 bit/s  ↓ 0 bit/s");
    let mut closed = fixture::closed(0x00c1_05ed);
    closed.send = Some(BitsPerSecond(1_940_000));
    stage.show(fixture::snapshot(vec![closed])).press("1").has("closed").lacks("1.94");
}
