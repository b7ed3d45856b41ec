// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keys, the mouse and the source of snapshots do to the screen.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use std::time::Duration;

use mpwatch_model::fixture;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Nanos;
use mpwatch_tui::screen::{
    Action, App, BINDINGS, Chord, Event, ExportFormat, Keymap, Link, Notice, Origin, Request, Settings, Tab,
    Theme,
};
use ratatui::crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::{Color, Modifier};

use stage::{Stage, empty, estimated, losses, many, no_rapl, normal, open, second, shared};

const LARGE: (u16, u16) = (200, 60);

/// A part of the screen that each key changes, or what it asks for: pressed on the table, where that says anything.
#[test]
fn every_key_of_the_table_does_something_and_stands_in_the_help() {
    let mut help = open(normal, 160, 120);
    let text = help.press("?").text();
    for row in BINDINGS {
        let line = text.lines().find(|line| line.contains(row.help));
        let line = line.unwrap_or_else(|| panic!("`{}` is not in the help:\n{text}", row.name));
        for key in row.keys {
            assert!(line.contains(key), "{key} is not in {line:?}");
            let mut stage = open(normal, 120, 40);
            // Somewhere in the middle, with something to go back from and something found.
            stage.press("j j f");
            stage.type_text("eth2");
            stage.press("enter 2 1");
            match row.action {
                Action::Unfold => stage.press("h"),
                Action::Grouping => stage.press("4"),
                Action::Connections => stage.press("2"),
                Action::Back => stage.press("enter"),
                Action::StepForward => stage.press("[ ["),
                _ => &mut stage,
            };
            let before = (stage.text(), stage.buffer());
            stage.press(key);
            let changed = stage.text() != before.0 || stage.buffer() != before.1;
            assert!(changed || stage.asked.is_some(), "`{key}` does nothing ({})", row.name);
        }
    }
}

#[test]
fn the_footer_names_the_keys_as_they_are_mapped() {
    let keys = Keymap::with(&[("filter".to_owned(), vec!["F".to_owned()])]).unwrap();
    let mut stage = Stage::with(Settings { keys, ..Settings::default() }, 120, 40);
    stage.show(normal()).has("F filter").lacks("/ filter").press("/").lacks("filter:");
    stage.press("F").has("filter: ");
}

#[test]
fn a_filter_shows_its_effect_while_it_is_typed_and_its_errors_in_place() {
    let mut stage = open(normal, 120, 40);
    stage.press("/").has("peer:10.0/16").type_text("fallback");
    stage.has("1 connection ").has("nginx").lacks("iperf3");
    stage.press("ctrl-u").type_text("colour:red").has("✗").has("nginx");
    stage.press("enter").has("filter: colour:red");
    stage.press("ctrl-u").type_text("proc:nginx").press("enter").has("filter: proc:nginx").lacks("iperf3");
    stage.press("/ ctrl-u").type_text("port:9").press("enter").has("None of 4 connections matches.");
    stage.press("esc").has("iperf3").lacks("filter: port");
    stage.press("/").type_text("tcp").press("esc").has("iperf3");
    stage.press("/").type_text("shared").has("1 connection ").press("enter").has("SHARE one").lacks("nginx");
}

#[test]
fn sorting_is_chosen_from_a_list_and_turned_round() {
    let mut stage = open(normal, 200, 60);
    let first = |stage: &mut Stage| stage.line_with("▾");
    stage.press("s").has("sort by").has("the usual order").press("down enter");
    stage.has("FLOW▼");
    assert!(first(&mut stage).contains("iperf3"));
    stage.press("r").has("FLOW▲");
    assert!(first(&mut stage).contains("nginx"));
    // The list opens at what is sorted by; the same once more turns it round again.
    stage.press("s enter").has("FLOW▼");
}

/// What is drawn reversed, by its rows.
fn reversed(stage: &mut Stage) -> Vec<String> {
    let buffer = stage.buffer();
    let area = buffer.area;
    let cells = |y| (area.left()..area.right()).map(move |x| (x, y));
    let row = |y| {
        let shown = cells(y).filter(|at| buffer[*at].modifier.contains(Modifier::REVERSED));
        shown.map(|at| buffer[at].symbol()).collect::<String>()
    };
    (area.top()..area.bottom()).map(row).collect()
}

