// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine is suspended to memory while mpwatch traces, and woken by its real-time clock. Runs in the guests only.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::{Observer, emulation, list, number, text};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
const ASLEEP: Duration = Duration::from_secs(20);
/// A transfer on an emulated machine has short stalls.
const LONGEST_STALL_US: u64 = 5_000_000;
const STATE: &str = "/sys/power/state";
const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";

/// Suspends the machine and returns after the alarm. The duration varies by some seconds, because an alarm has a resolution of seconds and
/// devices need time.
fn suspend() {
    fs::write(ALARM, "0").unwrap();
    fs::write(ALARM, format!("+{}", ASLEEP.as_secs())).unwrap();
    fs::write(STATE, "mem").unwrap();
}

/// Whether the kernel resumes. The virtual machine ends when Linux 6.1 is suspended.
fn comes_back() -> bool {
    !fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().starts_with("6.1.")
}

fn can_suspend() -> bool {
    comes_back()
        && fs::read_to_string(STATE).is_ok_and(|states| states.contains("mem"))
        && fs::exists(ALARM).unwrap()
}

#[test]
fn a_suspension_is_not_a_stall_and_loses_no_figure() {
    if !emulation::is_emulated() {
        eprintln!("SKIP: this test suspends the machine, so it runs only in the guests of `./dev vm`");
        return;
    }
    if !can_suspend() {
        eprintln!("SKIP: this kernel cannot suspend the virtual machine and wake it again; 6.12 and 7.2 can");
        return;
    }
    let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let observer = Observer::start_complete(&[]);
    let spec = lab.traffic(Workload::Paced { rate: 2_000_000, duration: Duration::from_secs(4) }).unwrap();
    let upload = Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default())).unwrap();
    let enough = || (upload.control().received() >= 300_000).then_some(());
    poll_until("payload", emulation::timeout(TIMEOUT), enough).unwrap();
    suspend();
    let sent = upload.join().unwrap().client.sent();
    let report = observer.finish_after_close(&lab);

    let connection = report.only_connection_in(lab.client().name());
    assert_eq!(number(connection, "bytes_sent"), sent, "{connection:#}");
    assert!(connection["age_s"].as_f64().unwrap() > ASLEEP.as_secs_f64() / 2.0, "with sleep: {connection:#}");
    let is_stall = |entry: &&Value| entry["event"] == "stalled";
    for stall in list(connection, "timeline").iter().filter(is_stall) {
        assert!(number(stall, "gap_us") < LONGEST_STALL_US, "{stall}");
    }
    let lost = list(&report.json["energy"], "lost");
    assert!(lost.iter().all(|lost| text(lost, "reason") == "suspended"), "{lost:?}");
    let losses = &report.json["losses"];
    for loss in ["ticks_failed", "decode_errors", "records_lost"] {
        assert_eq!(number(losses, loss), 0, "{losses}");
    }
}
