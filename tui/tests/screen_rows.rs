// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of rows, columns, their order and the selection.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use mpwatch_fixtures as fixture;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::unit::BitsPerSecond;
use mpwatch_tui::screen::Settings;

use stage::{Stage, many, no_rapl, normal, open};

#[test]
fn the_selection_follows_its_flow() {
    let mut stage = open(normal, 120, 40);
    stage.press("f").type_text("nginx").press("enter");
    let selected = |stage: &mut Stage| stage.line_with("▌");
    assert!(selected(&mut stage).contains("nginx"));
    // The selected flow becomes the fastest and moves to another row: it stays selected.
    let mut changed = normal();
    let last = changed.connections.last_mut().unwrap();
    (last.send, last.subflows[0].send) = (Some(BitsPerSecond(1 << 40)), Some(BitsPerSecond(1 << 40)));
    let above = stage.text().lines().position(|line| line.contains('▌')).unwrap();
    stage.show(changed);
    assert!(selected(&mut stage).contains("nginx"));
    assert!(stage.text().lines().position(|line| line.contains('▌')).unwrap() < above);
    stage.resize(200, 60).resize(80, 24);
    assert!(selected(&mut stage).contains("nginx"));
    // The selected flow has left the snapshot: another row is selected.
    stage.show(fixture::snapshot(vec![fixture::connection(0x9f3c_0a1b, 2)]));
    assert!(selected(&mut stage).contains("iperf3"));
}

#[test]
fn the_top_is_in_view_until_the_user_selects_a_row() {
    // The first flow becomes the slowest.
    let changed = || {
        let mut changed = many(300);
        changed
            .connections
            .iter_mut()
            .for_each(|flow| flow.send = flow.send.map(|rate| BitsPerSecond(1_000_000_000 - rate.0)));
        changed
    };
    let first = |stage: &mut Stage| stage.text().lines().nth(3).unwrap().to_owned();
    let mut stage = open(|| many(300), 80, 24);
    (0..40).for_each(|_| drop(stage.show(changed()).text()));
    assert!(first(&mut stage).starts_with('▌'), "{}", stage.text());
    let mut stage = open(|| many(300), 80, 24);
    stage.press("down");
    let chosen = stage.line_with("▌");
    (0..40).for_each(|_| drop(stage.show(changed()).text()));
    assert_eq!(chosen.split('%').next(), stage.line_with("▌").split('%').next());
}

#[test]
fn the_selection_follows_the_top_row_until_the_user_selects_one() {
    let faster = |token: u32| {
        let mut snapshot = normal();
        let rate = Some(BitsPerSecond(1 << 40));
        let found = snapshot.connections.iter_mut().find(|flow| flow.token == Some(Token(token))).unwrap();
        (found.send, found.subflows[0].send) = (rate, rate);
        snapshot
    };
    let mut stage = open(normal, 120, 40);
    let selected = stage.line_with("▌");
    stage.show(faster(0x0fa1_1bac));
    assert!(stage.line_with("▌").contains("0fa11bac") && !selected.contains("0fa11bac"), "{selected}");
    stage.press("down").press("up").show(faster(0x77aa_0b2c));
    assert!(stage.line_with("▌").contains("0fa11bac"), "the user selected it");
}

#[test]
fn problems_of_all_connections_are_counted_and_a_key_goes_to_the_next() {
    let mut stage = open(normal, 120, 40);
    stage.has("✗ 1 of 4: failed path  ! 1: fell back to TCP");
    open(normal, 200, 60).has("✗ 1 of 4: failed path  ! 1: fell back to TCP  ! 1: shared bottleneck");
    let mut found: Vec<String> = (0..3).map(|_| stage.press("!").line_with("▌")).collect();
    assert!(found.iter().all(|line| !line.contains("9f3c0a1b")), "9f3c0a1b has no problem: {found:?}");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3, "{found:?}");
    open(normal, 80, 24).has("✗ 1 of 4: failed path");
    let mut filtered = open(normal, 80, 24);
    filtered
        .press("/")
        .type_text("peer:10.0")
        .press("enter")
        .has("filter: peer:10.0")
        .press("2 ! enter ! esc");
    open(|| fixture::snapshot(vec![fixture::connection(1, 2)]), 80, 24)
        .lacks(" of 1")
        .press("!")
        .has("has a problem");
}

