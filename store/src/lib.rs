// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: connections and subflows with their final counters in an SQLite file, written by one thread; the source of snapshots never
//! waits. The views are a stable interface (docs/store.md). Tables, views, insertions and queries follow from `columns`, `values` and
//! `rows`.

mod archive;
mod bottlenecks;
mod changes;
mod clock;
mod columns;
mod earlier;
mod error;
mod extract;
mod limits;
mod lock;
mod merge;
mod migrate;
mod names;
mod open;
mod outbox;
mod queue;
mod record;
mod retention;
mod rows;
mod schema;
mod sheet;
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
pub use error::{MAY_WRITE, StoreError};
pub use extract::{Extract, Partition};
pub use limits::{Limits, StoreFigures, StoreLosses};
pub use open::create;
pub use outbox::{Backlog, Outbox, StoredEnd, end_columns};
pub use sheet::{Sheet, SheetOf};
pub use store::Store;
