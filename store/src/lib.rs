// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: every connection and subflow with its final counters in an SQLite file, to be queried later. One thread writes the file; a
//! source of snapshots passes them on and never waits. Others may rely on the views (docs/store.md).
//!
//! `columns` and `values` say how a value becomes columns, `rows` declares the rows; tables, views, insertions and queries follow from these two.

mod archive;
mod bottlenecks;
mod changes;
mod clock;
mod columns;
mod earlier;
mod error;
mod limits;
mod lock;
mod merge;
mod migrate;
mod names;
mod open;
mod queue;
mod record;
mod retention;
mod rows;
mod schema;
mod sql;
mod store;
mod tables;
mod timeline;
mod values;
mod views;
mod writer;

#[cfg(test)]
mod tests;

pub use archive::{Archive, Period};
pub use earlier::RunStart;
pub use error::StoreError;
pub use limits::{Limits, StoreFigures, StoreLosses};
pub use store::Store;
