// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev bench bottleneck`: measures the accuracy of bottleneck detection. Records labelled scenarios in the lab (`live.rs`, which needs
//! root), runs every method on the sender's samples (`replay.rs`), and compares the verdicts with the truth (`score.rs`).

pub mod live;
pub mod replay;
pub mod score;
pub mod tables;
pub mod trace;
pub mod truth;
pub mod verdict;

mod command;
mod fit;
pub(crate) mod queue_reader;
pub(crate) mod queues;
mod table3;

pub(crate) use command::run;
