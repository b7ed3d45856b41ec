// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads rows for other databases and file formats: whole tables by day, and the connections that a target has not confirmed.

pub(crate) mod extract;
pub(crate) mod outbox;
