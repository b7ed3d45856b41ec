// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store: connections and subflows with their final counters in an SQLite file, written by one thread. Live tracing never waits for this
//! thread. The views are a stable interface (docs/store.md).

mod error;
mod feed;
mod lock;
mod open;
mod read;
mod schema;
mod write;

#[cfg(test)]
mod tests;

pub use error::{MAY_WRITE, StoreError};
pub use feed::extract::{Extract, Partition};
pub use feed::outbox::{Backlog, Outbox, StoredEnd, end_columns};
pub use open::create;
pub use read::archive::{Archive, Period};
pub use read::sheet::{Sheet, SheetKind};
pub use write::earlier::RunStart;
pub use write::limits::{Limits, StoreFigures, StoreLosses};
pub use write::store::Store;
