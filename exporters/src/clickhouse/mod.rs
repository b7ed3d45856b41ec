// SPDX-License-Identifier: MIT OR Apache-2.0
//! ClickHouse: the schema of its tables ([`schema`]) and the rows that are inserted ([`rows`]). One row per end of a connection; both ends
//! compute the same `pair`, a number that joins their rows.

pub mod check;
mod place;
pub mod rows;
pub mod schema;
mod sites;
