// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users' experiments: the same measurements between two machines that a file names. [`mod@file`] reads it, [`drive`] runs both ends through the
//! commands of the file, [`endpoint`] is an end, [`message`] has the messages between them.

pub(crate) mod between;
pub(crate) mod drive;
pub(crate) mod endpoint;
pub(crate) mod file;
pub(crate) mod message;
mod remote;
