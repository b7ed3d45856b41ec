// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes by an administrator while mpwatch traces: MPTCP is disabled, an interface gets another name, sockets get no memory for options.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, Control, Transfer, Workload};
use mpwatch_lab::{Topology, link, poll_until};
use mpwatch_tests::{Observer, emulation, list, may_run_as_root, number, text};
use socket2::{Domain, Protocol, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(10);
const BYTES: u64 = 300_000;

fn lab() -> Topology {
    let link = || LinkSpec::rate(20.0, Duration::from_millis(50)).rtt(Duration::from_millis(5));
    Topology::two_paths(link(), link()).unwrap()
}

/// Starts a paced upload that lasts about two seconds, and waits for its first payload.
fn start_upload(lab: &Topology) -> Transfer {
    let spec = lab.traffic(Workload::Paced { rate: 2_000_000, duration: Duration::from_secs(2) }).unwrap();
    let upload = Transfer::start(lab.client(), lab.server(), &spec, &Arc::new(Control::default())).unwrap();
    let has_begun = || (upload.control().received() > 0).then_some(());
    poll_until("the first payload", emulation::timeout(TIMEOUT), has_begun).unwrap();
    upload
}

#[test]
fn connections_opened_before_and_after_mptcp_is_disabled_are_whole() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab();
    let observer = Observer::start(&[]);
    let upload = start_upload(&lab);
    for namespace in [lab.client(), lab.server()] {
        namespace.sysctl("net.mptcp.enabled", "0").unwrap();
    }
    let refused =
        lab.client().enter(|| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))).unwrap();
    assert!(refused.is_err(), "the namespace has no MPTCP");
    let first = upload.join().unwrap().client.sent();
    for namespace in [lab.client(), lab.server()] {
        namespace.sysctl("net.mptcp.enabled", "1").unwrap();
    }
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    traffic::run(lab.client(), lab.server(), &spec).unwrap();
    let report = observer.finish_after_close(&lab);
    let mut sent: Vec<_> =
        report.connections_in(lab.client().name()).iter().map(|c| number(c, "bytes_sent")).collect();
    sent.sort_unstable();
    let mut expected = [first, BYTES];
    expected.sort_unstable();
    assert_eq!(sent, expected);
}

#[test]
fn a_subflow_has_the_name_that_its_interface_got_last() {
    const NAME: &str = "renamed0";
    if !may_run_as_root() {
        return;
    }
    let lab = lab();
    let observer = Observer::start(&[]);
    let upload = start_upload(&lab);
    let path = lab.path(0).unwrap();
    link::rename(lab.client(), path.client_interface(), NAME).unwrap();
    let sent = upload.join().unwrap().client.sent();
    let report = observer.finish_after_close(&lab);
    let connection = report.only_connection_in(lab.client().name());
    assert_eq!(number(connection, "bytes_sent"), sent, "{connection:#}");
    let names: Vec<_> = list(connection, "subflows").iter().map(|s| text(s, "interface")).collect();
    assert!(names.contains(&NAME), "{names:?}");
}

/// Socket-local storage is part of a socket's memory for options.
#[test]
fn payload_of_sockets_without_memory_for_storage_is_counted_as_lost() {
    if !may_run_as_root() {
        return;
    }
    let lab = lab();
    lab.client().sysctl("net.core.optmem_max", "64").unwrap();
    let observer = Observer::start(&[]);
    let spec = lab.traffic(Workload::upload(BYTES)).unwrap();
    let outcome = traffic::run(lab.client(), lab.server(), &spec).unwrap();
    let report = observer.finish_after_close(&lab);
    let losses = &report.json["losses"];
    assert!(number(losses, "storage_failed") > 0, "{losses}");
    assert!(report.connections_in(lab.client().name()).is_empty(), "{:#}", report.json);
    let server = report.only_connection_in(lab.server().name());
    assert_eq!(number(server, "bytes_received"), BYTES, "{server:#}");
    // Kernels before 6.5 do not count payload per connection. The payload of subflows includes reinjections and the DATA_FIN.
    let lost = number(losses, "lost_bytes_sent");
    let info = outcome.client.connections[0].socket_info.as_ref().unwrap();
    let of_subflows = info.mptcp.as_ref().is_none_or(|mptcp| mptcp.bytes_sent.is_none());
    assert!(lost == BYTES || of_subflows && (BYTES..BYTES + BYTES / 10).contains(&lost), "{losses}");
}
