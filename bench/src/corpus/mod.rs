// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev corpus`: records runs of the corpus of bottlenecks with the truth about their queues (`record.rs`, needs root), and scores methods
//! on it (`command.rs`). docs/corpus.md describes the format.

pub mod closing;
pub mod judge;
pub mod methods;
pub mod record;
pub mod recording;
pub mod score;

mod command;
mod program;
mod tables;
mod tracked;

pub use command::read_runs;
pub(crate) use command::run;
