// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows for other engines: whole tables by day, and the connections that a target has not confirmed.

pub(crate) mod extract;
pub(crate) mod outbox;
