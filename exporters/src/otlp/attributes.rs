// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and values of attributes.

use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::{Cell, Column, Row};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use super::resource::{self, attribute, text_attribute, value};

/// Columns of connections and subflows that the semantic conventions name.
const CONVENTIONS: [(&str, &str); 5] = [
    ("local_ip", "network.local.address"),
    ("local_port", "network.local.port"),
    ("remote_ip", "network.peer.address"),
    ("remote_port", "network.peer.port"),
    ("interface", "network.interface.name"),
];
const ENERGY: [&str; 6] = ["active_uj", "lo_uj", "hi_uj", "full_uj", "energy_source", "j_per_gb"];

/// The attributes of a connection, except the attributes of its resource.
pub(super) fn of_connection(end: &End, columns: &EndColumns) -> Vec<KeyValue> {
    let mut attributes = transport(end.text(columns, "local_ip"));
    let known = known(&columns.connection, &end.connection);
    let own = known.filter(|(column, _)| !resource::has(&column.name));
    attributes.extend(own.map(|(column, cell)| attribute(&name(&column.name, "mptcp."), value(cell))));
    attributes
}

pub(super) fn of_subflow(columns: &[Column], row: &Row, local_ip: Option<&str>) -> Vec<KeyValue> {
    let mut attributes = transport(local_ip);
    let known = known(columns, row);
    attributes
        .extend(known.map(|(column, cell)| attribute(&name(&column.name, "mptcp.subflow."), value(cell))));
    attributes
}

/// All subflows as a list of maps, without unknown values.
pub(super) fn subflow_list(end: &End, columns: &EndColumns) -> KeyValue {
    let map = |row: &Row| {
        let known = known(&columns.subflow, row);
        let values = known.map(|(column, cell)| attribute(&column.name, value(cell))).collect();
        AnyValue { value: Some(Value::KvlistValue(KeyValueList { values })) }
    };
    let values = end.subflows.iter().map(map).collect();
    attribute("mptcp.subflow", Value::ArrayValue(ArrayValue { values }))
}

fn transport(local_ip: Option<&str>) -> Vec<KeyValue> {
    let mut attributes = vec![text_attribute("network.transport", "tcp")];
    attributes.extend(local_ip.map(|address| {
        let kind = if address.contains(':') { "ipv6" } else { "ipv4" };
        text_attribute("network.type", kind)
    }));
    attributes
}

fn known<'a>(columns: &'a [Column], row: &'a Row) -> impl Iterator<Item = (&'a Column, &'a Cell)> {
    columns.iter().zip(row).filter_map(|(column, cell)| Some((column, cell.as_ref()?)))
}

fn name(column: &str, prefix: &str) -> String {
    match CONVENTIONS.iter().find(|(known, _)| *known == column) {
        Some((_, convention)) => (*convention).to_owned(),
        None if ENERGY.contains(&column) => format!("flow.energy.{}", column.trim_start_matches("energy_")),
        None => format!("{prefix}{column}"),
    }
}
