// SPDX-License-Identifier: MIT OR Apache-2.0
//! Skips tests that cannot run on this machine. `MPWATCH_REQUIRE_ALL=1`, as in CI and in the guests, makes every skip a failure.

use std::io::Write as _;
use std::panic::Location;

const REQUIRE_ALL: &str = "MPWATCH_REQUIRE_ALL";

/// Whether a test that needs root can run. Otherwise the test is skipped, see [`skip`].
#[track_caller]
pub fn may_run_as_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip("this test needs root");
    }
    is_root
}

/// Prints SKIP, the place of the test and the reason. Panics if all tests are required.
#[track_caller]
pub fn skip(why: &str) {
    assert!(
        !all_required(std::env::var(REQUIRE_ALL).ok().as_deref()),
        "{REQUIRE_ALL}=1 forbids skipping: {why}"
    );
    // Not `eprintln!`: the test harness would capture it. A closed standard error must not fail the test.
    let _ = writeln!(std::io::stderr(), "SKIP {}: {why}", Location::caller());
}

/// The meaning of a value of `MPWATCH_REQUIRE_ALL`.
fn all_required(value: Option<&str>) -> bool {
    match value {
        None | Some("" | "0") => false,
        Some("1") => true,
        Some(other) => panic!("{REQUIRE_ALL} is 0 or 1, not {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::all_required;

    #[test]
    fn only_1_forbids_skipping() {
        assert_eq!([None, Some(""), Some("0"), Some("1")].map(all_required), [false, false, false, true]);
    }

    #[test]
    #[should_panic(expected = "MPWATCH_REQUIRE_ALL is 0 or 1, not yes")]
    fn another_value_is_an_error() {
        all_required(Some("yes"));
    }
}
