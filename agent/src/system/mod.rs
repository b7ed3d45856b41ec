// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine and this process: clocks, files of `/proc`, signals, capabilities, default paths.

pub(crate) mod capability;
pub(crate) mod clock;
pub(crate) mod companion;
pub(crate) mod lock;
pub(crate) mod mib;
pub(crate) mod paths;
pub(crate) mod privilege;
pub(crate) mod procfs;
pub(crate) mod setup;
pub(crate) mod signals;
