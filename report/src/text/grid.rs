// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table whose columns are as wide as their widest cell.

use unicode_width::UnicodeWidthStr;

use super::words::capital;

const GAP: &str = "  ";

/// How the cells of a column align.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Titles with their alignment, and rows of the same length.
pub struct Grid {
    /// Title and alignment of each column.
    pub columns: Vec<(&'static str, Align)>,
    /// Each row has a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// A column: title, alignment, and the text of a row's cell.
pub type Column<Row> = (&'static str, Align, fn(&Row) -> String);

impl Grid {
    /// A grid of some columns with these rows. `None`: there are no rows.
    pub fn from_rows<'a, Row: 'a>(
        columns: &[Column<Row>],
        rows: impl IntoIterator<Item = &'a Row>,
    ) -> Option<Self> {
        let cells = |row: &Row| columns.iter().map(|(.., cell)| cell(row)).collect();
        let rows: Vec<Vec<String>> = rows.into_iter().map(cells).collect();
        let columns = columns.iter().map(|(title, align, _)| (*title, *align)).collect();
        (!rows.is_empty()).then_some(Self { columns, rows })
    }

    /// As [`Self::text`], in lines of at most `width` if the columns allow it: several tables, each beginning with the first column.
    pub fn text_within(&self, indent: &str, width: usize) -> String {
        self.parts(width.saturating_sub(indent.len())).iter().map(|part| part.text(indent)).collect()
    }

    fn parts(&self, width: usize) -> Vec<Self> {
        let widths = self.widths();
        let first = widths.first().copied().unwrap_or(0);
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        for (column, wanted) in widths.iter().enumerate().skip(1) {
            match parts.last_mut() {
                Some(part) if used + GAP.len() + wanted <= width => part.push(column),
                _ => {
                    parts.push(vec![0, column]);
                    used = first;
                }
            }
            used += GAP.len() + wanted;
        }
        let part = |columns: &Vec<usize>| Self {
            columns: columns.iter().map(|column| self.columns[*column]).collect(),
            rows: self.rows.iter().map(|row| columns.iter().map(|at| row[*at].clone()).collect()).collect(),
        };
        parts.iter().map(part).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let width = |(column, (title, _)): (usize, &(&str, Align))| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
            cells.max().unwrap_or(0).max(title.width())
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    /// A line with the titles and a line for each row, each after `indent`.
    pub fn text(&self, indent: &str) -> String {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| (*title).to_owned()).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let widths = self.widths();
        lines().map(|row| self.line(row, &widths, indent)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize], indent: &str) -> String {
        let cells = row.iter().zip(widths).zip(&self.columns).map(|((cell, width), (_, align))| {
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            if *align == Align::Right { padding + cell } else { cell.clone() + &padding }
        });
        format!("{indent}{}\n", cells.collect::<Vec<_>>().join(GAP).trim_end())
    }
}

/// A table over all connections.
pub(crate) struct Overview {
    pub(crate) title: &'static str,
    pub(crate) notes: Vec<String>,
    pub(crate) grid: Grid,
}

impl Overview {
    /// The notes as sentences.
    pub(crate) fn paragraph(&self) -> String {
        self.notes.iter().map(|note| format!("{}.", capital(note))).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_becomes_several_with_the_same_first_column() {
        let row = |number: &str| ["aaaa", "bbbb", "cccc"].map(|cell| format!("{cell}{number}"));
        let columns =
            vec![("#", Align::Right), ("one", Align::Left), ("two", Align::Left), ("three", Align::Left)];
        let rows = ["1", "2"].map(|number| [vec![number.to_owned()], row(number).to_vec()].concat());
        let grid = Grid { columns, rows: rows.to_vec() };
        assert_eq!(grid.text_within("  ", 80), grid.text("  "));
        let wanted =
            "  #  one    two\n  1  aaaa1  bbbb1\n  2  aaaa2  bbbb2\n  #  three\n  1  cccc1\n  2  cccc2\n";
        assert_eq!(grid.text_within("  ", 17), wanted);
        assert_eq!(grid.text_within("  ", 3).lines().count(), 9, "a column is never cut");
    }
}
