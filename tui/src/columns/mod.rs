// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registry of columns for the screen's tables, `top --batch` and `ls`: cells and sort order. Every metric has a column.

mod bottleneck;
mod column;
mod cost;
mod identity;
mod order;
mod registry;
mod row;
mod table;
mod traffic;
mod views;

pub(crate) use column::{Column, RowKind};
pub(crate) use identity::{PARTLY_LEGEND, full_names};
pub(crate) use order::{Order, ranks};
pub use registry::names;
pub(crate) use registry::{COLUMNS, find, known, search_text};
pub(crate) use row::{Fold, Row, Subject};
pub(crate) use table::Table;
pub(crate) use views::{
    AGGREGATES_BY_PATH, AGGREGATES_BY_PEER, BATCH, CONNECTIONS, Choice, DETAIL, ENERGY, LIST, chosen,
    is_of_energy,
};
