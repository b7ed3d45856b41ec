// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU goes offline and comes back while mpwatch traces. Runs in the guests only: another program may need the CPUs of a host.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, emulation, number};

const TIMEOUT: Duration = Duration::from_secs(10);
const SWITCH: &str = "/sys/devices/system/cpu/cpu1/online";

/// Keeps the second CPU offline until this value is dropped, also if the test fails.
struct Offline;

impl Offline {
    fn new() -> Self {
        fs::write(SWITCH, "0").unwrap();
        Self
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, "1");
    }
}

#[test]
fn a_cpu_that_goes_offline_and_comes_back_loses_no_figure() {
    if !emulation::is_emulated() {
        eprintln!("SKIP: this test takes a CPU offline, so it runs only in the guests of `./dev vm`");
        return;
    }
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let observer = Observer::start_complete(&["--ledger", "exact"]);
    let spec = lab.traffic(Workload::Paced { rate: 2_000_000, duration: Duration::from_secs(4) }).unwrap();
    let upload = Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default())).unwrap();
    let received = |bytes: u64| {
        let enough = || (upload.control().received() >= bytes).then_some(());
        poll_until("payload", emulation::timeout(TIMEOUT), enough).unwrap();
    };
    received(100_000);
    let offline = Offline::new();
    received(500_000);
    drop(offline);
    let sent = upload.join().unwrap().client.sent();
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    assert_eq!(number(connection, "bytes_sent"), sent, "{connection:#}");
    let losses = &report.json["losses"];
    for loss in ["ticks_failed", "decode_errors", "records_lost"] {
        assert_eq!(number(losses, loss), 0, "{losses}");
    }
    let cpu_time = connection["cpu_ns"].as_object().expect("the ledger runs").values();
    let cpu_time: u64 = cpu_time.filter_map(serde_json::Value::as_u64).sum();
    assert!(cpu_time > 0 && cpu_time < 60_000_000_000, "{connection:#}");
}
