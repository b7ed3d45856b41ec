// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parquet: tables as files, and a folder of files that is partitioned by day and host.

mod folder;
mod table;

pub use folder::{FileKey, FolderError, FolderWriter};
