// SPDX-License-Identifier: MIT OR Apache-2.0
//! Laminar endpoints (Linux 6.18): a client joins from them to the addresses that its server announces. Compares mpwatch's report with
//! `MPTCP_FULL_INFO` and the kernel's MIB counters.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use mpwatch_ebpf::netlink::{self, attribute};
use mpwatch_lab::link::IpNet;
use mpwatch_lab::topology::{JoinBy, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{self, Workload};
use mpwatch_lab::{Topology, link, mib};
use mpwatch_tests::{Observer, list, may_run_as_root, number, text};
use nix::libc::NLA_F_NESTED;
use serde_json::Value;

/// A second address of the second path's interface. Without the endpoint the kernel would select the first address.
const LAMINAR: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 77);
const LAMINAR_ID: u8 = 77;

/// Adds a laminar endpoint to the network namespace of the calling thread. `ip mptcp` of Debian 12 has no such flag.
fn add_laminar() -> std::io::Result<()> {
    // linux/mptcp_pm.h
    const CMD_ADD_ADDR: u8 = 1;
    const ATTR_ADDR: i32 = 1;
    const FAMILY: i32 = 1;
    const ID: i32 = 2;
    const ADDR4: i32 = 3;
    const FLAGS: i32 = 6;
    const FLAG_LAMINAR: u32 = 1 << 5;
    let endpoint = [
        attribute(FAMILY, &2_u16.to_ne_bytes()),
        attribute(ID, &[LAMINAR_ID]),
        attribute(ADDR4, &LAMINAR.octets()),
        attribute(FLAGS, &FLAG_LAMINAR.to_ne_bytes()),
    ];
    let endpoint = attribute(ATTR_ADDR | NLA_F_NESTED, &endpoint.concat());
    netlink::generic(netlink::generic_family("mptcp_pm")?, CMD_ADD_ADDR, &endpoint).map(drop)
}

/// Major and minor version of the running kernel.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Local and remote address of each subflow.
fn addresses(connection: &Value) -> BTreeSet<(String, String)> {
    let of = |subflow: &Value| (text(subflow, "local").to_owned(), text(subflow, "remote").to_owned());
    list(connection, "subflows").iter().map(of).collect()
}

#[test]
fn a_join_from_a_laminar_endpoint_has_its_address_and_id() {
    if !may_run_as_root() {
        return;
    }
    if kernel() < (6, 18) {
        return eprintln!("nothing to compare: laminar endpoints exist since Linux 6.18");
    }
    let path = || PathSpec {
        link: LinkSpec::rate(20.0, Duration::from_millis(50)).rtt(Duration::from_millis(5)),
        ..PathSpec::default()
    };
    let spec =
        TopologySpec { paths: vec![path(), path()], join: JoinBy::ServerSignal, ..TopologySpec::default() };
    let lab = Topology::build(&spec).unwrap();
    let second = IpNet { address: LAMINAR.into(), length: 24 };
    link::add_addresses(lab.client(), lab.path(1).unwrap().client_interface(), &[second]).unwrap();
    lab.client().enter(add_laminar).unwrap().unwrap();
    let observer = Observer::start(&[]);
    let outcome =
        traffic::run(lab.client(), lab.server(), &lab.traffic(Workload::upload(4_000_000)).unwrap()).unwrap();
    let report = observer.finish_after_close(&lab);

    let connection = report.only_connection_in(lab.client().name());
    let info = outcome.client.connections[0].socket_info.as_ref().unwrap();
    let of_kernel =
        info.subflows.iter().map(|subflow| (subflow.local.to_string(), subflow.remote.to_string()));
    assert_eq!(addresses(connection), of_kernel.collect(), "{connection:#}");
    assert_eq!(number(connection, "bytes_sent"), outcome.server.received());
    let joined: Vec<&Value> =
        list(connection, "subflows").iter().filter(|subflow| subflow["initial"] == false).collect();
    let counters = mib::read(lab.client()).unwrap();
    assert_eq!(joined.len() as u64, counters["MPTcpExtMPJoinSynAckRx"], "{connection:#}");
    let [joined] = joined[..] else { panic!("one address was announced: {connection:#}") };
    assert!(text(joined, "local").starts_with(&format!("{LAMINAR}:")), "{connection:#}");
    assert_eq!(number(joined, "local_id"), u64::from(LAMINAR_ID), "{connection:#}");

    let server = report.only_connection_in(lab.server().name());
    let swapped = addresses(server).into_iter().map(|(local, remote)| (remote, local)).collect();
    assert_eq!(addresses(connection), swapped, "both ends report the same addresses");
    let at_server = list(server, "subflows").iter().find(|subflow| subflow["initial"] == false).unwrap();
    assert_eq!(number(at_server, "remote_id"), u64::from(LAMINAR_ID), "{server:#}");
}
