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

/// The second CPU. It is online again at the end, also if a test fails.
struct SecondCpu;

impl SecondCpu {
    fn set(&self, online: &str) {
        fs::write(SWITCH, online).unwrap();
    }
}

impl Drop for SecondCpu {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, "1");
    }
}

#[test]
fn a_cpu_that_goes_offline_and_comes_back_costs_no_figure() {
    if !emulation::is_emulated() {
        eprintln!("SKIP: takes a CPU offline, so it runs in the guests of `./dev vm`");
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
    let cpu = SecondCpu;
    received(100_000);
    cpu.set("0");
    received(500_000);
    cpu.set("1");
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
