// SPDX-License-Identifier: MIT OR Apache-2.0
//! Support of a kernel for mpwatch: [`hook`] (the table of programs), [`kernel`] (facts about a kernel, from its BTF), [`plan`] (the programs to
//! load there), [`core_check`] (whether the object would load on another kernel).

mod congestion;
pub mod core_check;
pub mod hook;
pub mod kernel;
mod named_types;
pub mod plan;

pub use congestion::CongestionSupport;
pub use kernel::{KernelField, KernelSupport, OPTIONAL_FIELDS, SupportError};
