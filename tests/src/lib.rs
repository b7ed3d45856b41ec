// SPDX-License-Identifier: MIT OR Apache-2.0
//! Support for the tests of the whole program: runs `mpwatch` as a user does and reads its output.
//! Panics with a reason if a test cannot continue. Every wait has a timeout.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "test support")]

pub mod btf;
pub mod clickhouse;
pub mod elimination;
pub mod failover;
pub mod kernel;
pub mod mptcpd;
mod open_connection;
pub mod otlp;
pub mod prometheus;
pub mod scripted_server;
pub mod traced_causes;

pub use mpwatch_bench::energy::simulated_counters;
pub use mpwatch_testkit::{
    CommandOutput, Observer, Report, emulation, established, finish, lines, list, may_run_as_root, mpwatch,
    number, output, program, skip, text, tmux, wait, wait_for_recorded_ends,
};
pub use open_connection::OpenConnection;

/// The fields of a zone that sum to its `zone_uj`.
pub const ZONE_PARTS: [&str; 8] =
    ["flows_uj", "app_uj", "other_uj", "net_shared_uj", "irq_uj", "self_uj", "unexplained_uj", "idle_uj"];
