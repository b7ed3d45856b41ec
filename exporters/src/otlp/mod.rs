// SPDX-License-Identifier: MIT OR Apache-2.0
//! OTLP, the protocol of OpenTelemetry, in protobuf: a log event for each closed connection, and spans for it and its subflows. An
//! attribute that the semantic conventions name has that name. Any other name is `mptcp.` or `flow.energy.`, followed by the column of the
//! database, which ends in its unit.

mod attributes;
#[cfg(test)]
mod fixture;
mod ids;
mod logs;
mod resource;
mod spans;

pub use logs::{logs, rejected};
pub use spans::spans;
