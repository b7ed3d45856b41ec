// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends records of connections over HTTP. The caller reads them from a database and decides when a failed request is repeated.

mod body;
#[cfg(feature = "clickhouse")]
mod clickhouse;
mod client;
mod headers;
#[cfg(feature = "otlp")]
mod otlp;
mod retry;
mod sender;
mod target;
mod tls;
mod url;

pub use client::HttpError;
#[cfg(feature = "otlp")]
pub use otlp::Signal;
pub use retry::Backoff;
pub use sender::{Record, Rejected, SendError, Sender, Sent, with_weight};
#[cfg(feature = "clickhouse")]
pub use target::answer_of_clickhouse;
pub use target::{Target, TargetError};
