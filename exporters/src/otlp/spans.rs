// SPDX-License-Identifier: MIT OR Apache-2.0
//! A span for each closed connection and a child span for each of its subflows. Timeline entries are events of the span that they concern.

use mpwatch_model::flow::end::{End, EndColumns, cell};
use mpwatch_model::table::{Cell, Row};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

use super::resource::{ByResource, attribute, text_attribute};
use super::{attributes, ids};

const CONNECTION: &str = "mptcp.connection";
const SUBFLOW: &str = "mptcp.subflow";

/// The body of a request to `/v1/traces`, not compressed. Open connections are omitted. `mpwatch`: the version of this program.
pub fn spans<'a>(ends: impl IntoIterator<Item = &'a End>, columns: &EndColumns, mpwatch: &str) -> Vec<u8> {
    let mut found = ByResource::new(mpwatch);
    for end in ends {
        if let Some(closed_ns) = end.closed_ns(columns) {
            let spans = EndSpans { end, columns, closed_ns };
            let subflows = end.subflows.iter().map(|row| spans.subflow(row));
            found.add(end, columns, std::iter::once(spans.connection()).chain(subflows));
        }
    }
    let spans_of = |(resource, scope, spans)| {
        let spans = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
        ResourceSpans { resource: Some(resource), scope_spans: vec![spans], ..ResourceSpans::default() }
    };
    ExportTraceServiceRequest { resource_spans: found.into_parts().map(spans_of).collect() }.encode_to_vec()
}

/// A closed connection at one end.
struct EndSpans<'a> {
    end: &'a End,
    columns: &'a EndColumns,
    closed_ns: u64,
}

impl EndSpans<'_> {
    fn connection(&self) -> Span {
        let Self { end, columns, closed_ns } = *self;
        let kind = match end.text(columns, "role") {
            Some("client") => SpanKind::Client,
            Some("server") => SpanKind::Server,
            _ => SpanKind::Internal,
        };
        let of_none = |subflow: Option<&str>| subflow.is_none_or(|subflow| !self.has_subflow(subflow));
        Span {
            trace_id: ids::trace(end, columns),
            span_id: ids::connection_span(end, columns),
            name: CONNECTION.to_owned(),
            kind: kind.into(),
            start_time_unix_nano: self.began_ns(),
            end_time_unix_nano: closed_ns,
            attributes: attributes::of_connection(end, columns),
            events: self.events(of_none),
            ..Span::default()
        }
    }

    fn subflow(&self, row: &Row) -> Span {
        let Self { end, columns, closed_ns } = *self;
        let cell = |name: &str| cell(&columns.subflow, row, name);
        let at = |name: &str| u64::try_from(cell(name)?.integer()?).ok();
        let id = cell("id").and_then(Cell::text).unwrap_or_default();
        Span {
            trace_id: ids::trace(end, columns),
            span_id: ids::subflow_span(end, columns, id),
            parent_span_id: ids::connection_span(end, columns),
            name: SUBFLOW.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: at("created_at_ns").unwrap_or_else(|| self.began_ns()),
            end_time_unix_nano: at("closed_at_ns").unwrap_or(closed_ns),
            attributes: attributes::of_subflow(&columns.subflow, row, cell("local_ip").and_then(Cell::text)),
            events: self.events(|subflow| subflow == Some(id)),
            ..Span::default()
        }
    }

    /// When the connection opened, or when mpwatch first observed it.
    fn began_ns(&self) -> u64 {
        let began_ns = self.end.integer(self.columns, "began_ns");
        began_ns.and_then(|at| u64::try_from(at).ok()).unwrap_or(self.closed_ns)
    }

    fn has_subflow(&self, id: &str) -> bool {
        let columns = &self.columns.subflow;
        self.end.subflows.iter().any(|row| cell(columns, row, "id").and_then(Cell::text) == Some(id))
    }

    /// The timeline entries whose subflow `is_accepted` accepts. Its parameter is `None` for an entry of the connection.
    fn events(&self, is_accepted: impl Fn(Option<&str>) -> bool) -> Vec<Event> {
        let of_row = |row: &Row| {
            let cell = |name: &str| cell(&self.columns.event, row, name);
            let text = |name: &str| cell(name).and_then(Cell::text);
            if !is_accepted(text("subflow")) {
                return None;
            }
            Some(Event {
                time_unix_nano: u64::try_from(cell("at_ns")?.integer()?).ok()?,
                name: format!("mptcp.{}", text("event")?),
                attributes: detail(text("detail"), text("reason")),
                ..Event::default()
            })
        };
        self.end.events.iter().filter_map(of_row).collect()
    }
}

