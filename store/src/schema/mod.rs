// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables and views, and the conversion between connections and rows. A column is declared once, in `rows`.

pub(crate) mod columns;
pub(crate) mod create;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod rows;
pub(crate) mod sql;
pub(crate) mod tables;
pub(crate) mod timeline;
pub(crate) mod values;
pub(crate) mod views;
