// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the state of the screen on events, and returns requests to the caller. Mouse events are matched to the areas of the screen.

mod act;
mod mouse;
mod popup;
mod select;
mod time;
mod update;
