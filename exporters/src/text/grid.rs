// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table whose columns are as wide as their widest cell.

use unicode_width::UnicodeWidthStr;

/// How the cells of a column align.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Titles with their alignment, and rows of the same length.
pub(crate) struct Grid {
    pub(crate) columns: Vec<(&'static str, Align)>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column: title, alignment, and the text of a row's cell.
pub(crate) type Column<Row> = (&'static str, Align, fn(&Row) -> String);

impl Grid {
    /// A grid of some columns with these rows. `None`: there are no rows.
    pub(crate) fn of<'a, Row: 'a>(
        columns: &[Column<Row>],
        rows: impl IntoIterator<Item = &'a Row>,
    ) -> Option<Self> {
        let cells = |row: &Row| columns.iter().map(|(.., cell)| cell(row)).collect();
        let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
        let columns = columns.iter().map(|(title, align, _)| (*title, *align)).collect();
        (!rows.is_empty()).then_some(Self { columns, rows })
    }

    /// A line with the titles and one for each row, each after `indent`; two spaces between columns.
    pub(crate) fn text(&self, indent: &str) -> String {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                lines().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        lines().map(|row| self.line(row, &widths, indent)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize], indent: &str) -> String {
        let cells = row.iter().zip(widths).zip(&self.columns).map(|((cell, width), (_, align))| {
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            if *align == Align::Right { padding + cell } else { cell.clone() + &padding }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{indent}{}\n", line.trim_end())
    }
}
