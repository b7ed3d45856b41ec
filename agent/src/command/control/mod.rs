// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch control`: the commands that change connections.

pub(super) mod congestion;
pub(super) mod eliminate;
