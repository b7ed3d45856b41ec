// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of events on the state. Uses the areas of the screen; returns requests for the caller.

mod act;
mod mouse;
mod popup;
mod select;
mod time;
mod update;
