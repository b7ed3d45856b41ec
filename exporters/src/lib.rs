// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes what mpwatch observed: as text for people ([`text`], [`markdown`], [`html`]), as CSV ([`csv`], [`links`]), JSON ([`json`]) and series
//! ([`prometheus`]) for programs, and the description of those formats ([`schema`]): pure functions, no clock, no file, no
//! environment. And serves it ([`http`]).

pub mod csv;
pub mod html;
pub mod http;
pub mod json;
pub mod links;
pub mod markdown;
pub mod prometheus;
pub mod schema;
pub mod text;
