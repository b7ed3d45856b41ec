// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a soak.

/// An error of a soak: what failed, as text.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
