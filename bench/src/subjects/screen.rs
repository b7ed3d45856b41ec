// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time to draw a frame of the live view with 100 and 10 000 connections, after a new snapshot and after a key.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use mpwatch_fixtures as fixture;
use mpwatch_model::id::SocketCookie;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::BitsPerSecond;
use mpwatch_tui::screen::{App, Chord, Event, Feed, Link, Origin, Settings, draw};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::effort::Effort;
use crate::statistics::median;
use crate::table::{figure, markdown};

/// Columns and rows of a large terminal.
const SIZE: (u16, u16) = (200, 60);

type Screen = Terminal<CrosstermBackend<io::Sink>>;

/// The views, and the keys that open them. Grouped by process, all subflows form one group, the largest possible.
const VIEWS: [(&str, &[&str]); 6] = [
    ("Connections", &["1"]),
    ("Paths", &["2"]),
    ("Energy", &["3"]),
    ("Peers", &["4"]),
    ("Peers by process: one group", &["4", "p"]),
    ("Health", &["5"]),
];

/// Durations in milliseconds.
#[derive(Default)]
struct Times {
    /// Times to compute the digests of snapshots, which happens before their frames.
    digests: Vec<f64>,
    /// Times of frames after a snapshot.
    ticks: Vec<f64>,
    /// Times of frames after a key.
    keys: Vec<f64>,
}

pub(crate) fn run(effort: Effort) -> String {
    let frames = effort.frames;
    let (mut rows, mut digests) = (Vec::new(), Vec::new());
    for connections in [100, 10_000] {
        let mut of_all = Vec::new();
        for (title, keys) in VIEWS {
            eprintln!("bench: {title} with {connections} connections");
            let times = one_view(connections, keys, frames);
            let row = [
                vec![title.to_owned(), connections.to_string()],
                summary(&times.keys),
                summary(&times.ticks),
            ];
            rows.push(row.concat());
            of_all.extend(times.digests);
        }
        digests.push([vec![connections.to_string()], summary(&of_all)].concat());
    }
    let header = [
        "view",
        "connections, of two subflows",
        "frame after a key: median",
        "p99 (target: 16 ms)",
        "maximum",
        "frame after a snapshot: median",
        "p99 (target: 16 ms)",
        "maximum",
    ];
    let note = format!(
        "A frame lasts from the event to the last byte for the terminal, {}x{}; {frames} frames of each kind. After a snapshot it includes all \
         work of the screen's thread: storing the values of every flow, filtering, sorting and drawing rows. Every connection has its own peer, \
         so there are as many paths as subflows. Another thread allocates each snapshot, as the tracer's thread does; the memory of the \
         previous one is freed after the frame.\n\n",
        SIZE.0, SIZE.1
    );
    let digest_note = "\nNot included: the digest of each snapshot, which the thread that delivers the snapshot makes first. It delays the picture, \
                       not the answer to a key.\n\n";
    let digest_header = ["connections, of two subflows", "digest: median", "p99", "maximum"];
    note + &markdown(&header, &rows) + digest_note + &markdown(&digest_header, &digests)
}

/// Median, 99th percentile and maximum.
fn summary(times: &[f64]) -> Vec<String> {
    let all = [median(times), quantile(times, 0.99), quantile(times, 1.0)];
    all.map(|time| format!("{} ms", figure(time))).to_vec()
}

fn one_view(connections: u32, keys: &[&str], frames: usize) -> Times {
    let mut app = App::new(Settings::default(), SIZE);
    app.update(Event::Feed(Feed::Link(Link::Up(Origin::Tracer))));
    let mut screen = screen();
    let mut times = Times::default();
    let snapshots: Vec<Snapshot> = (0..4).map(|number| snapshot(connections, number)).collect();
    for number in 0..20 {
        app.update(deliver(&snapshots[number % snapshots.len()]).0);
        app.tidy();
    }
    for key in keys {
        press(&mut app, key);
    }
    frame(&app, &mut screen);
    for number in 0..frames {
        let (event, digest) = deliver(&snapshots[number % snapshots.len()]);
        times.digests.push(digest);
        times.ticks.push(milliseconds(|| {
            app.update(event);
            frame(&app, &mut screen);
        }));
        app.tidy();
    }
    for number in 0..frames {
        times.keys.push(milliseconds(|| {
            press(&mut app, ["down", "pgdn", "down", "up", "G", "g"][number % 6]);
            frame(&app, &mut screen);
        }));
    }
    times
}

/// Delivers a copy of a snapshot from another thread. Returns the event, and the time to compute the digest in milliseconds.
fn deliver(snapshot: &Snapshot) -> (Event, f64) {
    let deliver = || {
        let fresh = snapshot.clone();
        let mut feed = None;
        let digest = milliseconds(|| feed = Some(Feed::snapshot(fresh)));
        (Event::Feed(feed.expect("the digest was made")), digest)
    };
    thread::scope(|scope| scope.spawn(deliver).join()).expect("the thread does not panic")
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
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
    Terminal::with_options(backend, TerminalOptions { viewport }).expect("drawing into memory does not fail")
}

fn frame(app: &App, screen: &mut Screen) {
    screen.draw(|frame| draw(app, frame)).expect("drawing into memory does not fail");
}

fn press(app: &mut App, key: &str) {
    let chord = Chord::parse(key).expect("a known key");
    app.update(Event::Key(chord.event()));
}

/// A snapshot of connections with different peers. Rates depend on `second`.
fn snapshot(connections: u32, second: u32) -> Snapshot {
    let connection = |number: u32| {
        let mut connection = fixture::connection(0x1000_0000 + number, 2);
        connection.id.birth = SocketCookie(u64::from(number) + 1);
        for (path, subflow) in (1..).zip(&mut connection.subflows) {
            subflow.id.cookie = SocketCookie(u64::from(number) * 2 + path);
            let rate = u64::from((number * 7 + second * 131) % 997);
            subflow.send = Some(BitsPerSecond(rate * 10_000 * path));
            let [_, _, high, low] = number.to_be_bytes();
            let remote = [10, u8::try_from(path).unwrap_or(0), high, low];
            subflow.remote = SocketAddr::from((remote, 5201));
        }
        connection.bottlenecks = Some(fixture::bottleneck::disjoint(&connection.subflows));
        fixture::settle(&mut connection);
        connection
    };
    fixture::snapshot((0..connections).map(connection).collect())
}
