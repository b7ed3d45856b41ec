// SPDX-License-Identifier: MIT OR Apache-2.0
//! ClickHouse: the schema of its tables ([`schema`]) and the rows that are inserted ([`rows`]). One row per end of a connection; the two
//! ends of a connection meet by their `pair`, a number that both compute alike.

pub mod check;
mod place;
pub mod rows;
pub mod schema;
mod sites;
