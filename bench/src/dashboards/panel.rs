// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a dashboard consists of.

/// How a panel draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// One number.
    Stat,
    /// Lines over time.
    Lines,
    /// Areas over time that add up.
    Stack,
    /// The labels of what is there now.
    Table,
}

/// One panel.
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// How to read it, in a sentence or two.
    pub about: &'static str,
    /// Unit, in Grafana's words.
    pub unit: &'static str,
    /// How it draws.
    pub draw: Draw,
    /// Queries and the legend of each. In a query `$m` stands for the matchers of job and instance, `$r` for the interval of rates.
    pub queries: &'static [(&'static str, &'static str)],
}

/// One dashboard.
pub struct Dashboard {
    /// File name without `.json`, and the end of its id.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Rows of panels, each with its heading.
    pub rows: &'static [(&'static str, &'static [Panel])],
}

/// A panel.
pub(crate) const fn panel(
    title: &'static str,
    draw: Draw,
    unit: &'static str,
    about: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, draw, queries }
}
