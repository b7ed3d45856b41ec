// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends records of connections over HTTP. The caller reads them from a database and decides when a failed request is repeated.

#[cfg(feature = "clickhouse")]
mod clickhouse;
mod client;
mod headers;
#[cfg(feature = "otlp")]
mod otlp;
mod retry;
mod sender;
#[cfg(all(test, feature = "otlp"))]
mod tests;
mod tls;

#[cfg(feature = "clickhouse")]
pub use clickhouse::answer_of_clickhouse;
pub use client::SendError;
#[cfg(feature = "otlp")]
pub use otlp::Signal;
pub use retry::Backoff;
pub use sender::{Record, Rejected, Sender, Sent, with_weight};
