// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON contains all fields of the model and all computed values, and parses to the same data.
#![allow(clippy::unwrap_used, reason = "a test")]

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::metric::derived::{Tabled, columns};
use mpwatch_model::snapshot::{Report, Snapshot};
use schemars::JsonSchema;
use serde_json::json;

#[test]
fn json_has_the_fields_and_the_computed_values() {
    let connection = fixture::connection(1, 2);
    let json = serde_json::to_value(&connection).unwrap();
    for (column, metric) in columns::<Connection>() {
        assert_eq!(json[column].as_f64(), (metric.read)(&connection), "{column}");
    }
    assert_eq!(json["subflows"].as_array().unwrap().len(), 2);
    assert_eq!(serde_json::from_value::<Connection>(json).unwrap(), connection);
}

#[test]
fn a_value_of_an_enumeration_has_the_same_word_everywhere() {
    for method in DetectionMethod::ALL {
        assert_eq!(serde_json::to_value(method).unwrap(), method.as_str());
        assert_eq!(DetectionMethod::from_word(method.as_str()), Some(method));
    }
    assert_eq!(DetectionMethod::from_word("guess"), None);
}

#[test]
fn a_report_has_the_goodput_of_its_connections() {
    let mut report = fixture::report(vec![fixture::closed(1), fixture::closed(2)]);
    let json = serde_json::to_value(&report).unwrap();
    // 2 * 120.0018 MB in the period of 12.75 s, or in the 12 s from opening to end of the connections.
    let rates = ["goodput_bps", "open_goodput_bps"].map(|key| json[key].to_string());
    assert_eq!(rates, ["150590494.0", "160002400.0"]);
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
    report.connections.clear();
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["goodput_bps"].is_null() && json["open_goodput_bps"].is_null(), "no connection: unknown");
}

#[test]
fn the_schema_describes_the_computed_values() {
    fn check<T: Tabled + JsonSchema>() {
        let schema = schemars::schema_for!(T).to_value();
        for (column, metric) in columns::<T>() {
            assert_eq!(schema["properties"][column]["description"], metric.help);
            assert!(schema["required"].as_array().unwrap().contains(&column.into()), "{column}");
        }
    }
    check::<Connection>();
    check::<Report>();
}

#[test]
fn a_snapshot_is_read_back_as_it_was_written() {
    let mut written = fixture::snapshot(vec![
        fixture::connection(1, 2),
        fixture::closed(2),
        fixture::failover(3),
        fixture::fallen_back(4),
    ]);
    written.host.missing.push(fixture::missing_hook());
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), written);
    assert!(serde_json::from_str::<Snapshot>(&text.replace("1001-", "1001")).is_err());
}

#[test]
fn a_report_has_its_connections_by_class() {
    let report = fixture::report(vec![fixture::closed(1), fixture::closed(2), fixture::fallen_back(3)]);
    let classes = serde_json::to_value(&report).unwrap()["flow_classes"].clone();
    let of = |nth: usize| ["carried_by", "flow_class", "connections"].map(|key| classes[nth][key].clone());
    assert_eq!(of(0), [json!("fallback"), json!("query"), json!(1)], "{classes:#}");
    assert_eq!(of(1), [json!("mptcp"), json!("long"), json!(2)], "{classes:#}");
    let long = &report.connections[0];
    assert_eq!(classes[1]["goodput_bps"], json!(long.observed.unwrap().goodput()));
    assert!((classes[1]["excess_ratio"].as_f64().unwrap() - long.excess_ratio().unwrap()).abs() < 1e-9);
    let few = report.with(vec![fixture::fallen_back(3)]);
    assert_eq!(few.flow_classes.len(), 1, "after a filter");
}
