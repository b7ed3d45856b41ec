// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes tables as Parquet files into a folder that is partitioned by day and host.

mod folder;
mod table;

pub use folder::{FileKey, FolderError, FolderWriter};