#[test]
fn columns_come_and_go() {
    let mut stage = open(normal, 200, 60);
    stage.has("SRTT").press("c").has("columns");
    let mut left = 60;
    while !reversed(&mut stage).iter().any(|row| row.contains("Smoothed RTT.")) {
        left -= 1;
        assert!(left > 0, "the column is not in the list:\n{}", stage.text());
        stage.press("down");
    }
    stage.press("enter esc").lacks("SRTT");
    let settings = Settings { columns: vec![("cgroup".to_owned(), true)], ..Settings::default() };
    let mut stage = Stage::with(settings, LARGE.0, LARGE.1);
    stage.show(normal()).has("CGROUP").has("/user.slice");
}

#[test]
fn a_frozen_screen_stands_while_data_goes_on_and_can_be_stepped_through() {
    let mut stage = open(normal, 120, 40);
    let table = |stage: &mut Stage| stage.text().lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    stage.press("space").has("FROZEN");
    let before = table(&mut stage);
    for number in 8..12 {
        stage.show(second(normal(), number));
    }
    stage.has("FROZEN, 4 back");
    assert_eq!(table(&mut stage), before);
    stage.press("]").has("FROZEN, 3 back").press("[ [").has("FROZEN, 5 back").has("12:00:18");
    stage.press("] ] ] ] ]").has("12:00:23").press("space").lacks("FROZEN");
    assert_ne!(table(&mut stage), before);
}

#[test]
fn a_replay_stops_and_goes_on_by_steps() {
    let origin = Origin::Replay("run.mpw".to_owned());
    let mut stage = Stage::with(Settings { origin: origin.clone(), ..Settings::default() }, 120, 40);
    stage.link(Link::Up(origin)).show(second(normal(), 0)).show(second(normal(), 1)).has("REPLAY");
    assert_eq!(stage.press("space").asked, Some(Request::Play(false)));
    assert_eq!(stage.press("[").has("12:00:12").asked, None);
    assert_eq!(stage.press("]").has("12:00:13").asked, None);
    assert_eq!(stage.press("]").asked, Some(Request::Step));
    stage.show(second(normal(), 2)).has("12:00:14").has("FROZEN");
    assert_eq!(stage.press("space").asked, Some(Request::Play(true)));
    stage.link(Link::Ended).has("END OF THE RECORDING");
}

#[test]
fn the_interval_is_asked_for_where_it_can_be_changed() {
    let mut stage = open(normal, 120, 40);
    assert_eq!(stage.press("+").asked, Some(Request::Interval(Duration::from_millis(500))));
    assert_eq!(stage.press("-").asked, Some(Request::Interval(Duration::from_secs(1))));
    assert_eq!(stage.press("-").asked, Some(Request::Interval(Duration::from_secs(2))));
    stage.link(Link::Up(Origin::Daemon("/run/mpwatch.sock".to_owned())));
    assert_eq!(stage.press("+").has("the interval is the daemon's").asked, None);
}

#[test]
fn an_export_holds_what_is_selected() {
    let mut stage = open(normal, 120, 40);
    stage.press("x").has("JSON").has("Markdown").press("down enter");
    let Some(Request::Export(report, ExportFormat::Csv)) = stage.asked.take() else { panic!("no export") };
    assert_eq!(report.connections.len(), 1);
    stage
        .happens(Event::Notice(Notice { is_error: false, text: "wrote here.csv".to_owned() }))
        .has("wrote here.csv");
    stage.press("4 x enter");
    let Some(Request::Export(report, ExportFormat::Json)) = stage.asked.take() else { panic!("no export") };
    assert_eq!(report.connections.len(), 3, "all of the first peer");
}

#[test]
fn whether_mptcp_is_on_is_said_where_it_is_known() {
    for (enabled, words) in [(Some(true), "MPTCP is on here"), (Some(false), "MPTCP is OFF here")] {
        let settings = Settings { mptcp_enabled: enabled, ..Settings::default() };
        Stage::with(settings, 80, 24).show(empty()).has(words).lacks("Is MPTCP on here?");
    }
}

#[test]
fn units_can_be_changed() {
    let mut stage = open(normal, 200, 60);
    stage.has("Mbit/s").press("b").lacks("bit/s").has("MB/s");
    stage.press("3").has(" J ").press("u").has("mWh");
    // Nor is any number cut where there is less room.
    for (columns, rows) in [(80, 24), (100, 30), (120, 40)] {
        let mut stage = open(estimated, columns, rows);
        let row = stage.press("3 u").line_with("▌");
        assert!(!row.contains('…') && row.contains("~1.05W"), "{row}");
    }
}

