// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits columns to the available width and formats rows as lines of text.

use super::column::Column;
use super::registry::{UNLIMITED, find};
use super::row::Row;
use super::views::Choice;
use crate::layout::{Demand, GAP, fit};
use crate::text::Text;
use crate::theme::Ink;

/// Columns whose text is not dimmed in the row of a closed flow.
const NEVER_DIMMED: [&str; 3] = ["flow", "rates", "share"];

/// The columns of a table, each with its title and width.
pub(crate) struct Table {
    columns: Vec<(&'static Column, &'static str, usize)>,
}

impl Table {
    /// Selects the `choices` that fit into `room` characters, each as wide as `rows` need.
    pub(crate) fn new(choices: &[Choice], room: usize, rows: &[Row<'_>]) -> Self {
        let chosen: Vec<(&Column, Choice)> =
            choices.iter().filter_map(|choice| Some((find(choice.key)?, *choice))).collect();
        let natural =
            |column: &Column| rows.iter().map(|row| column.text(row, UNLIMITED).width()).max().unwrap_or(0);
        let demands: Vec<Demand> =
            chosen.iter().map(|(column, choice)| demand(column, *choice, natural(column))).collect();
        let fitted = chosen.into_iter().zip(fit(&demands, room)).filter(|(_, width)| *width > 0);
        Self { columns: fitted.map(|((column, _), width)| (column, column.title, width)).collect() }
    }

    /// Shows another title above a column.
    #[must_use]
    pub(crate) fn with_title(mut self, key: &str, title: &'static str) -> Self {
        self.columns
            .iter_mut()
            .filter(|(column, ..)| column.key == key)
            .for_each(|(_, shown, _)| *shown = title);
        self
    }

    /// The line of titles; the column that rows are sorted by has a mark.
    pub(crate) fn titles(&self, sort: Option<(&str, bool)>) -> Text {
        joined(self.columns.iter().map(|(column, title, width)| {
            let (mark, ink) = match sort {
                Some((key, reverse)) if key == column.key => (if reverse { "▲" } else { "▼" }, Ink::Accent),
                _ => ("", Ink::Strong),
            };
            let forms = [format!("{title}{mark}"), (*title).to_owned()];
            let forms = forms.map(|form| Text::new(form, ink));
            Text::first_that_fits(forms, *width).fitted(*width, column.is_number)
        }))
    }

    pub(crate) fn row(&self, row: &Row<'_>) -> Text {
        joined(self.columns.iter().map(|(column, _, width)| {
            let text = column.text(row, *width);
            let is_dimmed = row.is_closed() && !NEVER_DIMMED.contains(&column.key);
            let text = if is_dimmed { text.all(Ink::Faint) } else { text };
            text.fitted(*width, column.is_number)
        }))
    }

    /// The column at `x` characters from the left edge. `None`: `x` is right of the last column.
    pub(crate) fn column_at(&self, x: usize) -> Option<&'static str> {
        let mut left = 0;
        let ends = self.columns.iter().map(|(column, _, width)| {
            left += width + GAP;
            (column.key, left)
        });
        ends.into_iter().find(|(_, end)| x < *end).map(|(key, _)| key)
    }
}

fn demand(column: &Column, choice: Choice, natural: usize) -> Demand {
    let min = column.min.max(column.title.chars().count());
    let max = natural.clamp(min, column.max.max(min));
    // A name can be cut; a reader would misread a cut number or range.
    let min = if column.is_number || column.key == "bounds" { max } else { min };
    Demand { min, max, rank: choice.rank, is_extra: choice.is_extra }
}

fn joined(cells: impl Iterator<Item = Text>) -> Text {
    let mut line = Text::default();
    for cell in cells {
        if !line.0.is_empty() {
            line = line.and(" ".repeat(GAP), Ink::Normal);
        }
        line = line.join(cell);
    }
    line
}
