// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen: data, rows, and the choices of the user. This module does not depend on `draw`.

pub(crate) mod aggregates;
pub(crate) mod app;
pub(crate) mod choices;
pub(crate) mod edit;
pub(crate) mod key;
pub(crate) mod message;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod view;
