// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live table: the busiest connections first, each with its subflows below it, as many as the height has room for.

use std::cmp::Reverse;

use mpwatch_model::connection::Connection;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Bytes;

use crate::cell::{Cell, clip, pad};
use crate::columns::{Column, ConnectionColumn, Path, PathColumn, of_connection, of_path, shared};
use crate::layout::{GAP, Wish, fit, total};
use crate::style::{Ink, Style};
use crate::{empty, header};

/// The size of a terminal, in letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub columns: u16,
    /// Height.
    pub rows: u16,
}

/// From this width on words stand where a narrow screen has letters, and both bytes sent and bytes received are shown.
const WIDE: usize = 100;

/// The table as lines, each at most as wide and together at most as high as the terminal. Ends without a newline.
pub fn table(snapshot: &Snapshot, size: Size, style: Style) -> String {
    lines(snapshot, size, style).join("\n")
}

fn lines(snapshot: &Snapshot, size: Size, style: Style) -> Vec<String> {
    if size.columns < empty::SMALLEST.columns || size.rows < empty::SMALLEST.rows {
        return empty::too_small(size);
    }
    let (width, rows) = (usize::from(size.columns), usize::from(size.rows));
    let mut lines = header::lines(snapshot, width, style);
    if snapshot.connections.is_empty() {
        lines.extend(empty::no_connection(width));
        lines.truncate(rows);
        return lines;
    }
    let sorted = by_activity(&snapshot.connections);
    let (shown, cut) = that_fit(&sorted, rows - lines.len() - 2);
    let grid = Grid::new(shown, width);
    lines.extend(grid.titles(style));
    for &connection in shown {
        lines.push(grid.connection(connection, style));
        lines.extend(paths(connection).map(|path| grid.path(&path, style)));
    }
    if let Some(cut) = cut {
        lines.truncate(rows - 1);
        lines.push(style.paint(&clip(&cut, width), Ink::Faint));
    }
    lines
}

/// Open ones first, then by what they carry now, then by what they have carried.
fn by_activity(connections: &[Connection]) -> Vec<&Connection> {
    let mut sorted: Vec<&Connection> = connections.iter().collect();
    sorted.sort_by_cached_key(|c| {
        let bytes = c.bytes_sent.unwrap_or_default() + c.bytes_received.unwrap_or_default();
        (!c.is_open(), Reverse(c.send.0.saturating_add(c.receive.0)), Reverse(bytes), c.id)
    });
    sorted
}

/// The connections that fit this many lines, and the words for what does not. The first one is always among them.
fn that_fit<'a, 'b>(sorted: &'b [&'a Connection], room: usize) -> (&'b [&'a Connection], Option<String>) {
    let height = |c: &Connection| 1 + c.subflows.len();
    if sorted.iter().map(|c| height(c)).sum::<usize>() <= room {
        return (sorted, None);
    }
    let mut used = 1;
    let whole = sorted.iter().take_while(|c| {
        used += height(c);
        used <= room
    });
    match whole.count() {
        0 => {
            let hidden = height(sorted[0]) + 1 - room.min(height(sorted[0]));
            let hidden = header::count(hidden, "more subflow");
            let text = match sorted.len() - 1 {
                0 => hidden,
                others => format!("{hidden} and {}", header::count(others, "more connection")),
            };
            (&sorted[..1], Some(text))
        }
        shown => {
            let rest = &sorted[shown..];
            let subflows: usize = rest.iter().map(|c| c.subflows.len()).sum();
            let text = format!(
                "{} ({})",
                header::count(rest.len(), "more connection"),
                header::count(subflows, "subflow")
            );
            (&sorted[..shown], Some(text))
        }
    }
}

fn paths(connection: &Connection) -> impl Iterator<Item = Path<'_>> {
    let numbered = connection.subflows.iter().zip(1..);
    numbered.map(move |(subflow, place)| Path { place, connection, subflow })
}

/// The columns with their widths: each kind of row has its own on the left, both end with the same ones.
struct Grid {
    connection: Vec<(ConnectionColumn, usize)>,
    path: Vec<(PathColumn, usize)>,
    /// Where the shared columns begin, and how many there are.
    left: usize,
    shared: usize,
}

