// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the privacy mask hides addresses and names on the screen and in exports.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "screen/stage.rs"]
mod stage;

use mpwatch_tui::screen::Request;

use stage::{normal, open};

#[test]
fn the_mask_hides_addresses_names_and_hosts_in_every_view() {
    let mut stage = open(normal, 200, 60);
    stage.press("z");
    for keys in ["1", "2", "3", "4", "4 p", "4 p p", "5", "1 g enter"] {
        stage
            .press(keys)
            .lacks("10.0.")
            .lacks("fd00")
            .lacks("iperf3")
            .lacks("nginx")
            .lacks("db1")
            .lacks("1234");
    }
    stage.press("esc").has("host-1").press("z").has("10.0.1.2").has("iperf3");
}

#[test]
fn a_masked_export_hides_names_and_addresses() {
    let mut stage = open(normal, 120, 40);
    stage.press("z f").type_text("eth2").press("enter x enter");
    let Some(Request::Export(report, _)) = stage.asked.take() else { panic!("no export") };
    let shown = &report.connections[0];
    assert!(shown.remote.unwrap().to_string().starts_with("192.0.2.") && shown.subflows.len() > 1);
    assert_ne!(
        shown.subflows[0].remote.ip(),
        shown.subflows[1].remote.ip(),
        "addresses are still distinguishable"
    );
    let text = format!("{report:?}");
    for secret in ["10.0.", "iperf3", "db1", "1234,", "5201", "user.slice", "\"client\""] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[test]
fn the_mask_hides_the_filter_too() {
    let mut stage = open(normal, 120, 40);
    stage.press("/").type_text("proc:iperf3").press("enter").has("filter: proc:iperf3");
    stage.press("z").lacks("iperf3").has("filter: (masked)");
    stage.press("z / ctrl-u").type_text("proc:nobody").press("enter z").has("None of").lacks("nobody");
}
