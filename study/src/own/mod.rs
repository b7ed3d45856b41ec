// SPDX-License-Identifier: MIT OR Apache-2.0
//! Own experiments: the same measurements between two machines, which a file names. [`mod@file`] reads it, [`drive`] runs both ends through
//! the commands of the file, [`endpoint`] is what they start, [`message`] is what they exchange.

pub(crate) mod between;
pub(crate) mod drive;
pub(crate) mod endpoint;
pub(crate) mod file;
pub(crate) mod message;
mod remote;
