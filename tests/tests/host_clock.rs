// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calendar times in a time namespace, whose boot clock is not the kernel's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::Command;

use jiff::Timestamp;
use mpwatch_tests::{OpenConnection, list, may_run_as_root, program, skip};
use serde_json::Value;

/// Offset of the boot clock in the time namespace, in seconds: ten days.
const OFFSET: &str = "864000";

#[test]
fn times_are_right_in_a_time_namespace() {
    if !may_run_as_root() {
        return;
    }
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork", "--boottime", OFFSET, program]);
        command
    };
    if !unshare("true").status().is_ok_and(|status| status.success()) {
        return skip("this test needs time namespaces (CONFIG_TIME_NS) and unshare(1) with --boottime");
    }
    let open = OpenConnection::after_upload(10_000);
    let observe = |mut command: Command| -> Value {
        let output = command.args(["ls", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let inside = observe(unshare(program().to_str().unwrap()));
    let outside = observe(Command::new(program()));
    let near = |time: &Value| {
        let time: Timestamp = time.as_str().unwrap().parse().unwrap();
        (Timestamp::now().as_second() - time.as_second()).abs() < 600
    };
    assert!(near(&inside["at"]), "{}", inside["at"]);
    // The ages of connections follow the kernel's clock as well.
    for snapshot in [&inside, &outside] {
        let age = list(snapshot, "connections")
            .iter()
            .find(|connection| connection["netns"] == open.client())
            .unwrap()["age_s"]
            .as_f64();
        assert!(age.is_some_and(|age| (0.0..600.0).contains(&age)), "{age:?}");
    }
}
