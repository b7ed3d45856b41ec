// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a soak.

/// The result of a step of a soak. The error message states which step failed.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
