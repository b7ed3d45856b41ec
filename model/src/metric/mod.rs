// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metric table, which declares the name, unit, column title and meaning of each number for all outputs.

pub mod derived;
pub mod distribution;
pub mod event_counter;
pub mod flow;
mod format;
pub mod host;
pub mod row;
pub mod service;
pub mod unit;

pub use flow::{CONNECTION, CONNECTION_INFO, SUBFLOW, SUBFLOW_INFO};
pub use format::{compact, count, display, prefixed, round_up, trimmed, watts};
pub use row::{HasEnergy, InfoMetric, Kind, Metric, find};
pub use unit::Unit;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn rows() -> Vec<(&'static str, &'static str, Kind, Unit)> {
        let mut rows = Vec::new();
        macro_rules! add {
            ($($table:expr, |$row:ident| $kind:expr, $unit:expr;)*) => {
                $(rows.extend($table.iter().map(|$row| ($row.name, $row.help, $kind, $unit)));)*
            };
        }
        add! {
            SUBFLOW, |row| row.kind, row.unit;
            CONNECTION, |row| row.kind, row.unit;
            service::SERVICE, |row| row.kind, row.unit;
            service::EXPORT, |row| row.kind, row.unit;
            host::HOST_METRICS, |row| row.kind, row.unit;
            event_counter::CONNECTION_EVENTS, |row| Kind::Counter, Unit::Count;
            event_counter::SUBFLOW_EVENTS, |row| Kind::Counter, Unit::Count;
            distribution::CONNECTION_DISTRIBUTIONS, |row| Kind::Histogram, row.unit;
            distribution::SUBFLOW_DISTRIBUTIONS, |row| Kind::Histogram, row.unit;
        }
        rows
    }

    #[test]
    fn a_sum_is_named_after_its_subject() {
        assert_eq!(CONNECTION[0].name_of("peer"), "mpwatch_peer_sent_bytes_total");
        assert_eq!(SUBFLOW[3].name_of("interface"), "mpwatch_interface_retransmitted_bytes_total");
    }

    /// The end of the name of a metric, before `_total`.
    fn suffix(unit: Unit) -> &'static str {
        match unit {
            Unit::Bytes => "_bytes",
            Unit::Seconds => "_seconds",
            Unit::BitsPerSecond => "_bits_per_second",
            Unit::Ratio => "_ratio",
            Unit::Segments => "_segments",
            Unit::Joules => "_joules",
            Unit::Watts => "_watts",
            Unit::JoulesPerGigabyte => "_joules_per_gigabyte",
            Unit::Count => "",
        }
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        let mut seen = HashSet::new();
        for (name, help, kind, unit) in rows() {
            assert!(seen.insert(name), "{name} stands twice in the table");
            let stem = name.strip_suffix("_total").unwrap_or(name);
            assert_eq!(kind == Kind::Counter, stem != name, "{name}: counters end in _total, gauges do not");
            assert!(stem.ends_with(suffix(unit)), "{name} does not end in {}", suffix(unit));
            assert!(
                help.ends_with('.') && help.starts_with(char::is_uppercase),
                "{name}: the help is not a sentence"
            );
        }
    }
}
