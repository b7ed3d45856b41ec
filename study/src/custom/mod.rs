// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users' experiments: measurements between two machines that a file names. [`mod@file`] reads the file, [`drive`] starts both ends by the
//! commands in the file, [`endpoint`] is the program at each end, [`message`] defines the messages.

pub(crate) mod between;
pub(crate) mod drive;
pub(crate) mod endpoint;
pub(crate) mod file;
pub(crate) mod message;
mod remote;