impl Grid {
    fn new(shown: &[&Connection], width: usize) -> Self {
        let paths: Vec<Path<'_>> = shown.iter().copied().flat_map(paths).collect();
        let sent: Bytes = shown.iter().filter_map(|c| c.bytes_sent).sum();
        let received: Bytes = shown.iter().filter_map(|c| c.bytes_received).sum();
        let wide = width >= WIDE;
        let (shared_connection, shared_path) = shared(wide, received > sent);
        let shared_width = shared_path.iter().map(|column| column.wish.least + GAP).sum::<usize>();
        let room = width.saturating_sub(shared_width);
        let connection =
            sized(of_connection(wide), room, |column| widest(shown.iter().map(|c| (column.cell)(c))));
        let path = sized(of_path(wide), room, |column| widest(paths.iter().map(|p| (column.cell)(p))));
        let width_of = |widths: Vec<usize>| total(&widths);
        let left = width_of(connection.iter().map(|c| c.1).collect())
            .max(width_of(path.iter().map(|c| c.1).collect()));
        let shared = shared_path.len();
        Self {
            connection: with_shared(connection, shared_connection),
            path: with_shared(path, shared_path),
            left,
            shared,
        }
    }

    fn titles(&self, style: Style) -> [String; 2] {
        let title = |text: &'static str| Cell::either(vec![text.to_owned(), String::new()]);
        let connection = self.connection.iter().map(|(c, width)| (title(c.title), *width, c.number));
        let path = self.path.iter().map(|(c, width)| (title(c.title), *width, c.number));
        [
            style.paint(&self.row(&connection.collect::<Vec<_>>(), Style::Plain), Ink::Strong),
            style.paint(&self.row(&path.collect::<Vec<_>>(), Style::Plain), Ink::Strong),
        ]
    }

    fn connection(&self, connection: &Connection, style: Style) -> String {
        let faint = !connection.is_open();
        let cells = self.connection.iter().map(|(c, width)| {
            let cell = (c.cell)(connection);
            (if faint { cell.ink(Ink::Faint) } else { cell }, *width, c.number)
        });
        self.row(&cells.collect::<Vec<_>>(), style)
    }

    fn path(&self, path: &Path<'_>, style: Style) -> String {
        let mut cells = Vec::with_capacity(self.path.len());
        let mut given_up: Option<usize> = None;
        for (column, width) in &self.path {
            if path.subflow.closed.is_some() && column.yields {
                given_up = Some(given_up.unwrap_or(0) + width + if *width > 0 { GAP } else { 0 });
                continue;
            }
            if let Some(room) = given_up.take() {
                cells.push((closing(path), room.saturating_sub(GAP), false));
            }
            let cell = (column.cell)(path);
            let cell = if path.subflow.closed.is_some() { cell.ink(Ink::Faint) } else { cell };
            cells.push((cell, *width, column.number));
        }
        self.row(&cells, style)
    }

    /// Cells side by side; the shared columns stand below each other in all rows.
    fn row(&self, cells: &[(Cell, usize, bool)], style: Style) -> String {
        let split = cells.len() - self.shared;
        let own = cells[..split].iter().map(|cell| cell.1).collect::<Vec<_>>();
        let slack = self.left - total(&own);
        let mut line = String::new();
        for (index, (cell, width, number)) in cells.iter().enumerate().filter(|(_, cell)| cell.1 > 0) {
            if index == split {
                line.push_str(&" ".repeat(slack));
            }
            let gap = if line.is_empty() { "" } else { " " };
            let text = pad(&cell.at(*width), *width, *number);
            line.push_str(gap);
            line.push_str(&style.paint(&text, cell.ink));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Why a subflow is no more.
fn closing(path: &Path<'_>) -> Cell {
    let Some(closed) = path.subflow.closed else { return Cell::new("") };
    let (words, short) = (closed.reason.description(), closed.reason.short().to_owned());
    if closed.reason.is_failure() {
        Cell::either(vec![format!("failed: {words}"), format!("failed: {short}"), short]).ink(Ink::Alarm)
    } else {
        Cell::either(vec![words.to_owned(), format!("closed: {short}"), short]).ink(Ink::Faint)
    }
}

fn widest(cells: impl Iterator<Item = Cell>) -> usize {
    cells.map(|cell| cell.width()).max().unwrap_or(0)
}

/// Gives each column its width: what its cells need, as far as the room allows.
fn sized<F: ?Sized>(
    columns: Vec<Column<F>>,
    room: usize,
    natural: impl Fn(&Column<F>) -> usize,
) -> Vec<(Column<F>, usize)> {
    let wishes: Vec<Wish> = columns
        .iter()
        .map(|column| {
            let title =
                if column.wish.least > 1 { column.title.chars().count().min(column.wish.full) } else { 0 };
            let needed = natural(column).max(column.wish.least).max(title);
            Wish { full: needed.min(column.wish.full.max(column.wish.least)), ..column.wish }
        })
        .collect();
    let widths = fit(&wishes, room);
    columns.into_iter().zip(widths).collect()
}

fn with_shared<F: ?Sized>(
    mut own: Vec<(Column<F>, usize)>,
    shared: Vec<Column<F>>,
) -> Vec<(Column<F>, usize)> {
    own.extend(shared.into_iter().map(|column| {
        let width = column.wish.least;
        (column, width)
    }));
    own
}
