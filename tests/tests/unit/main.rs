// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unprivileged tests that need only mpwatch and the packages of `./dev test`. Each file is a module of one program, because linking many
//! programs takes longer than running them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod architecture;
mod bottleneck_traces;
mod churn;
mod cli;
mod compare;
mod core_offline;
mod corpus;
mod dashboards;
mod docs_generated;
mod docs_schema;
mod export_otlp;
mod export_tls;
mod modules;
mod packaging;
mod progress;
mod prometheus;
mod replay;
mod replay_values;
mod store;
