// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a frame of the live view takes with ten thousand flows on the machine: the new snapshot taken in, sorted and drawn, or a key.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use mpwatch_model::fixture;
use mpwatch_model::id::SocketCookie;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::BitsPerSecond;
use mpwatch_tui::screen::{App, Chord, Event, Feed, Link, Origin, Settings, Tab, draw};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::Effort;
use super::statistics::median;
use super::table::{figure, markdown};

/// A large terminal.
const SIZE: (u16, u16) = (200, 60);

type Screen = Terminal<CrosstermBackend<io::Sink>>;

pub(super) fn run(effort: Effort) -> String {
    let frames = effort.frames;
    let mut rows = Vec::new();
    for connections in [100, 10_000] {
        for (key, tab) in (1..).zip(Tab::ALL) {
            eprintln!("bench: {} with {connections} connections", tab.title());
            rows.push(one_view(connections, (&key.to_string(), tab), frames));
        }
    }
    let header = [
        "view",
        "connections, of two subflows",
        "frame after a key: median",
        "p99 (target: 16 ms)",
        "worst",
        "frame after a snapshot: median",
        "p99 (target: 16 ms)",
        "worst",
    ];
    let note = format!(
        "A frame is what the screen does from the event to the last byte for the terminal, {}x{}; {frames} frames of either kind. \
         After a snapshot it is all of it: values of every flow remembered, rows filtered, sorted, drawn. Every connection has a peer of \
         its own, so that there are as many paths as subflows. Each snapshot lies in fresh memory, as one from the tracer does; the memory of \
         an old one is given back after its frame, while nobody waits.\n\n",
        SIZE.0, SIZE.1
    );
    note + &markdown(&header, &rows)
}

fn one_view(connections: u32, (key, tab): (&str, Tab), frames: usize) -> Vec<String> {
    let mut app = App::new(Settings::default(), SIZE);
    app.update(Event::Feed(Feed::Link(Link::Up(Origin::Tracer))));
    let mut screen = screen();
    let snapshots: Vec<Arc<Snapshot>> =
        (0..4).map(|number| Arc::new(snapshot(connections, number))).collect();
    let feed = |number: usize| {
        let fresh = Snapshot::clone(&snapshots[number % snapshots.len()]);
        Event::Feed(Feed::Snapshot(Arc::new(fresh)))
    };
    for number in 0..20 {
        app.update(feed(number));
        app.tidy();
    }
    press(&mut app, key);
    frame(&app, &mut screen);
    let ticks = (0..frames).map(|number| {
        let news = feed(number);
        let time = milliseconds(|| {
            app.update(news);
            frame(&app, &mut screen);
        });
        app.tidy();
        time
    });
    let ticks: Vec<f64> = ticks.collect();
    let keys = (0..frames).map(|number| {
        milliseconds(|| {
            press(&mut app, ["down", "pgdn", "down", "up", "G", "g"][number % 6]);
            frame(&app, &mut screen);
        })
    });
    let keys: Vec<f64> = keys.collect();
    let mut row = vec![tab.title().to_owned(), connections.to_string()];
    for times in [keys, ticks] {
        row.push(format!("{} ms", figure(median(&times))));
        row.push(format!("{} ms", figure(quantile(&times, 0.99))));
        row.push(format!("{} ms", figure(quantile(&times, 1.0))));
    }
    row
}

/// How long it takes.
fn milliseconds(one: impl FnOnce()) -> f64 {
    let began = Instant::now();
    one();
    began.elapsed().as_secs_f64() * 1e3
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between zero and the number of values"
)]
fn quantile(times: &[f64], q: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

fn screen() -> Screen {
    let viewport = Viewport::Fixed(Rect { x: 0, y: 0, width: SIZE.0, height: SIZE.1 });
    let backend = CrosstermBackend::new(io::sink());
    Terminal::with_options(backend, TerminalOptions { viewport }).expect("nothing can fail in memory")
}

fn frame(app: &App, screen: &mut Screen) {
    screen.draw(|frame| draw(app, frame)).expect("nothing can fail in memory");
}

fn press(app: &mut App, key: &str) {
    let chord = Chord::parse(key).expect("a key of the table");
    app.update(Event::Key(chord.event()));
}

/// So many connections to as many peers, whose rates are others each second.
fn snapshot(connections: u32, second: u32) -> Snapshot {
    let connection = |number: u32| {
        let mut connection = fixture::connection(0x1000_0000 + number, 2);
        connection.id.birth = SocketCookie(u64::from(number) + 1);
        for (place, subflow) in (1..).zip(&mut connection.subflows) {
            subflow.id.cookie = SocketCookie(u64::from(number) * 2 + place);
            let rate = u64::from((number * 7 + second * 131) % 997);
            subflow.send = BitsPerSecond(rate * 10_000 * place);
            let [_, _, high, low] = number.to_be_bytes();
            let remote = [10, u8::try_from(place).unwrap_or(0), high, low];
            subflow.remote = SocketAddr::from((remote, 5201));
        }
        connection.bottlenecks = Some(fixture::bottleneck::disjoint(&connection.subflows));
        fixture::settle(&mut connection);
        connection
    };
    fixture::snapshot((0..connections).map(connection).collect())
}
