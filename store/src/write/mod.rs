// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes snapshots: a bounded queue, one thread that owns the file, and the limits of the file's age and size.

pub(crate) mod backlog;
pub(crate) mod changes;
pub(crate) mod clock;
pub(crate) mod earlier;
pub(crate) mod end;
pub(crate) mod file;
pub(crate) mod limits;
pub(crate) mod merge;
pub(crate) mod queue;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod store;
pub(crate) mod unobserved;
pub(crate) mod writer;