/// The attributes of an event: the fields of `json`, or without them the reason why a subflow ended.
fn detail(json: Option<&str>, reason: Option<&str>) -> Vec<KeyValue> {
    use serde_json::Value as Json;
    let Some(Ok(Json::Object(fields))) = json.map(serde_json::from_str) else {
        return reason.map(|reason| text_attribute("mptcp.event.reason", reason)).into_iter().collect();
    };
    let of_field = |(name, value): (String, Json)| {
        let value = match value {
            Json::Bool(value) => Value::BoolValue(value),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Value::IntValue(whole),
                None => Value::DoubleValue(number.as_f64()?),
            },
            Json::String(text) => Value::StringValue(text),
            Json::Null | Json::Array(_) | Json::Object(_) => return None,
        };
        Some(attribute(&format!("mptcp.event.{name}"), value))
    };
    fields.into_iter().filter_map(of_field).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{columns, end};
    use super::*;

    fn decoded(ends: &[End]) -> Vec<ResourceSpans> {
        let body = spans(ends, &columns(), "1.2.3");
        ExportTraceServiceRequest::decode(&body[..]).unwrap().resource_spans
    }

    #[test]
    fn a_connection_is_a_span_with_a_child_for_each_subflow() {
        let found = decoded(&[end("a", ["1", "2"], Some(5)), end("a", ["1", "3"], None)]);
        assert_eq!(found.len(), 1);
        let [connection, first, second] = &found[0].scope_spans[0].spans[..] else { panic!("{found:?}") };
        assert_eq!((connection.name.as_str(), connection.kind()), ("mptcp.connection", SpanKind::Client));
        assert!(connection.parent_span_id.is_empty());
        let times = |span: &Span| (span.start_time_unix_nano, span.end_time_unix_nano);
        assert_eq!([connection, first, second].map(times), [(2, 5), (2, 5), (3, 4)]);
        for subflow in [first, second] {
            assert_eq!((subflow.name.as_str(), subflow.kind()), ("mptcp.subflow", SpanKind::Internal));
            assert_eq!(subflow.parent_span_id, connection.span_id);
            assert_eq!((&subflow.trace_id, subflow.span_id.len()), (&connection.trace_id, 8));
        }
        assert_ne!(first.span_id, second.span_id);
        let names: Vec<&str> = second.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        let expected = [
            "network.transport",
            "mptcp.subflow.id",
            "network.interface.name",
            "mptcp.subflow.created_at_ns",
            "mptcp.subflow.closed_at_ns",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn both_ends_are_in_one_trace() {
        let found = decoded(&[end("a", ["1", "2"], Some(5)), end("b", ["2", "1"], Some(6))]);
        let [client, server] = [&found[0], &found[1]].map(|spans| &spans.scope_spans[0].spans[0]);
        assert_eq!(client.trace_id, server.trace_id);
        assert_eq!((client.kind(), server.kind()), (SpanKind::Client, SpanKind::Server));
    }

    #[test]
    fn entries_of_the_timeline_are_events_of_their_span() {
        let found = decoded(&[end("a", ["1", "2"], Some(5))]);
        let events = |span: usize| {
            let events = found[0].scope_spans[0].spans[span].events.iter();
            let shown = |event: &Event| {
                let attributes = event.attributes.iter().map(|attribute| {
                    (
                        attribute.key.clone(),
                        attribute.value.as_ref().and_then(|value| value.value.clone()).unwrap(),
                    )
                });
                (event.name.clone(), event.time_unix_nano, attributes.collect::<Vec<_>>())
            };
            events.map(shown).collect::<Vec<_>>()
        };
        assert_eq!(events(0), [("mptcp.opened".to_owned(), 2, vec![])]);
        assert_eq!(events(1), []);
        let stale = ("mptcp.event.stale".to_owned(), Value::BoolValue(true));
        let reason = ("mptcp.event.reason".to_owned(), Value::StringValue("reset".to_owned()));
        let expected = [
            ("mptcp.subflow_stale".to_owned(), 3, vec![stale]),
            ("mptcp.subflow_closed".to_owned(), 4, vec![reason]),
        ];
        assert_eq!(events(2), expected);
        let probability = attribute("mptcp.event.probability", Value::DoubleValue(0.5));
        assert_eq!(detail(Some(r#"{"probability":0.5}"#), None), [probability]);
    }
}
