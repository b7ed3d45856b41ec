// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code of `./dev bench` and `./dev pictures`, and the generators of dashboards and reference documents. If a measurement cannot
//! continue, this code panics with a reason, because it is not part of the shipped program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a bench panics if it cannot measure"
)]

pub mod bottleneck;
pub mod clickhouse;
pub mod command;
pub mod corpus;
pub mod dashboards;
pub mod documents;
pub mod energy;
pub mod pictures;
pub mod schema;
pub mod why;

mod effort;
mod elimination;
mod fleet;
mod machine;
mod process;
mod soak;
mod statistics;
mod store;
mod subjects;
mod table;

pub use subjects::peer_tools;