#[test]
fn the_mouse_selects_opens_sorts_and_changes_views() {
    let mut stage = open(normal, 120, 40);
    let at = |stage: &mut Stage, words: &str| {
        let text = stage.text();
        let (row, line) = text.lines().enumerate().find(|(_, line)| line.contains(words)).unwrap();
        let column = line.split(words).next().unwrap().chars().count();
        (u16::try_from(column).unwrap(), u16::try_from(row).unwrap())
    };
    let click = |stage: &mut Stage, words: &str| {
        let (column, row) = at(stage, words);
        let kind = MouseEventKind::Down(MouseButton::Left);
        stage.happens(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
    };
    click(&mut stage, "nginx");
    assert!(stage.line_with("▌").contains("nginx"));
    click(&mut stage, "nginx");
    stage.has("what happened").press("esc");
    click(&mut stage, "SHARE ");
    stage.has("SHARE▼");
    click(&mut stage, "SHARE▼");
    stage.has("SHARE▲");
    // In a list it chooses; beside it, it closes the list.
    stage.press("s");
    click(&mut stage, "sent and received now");
    stage.has("RATE▼").lacks("sort by").press("s");
    click(&mut stage, "[1 Connections]");
    stage.lacks("sort by").has("RATE▼");
    for tab in Tab::ALL.into_iter().rev() {
        click(&mut stage, tab.title());
        assert_eq!(stage.app.tab(), tab);
    }
    let mut stage = open(|| many(300), 120, 40);
    let before = stage.line_with("▌");
    let kind = MouseEventKind::ScrollDown;
    stage.happens(Event::Mouse(MouseEvent { kind, column: 9, row: 9, modifiers: KeyModifiers::NONE }));
    assert_ne!(stage.line_with("▌"), before);
}

#[test]
fn who_has_never_seen_it_sees_what_is_shared_and_what_died() {
    for (columns, rows) in [(80, 24), (120, 40), LARGE] {
        let mut stage = open(|| fixture::snapshot(vec![shared(0x77aa_0b2c)]), columns, rows);
        stage.has("SHARE one bottleneck, 98 % sure").has("╭ A").has("│ A").has("╰ A");
        stage.press("2").has("╭ A").has("╰ A");
        let mut stage = open(|| fixture::snapshot(vec![fixture::failover(0x5c11_a0e2)]), columns, rows);
        stage.has("✗ DIED +5.60 s").has("path 1 (eth1) DIED at +5.60 s").has("GAP of 412 ms");
    }
}

#[test]
fn states_have_words() {
    let mut stage = Stage::new(80, 24);
    stage.has("Attaching");
    stage.link(Link::Blocked(vec!["not permitted".to_owned(), "sudo mpwatch".to_owned()]));
    stage.has("nothing to show").has("not permitted").has("sudo mpwatch").has("Waiting for a daemon");
    stage.link(Link::Up(Origin::Daemon("/run/x".to_owned()))).show(empty());
    stage.has("No MPTCP connection").has("net.mptcp.enabled").has("from the daemon");
    stage.show(normal()).link(Link::Gone("the daemon at /run/x has ended".to_owned()));
    stage
        .has("DAEMON GONE")
        .has("THE DAEMON IS GONE, what is shown is old; trying again: the daemon at /run/x")
        .has("iperf3");
    stage.show(normal()).lacks("DAEMON");
    open(no_rapl, 120, 40).press("3").has("no RAPL").has("a virtual machine has no counters");
    open(estimated, 120, 40).press("3").has("~ ESTIMATED").has("~1.05W");
    open(losses, 120, 40).has("INCOMPLETE: final records lost").press("5").has("✗ final records lost");
    open(normal, 40, 8).has("mpwatch needs 60x10.");
}

#[test]
fn a_demo_says_when_it_is_over() {
    let settings = Settings { banner: Some("DEMO for 10 s".to_owned()), ..Settings::default() };
    let mut stage = Stage::with(settings, 80, 24);
    stage.link(Link::Up(Origin::Tracer)).show(normal()).has("DEMO for 10 s").lacks("OVER");
    stage.link(Link::Ended).has(" OVER").has("leave with q").has("iperf3").lacks("RECORDING");
}

#[test]
fn what_an_event_costs_is_shown_where_the_kernel_measures_it() {
    let mut stage = open(normal, 120, 60);
    stage.press("5").has("kernel.bpf_stats_enabled=1").lacks("ns an event,");
    for number in 1..=2 {
        let mut snapshot = second(normal(), 10 + number);
        snapshot.counters.program_runs = Some(40_000 * number);
        snapshot.counters.program_time = Some(Nanos(8_000_000 * number));
        stage.show(snapshot);
    }
    stage.has("200 ns an event, 40000 events/s: 0.80 % of one CPU");
    stage.press("[ [").has("not measured: sysctl");
}

/// The colour of the first cell of these words.
fn colour_of(stage: &mut Stage, words: &str) -> (Color, Modifier) {
    let buffer = stage.buffer();
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        let line: Vec<&str> = (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect();
        for x in 0..line.len() {
            if line[x..].concat().starts_with(words) {
                let cell = &buffer[(u16::try_from(x).unwrap(), y)];
                return (cell.fg, cell.modifier);
            }
        }
    }
    panic!("no {words:?} in:\n{}", stage.text());
}

#[test]
fn what_is_wrong_is_red_and_the_selected_row_is_reversed() {
    let mut stage = open(losses, 120, 40);
    let red = (Color::LightRed, Modifier::BOLD);
    assert_eq!(colour_of(&mut stage, "INCOMPLETE"), red);
    assert_eq!(colour_of(&mut stage, "✗ DIED"), red);
    assert_eq!(colour_of(&mut stage, "1+2+3 SHARE").0, Color::LightYellow);
    assert_eq!(colour_of(&mut stage, "separate").0, Color::LightGreen);
    // Brackets of one group in one colour, and each path's number in its own.
    let group = colour_of(&mut stage, "╭ A");
    assert_eq!(colour_of(&mut stage, "╰ A"), group);
    let (first, second) = (colour_of(&mut stage, "1 eth1").0, colour_of(&mut stage, "2 eth2").0);
    assert_ne!(first, second);
    let buffer = stage.buffer();
    let row = stage.text().lines().position(|line| line.contains('▌')).unwrap();
    let cell = &buffer[(20, u16::try_from(row).unwrap())];
    assert!(cell.modifier.contains(Modifier::REVERSED));
    assert!(!buffer[(20, u16::try_from(row).unwrap() + 1)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn the_theme_without_colours_draws_none_and_says_the_same() {
    for keys in ["1", "2", "3", "4", "5", "1 enter", "?", "s"] {
        let mut coloured = open(losses, 120, 40);
        let mut mono = Stage::with(Settings { theme: Theme::Mono, ..Settings::default() }, 120, 40);
        mono.link(Link::Up(Origin::Tracer));
        (0..8).for_each(|number| {
            mono.show(second(losses(), number));
        });
        coloured.press(keys);
        let buffer = mono.press(keys).buffer();
        assert!(
            buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset),
            "{keys}"
        );
        if ["1", "2", "4", "?", "s"].contains(&keys) {
            assert_eq!(mono.text(), coloured.text(), "{keys}");
        }
    }
}

#[test]
fn nothing_is_drawn_outside_any_screen() {
    let states: [fn() -> Snapshot; 5] = [empty, normal, losses, no_rapl, || many(50)];
    for state in states {
        let mut stage = open(state, 120, 40);
        let mut seed = 7_u32;
        for _ in 0..200 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (columns, rows) = (1 + (seed >> 8) % 230, 1 + (seed >> 20) % 70);
            stage.resize(u16::try_from(columns).unwrap(), u16::try_from(rows).unwrap());
            let row = &BINDINGS[(seed >> 3) as usize % BINDINGS.len()];
            stage.press(row.keys[0]);
            stage.text();
        }
    }
}

#[test]
fn names_from_outside_cannot_steer_the_terminal() {
    let mut hostile = normal();
    let connection = &mut hostile.connections[0];
    let comm = *b"\x1b[2J\xe6\x97\xa5\xe6\x9c\xac\n\0\0\0\0\0";
    connection.process.as_mut().unwrap().comm = mpwatch_model::endpoint::Name::from_kernel(comm);
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

#[test]
fn a_screen_is_a_value() {
    let mut one = App::new(Settings::default(), (80, 24));
    let kept = one.clone();
    one.update(Event::Key(Chord::parse("2").unwrap().event()));
    assert_eq!((one.tab(), kept.tab()), (Tab::Paths, Tab::Connections));
}
