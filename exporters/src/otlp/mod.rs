// SPDX-License-Identifier: MIT OR Apache-2.0
//! OTLP, the protocol of OpenTelemetry, in protobuf: a log event for each closed connection, and spans for it and its subflows. An
//! attribute that the semantic conventions name has that name. Most other names are a prefix (`mptcp.`, `mptcp.subflow.`, `mptcp.event.` or
//! `flow.energy.`), followed by the name of a database column or of an event's field.

mod attributes;
#[cfg(test)]
mod fixture;
mod ids;
mod logs;
mod resource;
mod spans;

pub use logs::{logs, rejected};
pub use spans::spans;
