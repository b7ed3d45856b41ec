// SPDX-License-Identifier: MIT OR Apache-2.0
//! All columns: the columns that this crate defines, and a column for every metric.

use std::sync::LazyLock;

use mpwatch_model::metric::{CONNECTION, SUBFLOW, Unit};

use super::column::{Column, RowKind, Value, numbers};
use super::row::Row;
use super::{bottleneck, cost, identity, traffic};

/// Width in characters at which no cell is shortened.
pub(crate) const UNLIMITED: usize = 120;

pub(crate) static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let own = [identity::COLUMNS, bottleneck::COLUMNS, traffic::COLUMNS, cost::COLUMNS].concat();
    own.into_iter().chain(metrics()).collect()
});

/// A column for each metric of subflows (with the same metric of connections), then for each metric that only connections have.
fn metrics() -> Vec<Column> {
    let key = |name: &'static str| name.splitn(3, '_').nth(2).unwrap_or(name);
    let column = |name, title, help, unit, value| {
        let width = if matches!(unit, Unit::Count | Unit::Segments) { 5 } else { 7 };
        numbers((key(name), title, help), width, RowKind::Flows, value)
    };
    // The column `share` displays the metric `sent_share_ratio`.
    let of_subflows = SUBFLOW.iter().filter(|metric| key(metric.name) != "sent_share_ratio").map(|metric| {
        let same = CONNECTION.iter().find(|other| key(other.name) == key(metric.name));
        column(metric.name, metric.title, metric.help, metric.unit, Value::Metric(same, Some(metric)))
    });
    let is_only = |name| SUBFLOW.iter().all(|metric| key(metric.name) != key(name));
    let of_connections = CONNECTION.iter().filter(|metric| is_only(metric.name)).map(|metric| {
        column(metric.name, metric.title, metric.help, metric.unit, Value::Metric(Some(metric), None))
    });
    of_subflows.chain(of_connections).collect()
}

pub(crate) fn find(key: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.key == key)
}

pub(crate) fn search_text(row: &Row<'_>) -> String {
    let columns =
        ["flow", "name", "netns", "state", "cgroup", "bottleneck"].iter().filter_map(|key| find(key));
    columns.map(|column| column.text(row, UNLIMITED).string()).collect::<Vec<_>>().join(" ")
}

/// The columns of `names` that exist. The flag states whether the user shows the column.
pub(crate) fn known(names: &[(String, bool)]) -> Vec<(&'static str, bool)> {
    names.iter().filter_map(|(name, shown)| Some((find(name)?.key, *shown))).collect()
}

/// The names of all columns, for the configuration.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = COLUMNS.iter().map(|column| column.key).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::super::views;
    use super::*;

    #[test]
    fn column_names_are_unique() {
        let mut unique = names();
        unique.dedup();
        assert_eq!(unique.len(), COLUMNS.len());
    }

    #[test]
    fn no_two_columns_of_a_table_have_the_same_title() {
        for rows in [RowKind::Flows, RowKind::Aggregates] {
            let columns = COLUMNS.iter().filter(|column| column.rows == rows || column.rows == RowKind::All);
            let mut titles: Vec<&str> = columns.map(|column| column.title).collect();
            titles.sort_unstable();
            let all = titles.clone();
            titles.dedup();
            assert_eq!(titles, all);
        }
    }

    #[test]
    fn every_column_of_a_view_exists() {
        for choice in views::ALL.concat() {
            assert!(find(choice.key).is_some(), "{}", choice.key);
        }
    }
}
