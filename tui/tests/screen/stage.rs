// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers for tests of the screen: a screen without a terminal, key presses by name, and sample snapshots.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::missing_panics_doc,
    reason = "each test program uses some of these helpers"
)]

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::Bottlenecks;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::host::energy::{EnergySource, FlowEnergy, SnapshotEnergy};
use mpwatch_model::id::SocketCookie;
use mpwatch_model::settle::settled;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::BitsPerSecond;
use mpwatch_tui::screen::{App, Chord, Event, Feed, Link, Origin, Request, Settings, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

/// A screen without a terminal, and the request that its last event returned.
pub struct Stage {
    pub app: App,
    terminal: Terminal<TestBackend>,
    pub asked: Option<Request>,
}

impl Stage {
    pub fn new(columns: u16, rows: u16) -> Self {
        Self::with(Settings::default(), columns, rows)
    }

    pub fn with(settings: Settings, columns: u16, rows: u16) -> Self {
        let terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        Self { app: App::new(settings, (columns, rows)), terminal, asked: None }
    }

    pub fn happens(&mut self, event: Event) -> &mut Self {
        self.asked = self.app.update(event);
        self
    }

    pub fn show(&mut self, snapshot: Snapshot) -> &mut Self {
        self.happens(Event::Feed(Feed::snapshot(snapshot)))
    }

    pub fn link(&mut self, link: Link) -> &mut Self {
        self.happens(Event::Feed(Feed::Link(link)))
    }

    /// Presses keys by name (`j`, `enter`, `ctrl-c`), separated by spaces.
    pub fn press(&mut self, keys: &str) -> &mut Self {
        for key in keys.split(' ') {
            let chord = Chord::parse(key).unwrap_or_else(|| panic!("{key} is not a key"));
            self.happens(Event::Key(chord.event()));
        }
        self
    }

    /// Types text, which may contain spaces.
    pub fn type_text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            let name = if letter == ' ' { "space".to_owned() } else { letter.to_string() };
            self.press(&name);
        }
        self
    }

    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        self.happens(Event::Resize(columns, rows))
    }

    pub fn buffer(&mut self) -> Buffer {
        let app = &self.app;
        self.terminal.draw(|frame| draw(app, frame)).unwrap().buffer.clone()
    }

    /// The screen as text without trailing spaces.
    pub fn text(&mut self) -> String {
        let buffer = self.buffer();
        let area = buffer.area;
        let line = |y| (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let lines: Vec<String> = (area.top()..area.bottom()).map(|y| line(y).trim_end().to_owned()).collect();
        lines.join("\n")
    }

    /// The first line that contains these words.
    #[track_caller]
    pub fn line_with(&mut self, words: &str) -> String {
        let text = self.text();
        let found = text.lines().find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("no line with {words:?}:\n{text}")).to_owned()
    }

    #[track_caller]
    pub fn has(&mut self, words: &str) -> &mut Self {
        self.line_with(words);
        self
    }

    #[track_caller]
    pub fn lacks(&mut self, words: &str) -> &mut Self {
        let text = self.text();
        assert!(!text.contains(words), "{words:?} is there:\n{text}");
        self
    }
}

/// A connection with three subflows that share a bottleneck.
pub fn shared(token: u32) -> Connection {
    let mut connection = fixture::connection(token, 3);
    let found: Bottlenecks = fixture::bottleneck::shared(&connection.subflows);
    connection.extra_subflows = found.extra_subflows();
    connection.bottlenecks = Some(found);
    connection
}

/// Four connections: without problems, with a shared bottleneck, with a failed path, fallen back to TCP.
pub fn normal() -> Snapshot {
    fixture::snapshot(vec![
        fixture::connection(0x9f3c_0a1b, 2),
        shared(0x77aa_0b2c),
        fixture::failover(0x5c11_a0e2),
        fixture::fallen_back(0x0fa1_1bac),
    ])
}

pub fn empty() -> Snapshot {
    fixture::snapshot(Vec::new())
}

/// The snapshot of [`normal`] without an energy counter, as in a virtual machine.
pub fn no_rapl() -> Snapshot {
    let mut snapshot = normal();
    let advice = "a virtual machine has no counters of its own: run mpwatch on its host for joules";
    snapshot.energy = Some(SnapshotEnergy {
        source: EnergySource::Absent,
        advice: Some(advice.to_owned()),
        ..SnapshotEnergy::default()
    });
    for connection in &mut snapshot.connections {
        connection.energy = connection.energy.map(|energy| FlowEnergy::absent(energy.cpu));
        for subflow in &mut connection.subflows {
            subflow.energy = subflow.energy.map(|energy| FlowEnergy::absent(energy.cpu));
        }
    }
    snapshot
}

/// The snapshot of [`normal`] with estimated energy.
pub fn estimated() -> Snapshot {
    let mut snapshot = normal();
    let of_model = |energy: FlowEnergy| FlowEnergy { source: EnergySource::Model, ..energy };
    snapshot.energy.as_mut().unwrap().source = EnergySource::Model;
    for connection in &mut snapshot.connections {
        connection.energy = connection.energy.map(of_model);
        connection.subflows.iter_mut().for_each(|subflow| subflow.energy = subflow.energy.map(of_model));
    }
    snapshot
}

pub fn losses() -> Snapshot {
    let mut snapshot = normal();
    snapshot.losses = fixture::losses();
    snapshot.host.missing.push(fixture::missing_hook());
    snapshot
}

/// `count` connections with two subflows each.
pub fn many(count: u32) -> Snapshot {
    let connection = |number: u32| {
        let mut connection = fixture::connection(0x1000_0000 + number, 2);
        connection.id.birth = SocketCookie(u64::from(number) + 1);
        connection.bottlenecks = None;
        connection.timeline.clear();
        for (place, subflow) in (1..).zip(&mut connection.subflows) {
            subflow.id.cookie = SocketCookie(u64::from(number) * 2 + place);
            subflow.send = Some(BitsPerSecond(u64::from(number % 997) * 10_000 * place));
        }
        fixture::settle(&mut connection);
        connection
    };
    fixture::snapshot((0..count).map(connection).collect())
}

/// The snapshot at a time `number` seconds later, with other rates, RTTs and energy.
pub fn second(mut snapshot: Snapshot, number: u64) -> Snapshot {
    snapshot.at = fixture::at(12_500_000 + i64::try_from(number).unwrap() * 1_000_000);
    for (place, connection) in (1..).zip(&mut snapshot.connections) {
        for subflow in connection.subflows.iter_mut().filter(|subflow| subflow.closed.is_none()) {
            let part = 1 + (number * 7 + place) % 10;
            subflow.send = subflow.send.map(|rate| BitsPerSecond(rate.0 * part / 10));
            if let Some(srtt) = &mut subflow.srtt {
                srtt.0 = srtt.0 * (20 + part) / 20;
            }
            if let Some(energy) = &mut subflow.energy {
                let parts = [&mut energy.active, &mut energy.lo, &mut energy.hi, &mut energy.full];
                for part in parts.into_iter().flatten() {
                    part.0 += number * 350_000;
                }
            }
        }
        connection.send = connection.subflows.iter().filter_map(|subflow| subflow.send).reduce(|a, b| a + b);
        *connection = settled(connection.clone());
    }
    snapshot
}

/// A screen that has shown eight snapshots at intervals of a second.
pub fn open(snapshot: fn() -> Snapshot, columns: u16, rows: u16) -> Stage {
    let mut stage = Stage::new(columns, rows);
    stage.link(Link::Up(Origin::Tracer));
    for number in 0..8 {
        stage.show(second(snapshot(), number));
    }
    stage
}
