// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the whole program share: running `mpwatch` as a user does, and reading what it says.
//! Panics with a reason where a test cannot go on; nothing here waits without a deadline.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "test support")]

pub mod btf;
mod held;
pub mod kernel;
pub mod prometheus;
pub mod simulated;

pub use held::Held;
pub use mpwatch_bench::harness::{Observer, Outcome, Report, mpwatch, pace, program, tmux};

use serde_json::Value;

/// Whether a root test may run; says SKIP loudly if not, and fails where CI says that everything must run.
pub fn may_run_as_root() -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    skip("this test needs root");
    false
}

/// Says loudly that a test cannot be judged here, and fails where CI says that everything must be.
#[track_caller]
pub fn skip(why: &str) {
    assert!(std::env::var_os("MPWATCH_REQUIRE_ALL").is_none(), "MPWATCH_REQUIRE_ALL is set, but {why}");
    eprintln!("SKIP: {why}");
}

/// Fields of a zone that sum to its `zone_uj`.
pub const ZONE_PARTS: [&str; 8] =
    ["flows_uj", "app_uj", "other_uj", "net_shared_uj", "irq_uj", "self_uj", "unexplained_uj", "idle_uj"];

/// A number in a JSON object.
#[track_caller]
pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("`{field}` is no whole number in {value:#}"))
}

/// A string in a JSON object.
#[track_caller]
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("`{field}` is no string in {value:#}"))
}

/// An array in a JSON object.
#[track_caller]
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("`{field}` is no array in {value:#}"))
}
