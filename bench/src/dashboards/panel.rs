// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data structures of dashboards and panels.

/// Data source of a dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Metrics of the hosts. Queries are PromQL.
    Prometheus,
    /// Connections of many hosts. Queries are SQL.
    ClickHouse,
}

/// How a panel is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// One number.
    Stat,
    /// Lines over time.
    Lines,
    /// Areas over time that add up.
    Stack,
    /// A table of the labels of the current series, or of the answer to an SQL query.
    Table,
}

/// One panel.
pub struct Panel {
    /// Title.
    pub title: &'static str,
    /// Description, in one or two sentences.
    pub about: &'static str,
    /// Grafana's name of the unit.
    pub unit: &'static str,
    /// How the panel is drawn.
    pub draw: Draw,
    /// Queries, each with its legend. In PromQL, the matchers of job and instance replace `$m`, these matchers and the
    /// matcher of the connection replace `$f`, and the interval of rates replaces `$r`.
    pub queries: &'static [(&'static str, &'static str)],
}

/// One dashboard.
pub struct Dashboard {
    /// File name without `.json`, and the end of its id.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Description.
    pub about: &'static str,
    /// The data source.
    pub source: Source,
    /// Rows of panels, each with its title.
    pub rows: &'static [(&'static str, &'static [Panel])],
}

/// Creates a panel.
pub(crate) const fn panel(
    title: &'static str,
    draw: Draw,
    unit: &'static str,
    about: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, draw, queries }
}
