// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output for people and their scripts: text ([`text`], [`markdown`], [`html`]), CSV ([`csv`], [`links`]), JSON ([`json`]) and its schema
//! ([`schema`]), and the comparison of two sets ([`comparison`]). Pure functions: no clock, files or environment.

pub mod comparison;
pub mod csv;
pub mod html;
pub mod json;
pub mod links;
pub mod markdown;
pub mod schema;
pub mod text;
