// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dashboards and their panels, as data.

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
    /// The labels of the current series, or the answer to a query in SQL.
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
    /// How it is drawn.
    pub draw: Draw,
    /// Queries, each with its legend. In PromQL, `$m` is replaced by the matchers of job and instance, `$f` by these and the
    /// matcher of the connection, and `$r` by the interval of rates.
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
    /// Its data source.
    pub source: Source,
    /// Rows of panels, each with its title.
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
