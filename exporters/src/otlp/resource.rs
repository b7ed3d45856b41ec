// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resources: the host, the process and the pod of a connection. A collector's processors find pods by these attributes.

use std::collections::HashMap;

use mpwatch_model::flow::end::{End, EndColumns};
use mpwatch_model::table::Cell;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// Columns that become attributes of the resource, with their names there.
const COLUMNS: [(&str, &str); 9] = [
    ("host", "host.name"),
    ("boot_id", "mpwatch.boot_id"),
    ("pid", "process.pid"),
    ("comm", "process.executable.name"),
    ("cgroup", "process.linux.cgroup"),
    ("pod_namespace", "k8s.namespace.name"),
    ("pod_name", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("container", "k8s.container.name"),
];

pub(super) fn has(column: &str) -> bool {
    COLUMNS.iter().any(|(name, _)| *name == column)
}

/// The records of each resource, in the order in which the resources were found.
pub(super) struct ByResource<T> {
    mpwatch: String,
    places: HashMap<Vec<u8>, usize>,
    all: Vec<(Resource, Vec<T>)>,
}

impl<T> ByResource<T> {
    /// `mpwatch`: the version of this program.
    pub(super) fn new(mpwatch: &str) -> Self {
        Self { mpwatch: mpwatch.to_owned(), places: HashMap::new(), all: Vec::new() }
    }

    pub(super) fn add(&mut self, end: &End, columns: &EndColumns, records: impl IntoIterator<Item = T>) {
        let fixed = [("service.name", "mpwatch"), ("service.version", &self.mpwatch), ("os.type", "linux")];
        let cells = COLUMNS.iter().filter_map(|(column, name)| Some((name, end.cell(columns, column)?)));
        let fixed = fixed.into_iter().map(|(name, text)| text_attribute(name, text));
        let attributes = fixed.chain(cells.map(|(name, cell)| attribute(name, value(cell)))).collect();
        let resource = Resource { attributes, ..Resource::default() };
        let place = *self.places.entry(resource.encode_to_vec()).or_insert_with(|| {
            self.all.push((resource, Vec::new()));
            self.all.len() - 1
        });
        self.all[place].1.extend(records);
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = (Resource, InstrumentationScope, Vec<T>)> {
        let scope = InstrumentationScope {
            name: "mpwatch".to_owned(),
            version: self.mpwatch,
            ..InstrumentationScope::default()
        };
        self.all.into_iter().map(move |(resource, records)| (resource, scope.clone(), records))
    }
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

pub(super) fn text_attribute(name: &str, text: &str) -> KeyValue {
    attribute(name, Value::StringValue(text.to_owned()))
}

pub(super) fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Integer(number) => Value::IntValue(*number),
        Cell::Real(number) => Value::DoubleValue(*number),
        Cell::Text(text) => Value::StringValue(text.clone()),
    }
}
