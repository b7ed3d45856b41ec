// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of text whose columns are as wide as their widest cell.

use unicode_width::UnicodeWidthStr;

/// How a column stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Titles, sides and rows of the same length.
pub(crate) struct Grid<'a> {
    pub(crate) columns: &'a [(&'a str, Side)],
    pub(crate) rows: Vec<Vec<String>>,
}

impl Grid<'_> {
    /// One line for the titles and one for each row, each after `indent`; two blanks between columns.
    pub(crate) fn text(&self, indent: &str) -> String {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = std::iter::once(&titles).chain(&self.rows).filter_map(|row| row.get(column));
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        let lines = std::iter::once(&titles).chain(&self.rows).map(|row| self.line(row, &widths, indent));
        lines.collect()
    }

    fn line(&self, row: &[String], widths: &[usize], indent: &str) -> String {
        let cells = row.iter().zip(widths).zip(self.columns).map(|((cell, width), (_, side))| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if *side == Side::Right { blanks + cell } else { cell.clone() + &blanks }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{indent}{}\n", line.trim_end())
    }
}
