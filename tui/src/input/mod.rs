// SPDX-License-Identifier: MIT OR Apache-2.0
//! What events do to the state. Knows where things are drawn; what has to be done outside is returned as a request.

mod act;
mod mouse;
mod popup;
mod select;
mod time;
mod update;
