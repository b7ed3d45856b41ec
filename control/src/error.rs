// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why connections cannot be changed. The text also says what to do.

/// The caller derives an exit code from the variant.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A capability is missing.
    #[error("{0}")]
    Permission(String),
    /// The kernel lacks something.
    #[error("{0}")]
    Unsupported(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}