#[test]
fn a_narrow_screen_shows_the_peer_of_a_process_with_a_long_name() {
    let long_name = || {
        let mut flow = fixture::connection(1, 2);
        flow.process.as_mut().unwrap().comm = Name::from_kernel(*b"gunicorn-worker\0");
        fixture::snapshot(vec![flow])
    };
    let line = open(long_name, 80, 24).line_with("▌");
    assert!(line.contains("00000001 gunic… → 10.0.1.2"), "{line}");
}

#[test]
fn connections_are_grouped_by_control_group() {
    let mut stage = open(normal, 120, 40);
    stage.press("4 p p p").has("by control group").has("shop/web-0/nginx");
    stage.press("enter").has("filter: cgroup:=/user.slice").has("iperf3");
}

#[test]
fn the_server_end_of_a_connection_follows_the_client_end() {
    let ends = || {
        let client = fixture::connection(0x0c11_e271, 2);
        let mut server = fixture::connection(0x05e7_7e71, 2);
        (server.role, server.remote_token) = (Some(Role::Server), client.token);
        let mut client = client;
        client.remote_token = Some(Token(0x05e7_7e71));
        let mut between = fixture::connection(0x0b37_3333, 2);
        // Sorted by rate alone, the server would be first, the connection `between` second and the client last.
        server.subflows.iter_mut().for_each(|flow| flow.receive = Some(BitsPerSecond(900_000_000)));
        between.subflows.iter_mut().for_each(|flow| flow.send = Some(BitsPerSecond(300_000_000)));
        for flow in [&mut server, &mut between] {
            fixture::settle(flow);
        }
        fixture::snapshot(vec![server, between, client])
    };
    let mut stage = open(ends, 120, 40);
    let text = stage.text();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.split("▾ ").nth(1)?.split(' ').next()).collect();
    assert_eq!(ids, ["0b373333", "0c11e271", "05e77e71"]);
}

#[test]
fn aggregates_of_similar_activity_keep_their_places() {
    let names = |stage: &mut Stage| -> Vec<String> {
        let text = stage.press("2").text();
        text.lines().filter_map(|line| line.split("eth").nth(1)).map(|rest| rest[..1].to_owned()).collect()
    };
    let equal = |turn: u64| {
        let mut connection = fixture::connection(1, 3);
        for (place, subflow) in (0..).zip(&mut connection.subflows) {
            subflow.send = Some(BitsPerSecond(10_000_000 + 500_000 * ((turn + place) % 3)));
        }
        fixture::snapshot(vec![connection])
    };
    let mut stage = Stage::new(120, 40);
    stage.show(equal(0));
    let before = names(&mut stage);
    for turn in 1..10 {
        stage.show(equal(turn));
        assert_eq!(names(&mut stage), before);
    }
}

#[test]
fn energy_columns_are_hidden_where_no_energy_is_known() {
    for keys in ["1", "3", "4"] {
        open(no_rapl, 200, 60).press(keys).lacks("POWER").lacks("J/GB").has("RATE");
        open(normal, 200, 60).press(keys).has("POWER");
    }
    open(no_rapl, 120, 40).press("3").has("CPU▼");
    let settings = Settings { columns: vec![("watts".to_owned(), true)], ..Settings::default() };
    Stage::with(settings, 120, 40).show(no_rapl()).has("POWER");
}

#[test]
fn closed_connections_are_remembered() {
    let mut stage = Stage::new(120, 40);
    stage
        .show(fixture::snapshot(vec![fixture::closed(0x00c1_05ed), fixture::connection(1, 2)]))
        .has("closed");
    stage.show(fixture::snapshot(vec![fixture::connection(1, 2)])).lacks("c105ed");
    stage.press("o").has("c105ed").press("o").lacks("c105ed").press("o").lacks("c105ed");
}

#[test]
fn hidden_closed_connections_can_be_shown() {
    let mut stage = Stage::new(80, 24);
    stage.show(fixture::snapshot(vec![fixture::closed(0x00c1_05ed)])).press("o o");
    stage.has("Closed connections are hidden: o shows them.").press("o").has("c105ed");
}

#[test]
fn subflows_are_hidden_and_shown() {
    let mut stage = open(normal, 120, 40);
    stage
        .press("g h")
        .has("▸")
        .press("l")
        .lacks("▸")
        .press("e")
        .lacks("├─")
        .lacks("╰─ 2")
        .press("e")
        .has("├─");
}

#[test]
fn an_aggregate_leads_to_its_connections() {
    let mut stage = open(normal, 120, 40);
    stage
        .press("4 f")
        .type_text("fd00")
        .press("enter enter")
        .has("[1 Connections]")
        .has("filter: peer:fd00")
        .lacks("iperf3");
}
