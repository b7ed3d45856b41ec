// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the effect of keys, mouse events and snapshots on the screen.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use std::time::Duration;

use mpwatch_fixtures as fixture;
use mpwatch_model::host::machine::MissingHook;
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

/// Each key changes the screen or returns a request.
#[test]
fn every_key_does_something_and_is_in_the_help() {
    let mut help = open(normal, 160, 120);
    let text = help.press("?").text();
    for row in BINDINGS {
        let line = text.lines().find(|line| line.contains(row.help));
        let line = line.unwrap_or_else(|| panic!("`{}` is not in the help:\n{text}", row.name));
        for key in row.keys {
            assert!(line.contains(key), "{key} is not in {line:?}");
            let mut stage = open(normal, 120, 40);
            // Selects a row in the middle of the table and sets a search text, so that every action has an effect.
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
fn nothing_is_drawn_while_the_size_of_the_terminal_differs_from_the_last_event() {
    for keys in ["1", "2", "3", "4", "5", "1 enter", "?"] {
        let mut stage = open(normal, 120, 40);
        let before = stage.press(keys).text();
        for (columns, rows) in [(200, 60), (121, 40), (120, 41), (80, 24), (1, 1)] {
            assert_eq!(
                stage.happens(Event::Resize(columns, rows)).text().trim(),
                "",
                "{keys}: {columns}x{rows}"
            );
        }
        assert_eq!(stage.happens(Event::Resize(120, 40)).text(), before, "{keys}");
    }
}

#[test]
fn the_footer_shows_the_configured_keys() {
    let keys = Keymap::with(&[("filter".to_owned(), vec!["F".to_owned()])]).unwrap();
    let mut stage = Stage::with(Settings { keys, ..Settings::default() }, 120, 40);
    stage.show(normal()).has("F filter").lacks("/ filter").press("/").lacks("filter:");
    stage.press("F").has("filter: ");
}

#[test]
fn a_filter_applies_while_it_is_typed_and_shows_its_errors() {
    let mut stage = open(normal, 120, 40);
    stage.press("/").has("peer:10.0/16").type_text("fallback");
    stage.has("1 connection ").has("nginx").lacks("iperf3");
    stage.press("ctrl-u").type_text("colour:red").has("✗").has("nginx");
    stage.press("enter").has("filter: colour:red");
    stage.press("ctrl-u").type_text("proc:nginx").press("enter").has("filter: proc:nginx").lacks("iperf3");
    stage.press("/ ctrl-u").type_text("port:9").press("enter").has("None of 4 connections matches.");
    stage.press("esc").has("iperf3").lacks("filter: port");
    stage.press("/").type_text("tcp").press("esc").has("iperf3");
    stage
        .press("/")
        .type_text("shared")
        .has("1 connection ")
        .press("enter")
        .has("share one bottleneck")
        .lacks("nginx");
}

#[test]
fn the_user_chooses_the_sort_column_and_reverses_the_order() {
    let mut stage = open(normal, 200, 60);
    let first = |stage: &mut Stage| stage.line_with("▾");
    stage.press("s").has("Sort by").has("the default order").press("down enter");
    stage.has("CONNECTION▼");
    assert!(first(&mut stage).contains("iperf3"));
    stage.press("r").has("CONNECTION▲");
    assert!(first(&mut stage).contains("nginx"));
    // The list opens at the current column; choosing it again reverses the order.
    stage.press("s enter").has("CONNECTION▼");
}

/// For each line of the screen, the text of the cells that have a background colour, as in a selected row.
fn selected(stage: &mut Stage) -> Vec<String> {
    let buffer = stage.buffer();
    let area = buffer.area;
    let cells = |y| (area.left()..area.right()).map(move |x| (x, y));
    let row = |y| {
        let shown = cells(y).filter(|at| buffer[*at].bg != Color::Reset);
        shown.map(|at| buffer[at].symbol()).collect::<String>()
    };
    (area.top()..area.bottom()).map(row).collect()
}

#[test]
fn columns_are_shown_and_hidden() {
    let mut stage = open(normal, 200, 60);
    stage.has("RETX").press("c").has("Columns");
    let mut left = 60;
    while !selected(&mut stage).iter().any(|row| row.contains("Segments retransmitted, SYN included.")) {
        left -= 1;
        assert!(left > 0, "the column is not in the list:\n{}", stage.text());
        stage.press("down");
    }
    stage.press("enter esc").lacks("RETX");
    let settings = Settings { columns: vec![("cgroup".to_owned(), true)], ..Settings::default() };
    let mut stage = Stage::with(settings, LARGE.0, LARGE.1);
    stage.show(normal()).has("CGROUP").has("/user.slice");
}

#[test]
fn a_frozen_screen_does_not_change_and_can_be_stepped_through() {
    let mut stage = open(normal, 120, 40);
    let table = |stage: &mut Stage| stage.text().lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    stage.press("space").has("PAUSED");
    let before = table(&mut stage);
    for number in 8..12 {
        stage.show(second(normal(), number));
    }
    stage.has("PAUSED, 4 back");
    assert_eq!(table(&mut stage), before);
    stage.press("]").has("PAUSED, 3 back").press("[ [").has("PAUSED, 5 back").has("12:00:18");
    stage.press("] ] ] ] ]").has("12:00:23").press("space").lacks("PAUSED");
    assert_ne!(table(&mut stage), before);
}

#[test]
fn a_replay_is_paused_and_stepped() {
    let origin = Origin::Replay("run.mpw".to_owned());
    let mut stage = Stage::with(Settings { origin: origin.clone(), ..Settings::default() }, 120, 40);
    stage.link(Link::Up(origin)).show(second(normal(), 0)).show(second(normal(), 1)).has("REPLAY");
    assert_eq!(stage.press("space").asked, Some(Request::Play(false)));
    assert_eq!(stage.press("[").has("12:00:12").asked, None);
    assert_eq!(stage.press("]").has("12:00:13").asked, None);
    assert_eq!(stage.press("]").asked, Some(Request::Step));
    stage.show(second(normal(), 2)).has("12:00:14").has("PAUSED");
    assert_eq!(stage.press("space").asked, Some(Request::Play(true)));
    stage.link(Link::Ended).has("END OF THE RECORDING");
}

#[test]
fn the_interval_can_be_changed_unless_a_daemon_sets_it() {
    let mut stage = open(normal, 120, 40);
    assert_eq!(stage.press("+").asked, Some(Request::Interval(Duration::from_millis(500))));
    assert_eq!(stage.press("-").asked, Some(Request::Interval(Duration::from_secs(1))));
    assert_eq!(stage.press("-").asked, Some(Request::Interval(Duration::from_secs(2))));
    stage.link(Link::Up(Origin::Daemon("/run/mpwatch.sock".to_owned())));
    assert_eq!(stage.press("+").has("the daemon sets the interval").asked, None);
}

#[test]
fn an_export_contains_the_selection() {
    let mut stage = open(normal, 120, 40);
    stage.press("x").has("JSON").has("Markdown").press("down enter");
    let Some(Request::Export(report, ExportFormat::Csv)) = stage.asked.take() else { panic!("no export") };
    assert_eq!(report.connections.len(), 1);
    stage
        .happens(Event::Notice(Notice { is_error: false, text: "wrote here.csv".to_owned() }))
        .has("wrote here.csv");
    stage.press("4 x enter");
    let Some(Request::Export(report, ExportFormat::Json)) = stage.asked.take() else { panic!("no export") };
    assert_eq!(report.connections.len(), 3, "all connections of the first peer");
}

#[test]
fn the_screen_says_whether_mptcp_is_enabled() {
    for (enabled, words) in [(Some(true), "MPTCP is enabled here"), (Some(false), "MPTCP is DISABLED here")] {
        let settings = Settings { mptcp_enabled: enabled, ..Settings::default() };
        Stage::with(settings, 80, 24).show(empty()).has(words).lacks("Is MPTCP enabled?");
    }
}

#[test]
fn units_can_be_changed() {
    let mut stage = open(normal, 200, 60);
    stage.has("Mbit/s").press("b").lacks("bit/s").has("MB/s");
    stage.press("3").has(" J ").press("u").has("mWh");
    // Numbers are never cut.
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
    stage.has("Timeline").press("esc");
    click(&mut stage, "SHARE ");
    stage.has("SHARE▼");
    click(&mut stage, "SHARE▼");
    stage.has("SHARE▲");
    // A click in a list chooses a line; a click outside closes it.
    stage.press("s");
    click(&mut stage, "current rate; the arrow");
    stage.has("RATE▼").lacks("Sort by").press("s");
    click(&mut stage, "[1 Connections]");
    stage.lacks("Sort by").has("RATE▼");
    for tab in Tab::ALL.into_iter().rev() {
        click(&mut stage, tab.as_str());
        assert_eq!(stage.app.tab, tab);
    }
    let mut stage = open(|| many(300), 120, 40);
    let before = stage.line_with("▌");
    let kind = MouseEventKind::ScrollDown;
    stage.happens(Event::Mouse(MouseEvent { kind, column: 9, row: 9, modifiers: KeyModifiers::NONE }));
    assert_ne!(stage.line_with("▌"), before);
}

#[test]
fn shared_bottlenecks_and_failed_paths_are_marked_at_every_size() {
    for (columns, rows) in [(80, 24), (120, 40), LARGE] {
        let mut stage = open(|| fixture::snapshot(vec![shared(0x77aa_0b2c)]), columns, rows);
        stage.has("share one bottleneck since +1.75 s").has("╭ shared A").has("│ shared A").has("╰ shared A");
        stage.press("2").has("╭ shared A").has("╰ shared A");
        let mut stage = open(|| fixture::snapshot(vec![fixture::failover(0x5c11_a0e2)]), columns, rows);
        stage
            .has("✗ FAILED +5.60 s")
            .has("over eth1) failed at 2026-03-01")
            .has("(+5.600200 s): no")
            .has("412 ms outage");
    }
}

#[test]
fn states_are_named() {
    let mut stage = Stage::new(80, 24);
    stage.has("Starting");
    stage.link(Link::Blocked(vec!["not permitted".to_owned(), "sudo mpwatch".to_owned()]));
    stage.has("nothing to show").has("not permitted").has("sudo mpwatch").has("Waiting for a daemon");
    stage.link(Link::Up(Origin::Daemon("/run/x".to_owned()))).show(empty());
    stage.has("No open MPTCP connection").has("net.mptcp.enabled").has("from the daemon");
    let narrowed = Settings { is_narrowed: true, ..Settings::default() };
    Stage::with(narrowed, 80, 24)
        .show(empty())
        .has("No open connection matches the options --netns and --filter")
        .lacks("net.mptcp.enabled");
    stage.show(normal()).link(Link::Gone("the daemon at /run/x has ended".to_owned()));
    stage
        .has("DAEMON GONE")
        .has("DAEMON GONE, showing old data, reconnecting: the daemon at /run/x")
        .has("iperf3");
    stage.show(normal()).lacks("DAEMON");
    open(no_rapl, 120, 40).press("3").has("no RAPL").has("a virtual machine has no counters");
    open(estimated, 120, 40).press("3").has("~ ESTIMATED").has("~1.05W");
    open(losses, 120, 40).has("INCOMPLETE: final records lost").press("5").has("✗ final records lost");
    open(normal, 40, 8).has("mpwatch needs 60x10.");
}

#[test]
fn a_hook_that_the_budget_reduces_is_not_reported_as_unavailable() {
    let mut snapshot = losses();
    open(losses, 120, 40).has("not available on this kernel: what").lacks("reduced by trace.budget");
    snapshot.host.missing[0].why = format!("see {}", MissingHook::BUDGET);
    let mut stage = Stage::new(120, 40);
    stage.show(snapshot).has("reduced by trace.budget: what").lacks("not available on this kernel");
}

#[test]
fn the_screen_says_when_a_demo_is_over() {
    let settings = Settings { banner: Some("DEMO for 10 s".to_owned()), ..Settings::default() };
    let mut stage = Stage::with(settings, 80, 24);
    stage.link(Link::Up(Origin::Tracer)).show(normal()).has("DEMO for 10 s").lacks("OVER");
    stage.link(Link::Ended).has(" OVER").has("press q to quit").has("iperf3").lacks("RECORDING");
}

#[test]
fn the_cost_of_events_is_shown_where_the_kernel_measures_it() {
    let mut stage = open(normal, 120, 60);
    stage.press("5").has("kernel.bpf_stats_enabled=1").lacks("ns per event,");
    for number in 1..=2 {
        let mut snapshot = second(normal(), 10 + number);
        snapshot.counters.program_runs = Some(40_000 * number);
        snapshot.counters.program_time = Some(Nanos(8_000_000 * number));
        stage.show(snapshot);
    }
    stage.has("200 ns per event, 40000 events/s: 0.80 % of one CPU");
    stage.press("[ [").has("not measured: sysctl");
}

/// The colour and modifiers of the cell at which `words` begin on the screen.
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
fn failures_are_red_and_groups_have_a_colour() {
    let mut stage = open(losses, 120, 40);
    let red = (Color::LightRed, Modifier::BOLD);
    assert_eq!(colour_of(&mut stage, "INCOMPLETE"), red);
    assert_eq!(colour_of(&mut stage, "✗ FAILED"), red);
    assert_eq!(colour_of(&mut stage, "1+2+3 shared").0, Color::LightYellow);
    assert_eq!(colour_of(&mut stage, "separate").0, Color::LightGreen);
    // All brackets of a group have the same colour, the numbers of subflows have different colours.
    let group = colour_of(&mut stage, "╭ shared A");
    assert_eq!(colour_of(&mut stage, "╰ shared A"), group);
    let (first, second) = (colour_of(&mut stage, "1 eth1").0, colour_of(&mut stage, "2 eth2").0);
    assert_ne!(first, second);
}

/// Reversed video must not be used, because it inverts sparklines.
#[test]
fn the_selected_row_has_a_mark_and_the_same_sparklines_in_every_theme() {
    for theme in Theme::ALL {
        let mut stage = Stage::with(Settings { theme, ..Settings::default() }, 120, 40);
        for number in 0..8 {
            stage.show(second(normal(), number));
        }
        let buffer = stage.buffer();
        assert!(buffer.content.iter().all(|cell| !cell.modifier.contains(Modifier::REVERSED)), "{theme:?}");
        let row = stage.text().lines().position(|line| line.contains('▌')).unwrap();
        let row = u16::try_from(row).unwrap();
        let of = |y| (buffer[(20, y)].bg, buffer[(20, y)].modifier.contains(Modifier::UNDERLINED));
        assert_ne!(of(row), of(row + 1), "{theme:?}");
        assert_eq!(of(row + 1), (Color::Reset, false), "{theme:?}");
    }
}

#[test]
fn the_theme_without_colours_shows_the_same_text() {
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
            // The lines of charts differ by their markers.
            let above = |stage: &mut Stage| stage.text().split("\n─ Rate").next().unwrap().to_owned();
            assert_eq!(above(&mut mono), above(&mut coloured), "{keys}");
        }
    }
}

#[test]
fn nothing_is_drawn_outside_the_screen() {
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
fn the_state_can_be_cloned() {
    let mut app = App::new(Settings::default(), (80, 24));
    let kept = app.clone();
    app.update(Event::Key(Chord::parse("2").unwrap().event()));
    assert_eq!((app.tab, kept.tab), (Tab::Paths, Tab::Connections));
}
