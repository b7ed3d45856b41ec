// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers to facts that are hard to create on a machine, and properties of the table. `tests/tests/root_why.rs` creates the other causes.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use mpwatch_fixtures as fixture;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::lifecycle::{CarriedBy, CloseReason, Role, TcpState};
use mpwatch_model::why::answer::{Answer, Cause};
use mpwatch_model::why::facts::{
    Connection, Endpoint, Interface, Limits, Listener, Namespace, NextHop, Route, Subflow,
};

use super::table::{CAUSES, Group};
use super::{Case, NEED_JOIN, Question, cause_of, check, explain};

const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SECOND: [u8; 4] = [10, 2, 0, 1];
const SERVER: [u8; 4] = [10, 1, 0, 2];

fn interface(name: &str, address: [u8; 4]) -> Interface {
    let addresses = vec![IpAddr::from(address)];
    Interface { name: name.to_owned(), up: true, running: true, addresses, ..Interface::default() }
}

/// A host with MPTCP and two interfaces, of which the second has an endpoint.
fn host() -> Namespace {
    let endpoint =
        Endpoint { id: 2, address: SECOND.into(), device: None, flags: Endpoint::SUBFLOW, port: None };
    Namespace {
        name: "host".to_owned(),
        sysctls: [("enabled".to_owned(), "1".to_owned())].into(),
        limits: Some(Limits { subflows: 2, add_addr_accepted: 0 }),
        endpoints: vec![endpoint],
        interfaces: vec![interface("eth0", CLIENT), interface("eth1", SECOND)],
        ..Namespace::default()
    }
}

fn counting(mut here: Namespace, counters: &[(&str, u64)]) -> Namespace {
    here.counters.extend(counters.iter().map(|(name, value)| (format!("MPTcpExt{name}"), *value)));
    here
}

/// An MPTCP connection with one subflow.
fn connection(role: Role) -> Connection {
    let (local, remote) = (SocketAddr::from((CLIENT, 5000)), SocketAddr::from((SERVER, 443)));
    let subflow = Subflow {
        local,
        remote,
        state: TcpState::Established,
        local_id: 0,
        retransmits: 0,
        backup_here: false,
        backup_there: false,
    };
    Connection {
        token: Some(Token(1)),
        local,
        remote,
        carried_by: CarriedBy::Mptcp,
        role,
        asked: true,
        peer_has_mptcp: true,
        retransmissions: 0,
        subflows: vec![subflow],
        program: None,
        failed_join: None,
    }
}

fn ids(here: &Namespace, connection: Option<&Connection>) -> Vec<String> {
    names(&explain(&[Case { connection, ..Case::new(here, Some(SERVER.into())) }])[0].causes)
}

fn names(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|cause| cause.id.to_string()).collect()
}

#[test]
fn causes_have_distinct_names_and_are_sorted_by_group() {
    let names: BTreeSet<&str> = CAUSES.iter().map(|row| row.id).collect();
    assert_eq!(names.len(), CAUSES.len());
    assert!(CAUSES.is_sorted_by_key(|row| row.group));
    assert!(CAUSES.iter().all(|row| row.advice.is_some() || !row.fix.is_empty()), "each cause has a remedy");
    assert!(Group::ALL.iter().all(|group| CAUSES.iter().any(|row| row.group == *group)));
}

#[test]
fn a_kernel_without_mptcp_is_the_only_cause() {
    let here = Namespace { name: "host".to_owned(), ..Namespace::default() };
    assert_eq!(ids(&here, None), ["no-mptcp-in-kernel"]);
}

#[test]
fn failed_joins_are_explained_by_counters() {
    let client = connection(Role::Client);
    let after = |counters: &[(&str, u64)]| ids(&counting(host(), counters), Some(&client));
    let hmac = [("MPJoinSynTx", 1), ("MPJoinSynAckRx", 1), ("MPJoinSynAckHMacFailure", 1), ("MPRstTx", 1)];
    assert_eq!(after(&hmac), ["join-hmac"]);
    assert_eq!(after(&[("MPJoinSynTx", 1), ("MPJoinSynTxBindErr", 1)]), ["join-not-sent"]);
    let mut unreachable = counting(host(), &[("MPJoinSynTx", 1)]);
    for name in ["TcpAttemptFails", "Icmp6InDestUnreachs"] {
        unreachable.counters.insert(name.to_owned(), 1);
    }
    assert_eq!(ids(&unreachable, Some(&client)), ["join-reset"], "another host answered");
    unreachable.counters.insert("Icmp6OutDestUnreachs".to_owned(), 1);
    assert_eq!(ids(&unreachable, Some(&client)), ["join-unreachable", "join-reset"]);
    let lost = [("MPJoinSynTx", 1), ("MPJoinSynAckRx", 1), ("MPRstRx", 1)];
    assert_eq!(after(&lost), Vec::<String>::new(), "the peer reset a subflow that had joined");
    assert_eq!(after(&[("MPJoinSynTx", 1)]), Vec::<String>::new(), "the counters do not show the cause");
    let server = connection(Role::Server);
    let mut here = host();
    here.endpoints[0].flags = Endpoint::SIGNAL;
    let after = |counters: &[(&str, u64)]| ids(&counting(here.clone(), counters), Some(&server));
    assert_eq!(after(&[("MPJoinNoTokenFound", 3)]), ["join-without-connection"]);
    assert_eq!(after(&[("AddAddrTx", 1)]), ["announcement-not-echoed"]);
}

#[test]
fn a_join_in_progress_is_not_a_failure() {
    let mut client = connection(Role::Client);
    client.subflows.push(Subflow { state: TcpState::SynSent, ..client.subflows[0] });
    let mut here = counting(host(), &[("MPJoinSynTx", 1)]);
    here.counters.insert("TcpExtTCPSynRetrans".to_owned(), 9);
    let answers = explain(&[Case::with_connection(&here, &client)]);
    assert_eq!(answers[0].state, "one subflow, a second is joining");
    assert!(answers[0].causes.is_empty(), "{answers:?}");
    client.subflows[1].retransmits = 1;
    assert_eq!(ids(&here, Some(&client)), ["join-unanswered"]);
}

#[test]
fn connections_with_the_same_answer_are_counted_once() {
    let mut here = host();
    here.limits = Some(Limits::default());
    let client = connection(Role::Client);
    let two_paths = Connection { subflows: vec![client.subflows[0]; 2], ..client.clone() };
    let mut cases = vec![Case::with_connection(&here, &two_paths)];
    cases.resize(2 * Answer::MAX_LISTED, Case::with_connection(&here, &client));
    let answers = explain(&cases);
    let shown = |answer: &Answer| (answer.count, answer.connections.len(), answer.causes.len());
    assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), [(19, Answer::MAX_LISTED, 1), (1, 1, 0)]);
}

#[test]
fn commands_name_the_namespace() {
    let fix = |enter: &str, here: Namespace| {
        let here = Namespace { enter: enter.to_owned(), ..here };
        let answers = explain(&[Case::new(&here, None)]);
        answers[0].causes[0].fix[0].command.clone()
    };
    let limited = Namespace { limits: Some(Limits::default()), ..host() };
    assert_eq!(fix("", limited.clone()), "ip mptcp limits set subflows 2");
    assert_eq!(fix("ip netns exec a ", limited.clone()), "ip -n a mptcp limits set subflows 2");
    assert_eq!(fix("nsenter --net=f ", limited), "nsenter --net=f ip mptcp limits set subflows 2");
    let disabled = Namespace { sysctls: [("enabled".to_owned(), "0".to_owned())].into(), ..host() };
    assert_eq!(fix("ip netns exec a ", disabled), "ip netns exec a sysctl -w net.mptcp.enabled=1");
}

#[test]
fn an_older_kernel_has_only_the_number_of_the_path_manager() {
    let mut here = host();
    here.sysctls.insert("pm_type".to_owned(), "1".to_owned());
    let answers = explain(&[Case::new(&here, None)]);
    assert_eq!(answers[0].causes[0].fix[0].command, "sysctl -w net.mptcp.pm_type=0");
}

#[test]
fn two_addresses_of_an_interface_are_one_path() {
    let mut here = Namespace { endpoints: Vec::new(), ..host() };
    let any = |here: &Namespace| names(&explain(&[Case::new(here, None)])[0].causes);
    assert_eq!(any(&here), ["no-endpoint"]);
    here.interfaces.pop();
    here.interfaces[0].addresses.push("fd00::2".parse().unwrap());
    assert_eq!(any(&here), ["single-address"]);
}

#[test]
fn a_connection_within_the_host_needs_no_second_path() {
    let here = Namespace { endpoints: Vec::new(), ..host() };
    let local = Case::new(&here, Some(SECOND.into()));
    assert!(explain(&[local])[0].causes.is_empty());
}

/// Two names must not complete each other: a value is not searched for values.
#[test]
fn a_name_in_braces_is_only_a_name() {
    let mut here = host();
    here.interfaces[1].name = "{other}".to_owned();
    let next_hop =
        |interface: &str| Ok(NextHop { interface: interface.to_owned(), source: None, assumed: false });
    let from = |from: Option<[u8; 4]>, interface: &str| Route {
        from: from.map(IpAddr::from),
        to: SERVER.into(),
        next_hop: next_hop(interface),
    };
    here.routes = vec![from(None, "eth0"), from(Some(SECOND), ";reboot;")];
    let answers = explain(&[Case::new(&here, Some(SERVER.into()))]);
    let cause = &answers[0].causes[0];
    assert_eq!(cause.id, "route-over-other-interface");
    assert_eq!(cause.fix[1].command, "ip mptcp endpoint add 10.2.0.1 dev '{other}' id 2 subflow");
}

/// A server announces its endpoints: the flag `signal` is not a problem. A usable endpoint does not hide the problem of another one.
#[test]
fn each_endpoint_is_checked_by_itself() {
    let mut here = host();
    let endpoint = |id: u8, address: [u8; 4], flags: u32| Endpoint {
        id,
        address: address.into(),
        flags,
        device: None,
        port: None,
    };
    here.endpoints.push(endpoint(3, [10, 9, 0, 1], Endpoint::SIGNAL));
    here.endpoints.push(endpoint(4, SECOND, Endpoint::SIGNAL));
    let found = check(&here, None);
    assert_eq!(found.general, []);
    let ids = |found: &super::Configuration| -> Vec<Vec<String>> {
        found.endpoints.iter().map(|(_, causes)| names(causes)).collect()
    };
    assert_eq!(ids(&found), [vec![], vec!["address-missing".to_owned()], vec![]]);
    here.endpoints.push(endpoint(5, SECOND, 0));
    here.endpoints.remove(0);
    assert_eq!(ids(&check(&here, None))[2], ["endpoint-without-subflow"]);
    here.endpoints = host().endpoints;
    here.endpoints
        .extend([endpoint(3, [10, 9, 0, 1], Endpoint::SIGNAL), endpoint(4, SECOND, Endpoint::SIGNAL)]);
    here.interfaces[1].rp_filter = 1;
    here.routes = vec![Route {
        from: None,
        to: SERVER.into(),
        next_hop: Ok(NextHop { interface: "eth0".to_owned(), source: Some(CLIENT.into()), assumed: false }),
    }];
    let found = check(&here, Some(SERVER.into()));
    assert_eq!(
        ids(&found),
        [vec!["reverse-path-filter"], vec!["address-missing"], vec!["reverse-path-filter"]]
    );
}

#[test]
fn a_server_is_not_asked_to_open_subflows() {
    let mut here = host();
    here.endpoints.clear();
    let general = |here: &Namespace, peer: Option<[u8; 4]>| -> Vec<String> {
        names(&check(here, peer.map(IpAddr::from)).general)
    };
    assert_eq!(general(&here, None), ["no-endpoint"]);
    here.listeners = vec![Listener { address: ([0; 4], 443).into(), mptcp: true, program: None }];
    assert_eq!(general(&here, None), Vec::<String>::new());
    here.routes = vec![Route {
        from: None,
        to: SERVER.into(),
        next_hop: Ok(NextHop { interface: "eth0".to_owned(), source: Some(CLIENT.into()), assumed: false }),
    }];
    assert_eq!(general(&here, Some(SERVER)), ["no-endpoint"], "with a peer it is asked as a client");
}

#[test]
fn a_counter_that_the_kernel_lacks_is_no_evidence() {
    let mut client = connection(Role::Client);
    let silent = counting(host(), &[("MPJoinSynTx", 0)]);
    assert_eq!(ids(&silent, Some(&client)), ["no-join-attempted"]);
    assert_eq!(ids(&host(), Some(&client)), Vec::<String>::new());
    client.subflows.push(Subflow { state: TcpState::SynSent, retransmits: 2, ..client.subflows[0] });
    assert_eq!(ids(&host(), Some(&client)), ["join-unanswered"]);
}

#[test]
fn an_endpoint_that_is_added_again_keeps_its_flags() {
    let mut here = host();
    here.endpoints[0] = Endpoint {
        address: [10, 2, 0, 9].into(),
        device: Some("eth1".to_owned()),
        flags: Endpoint::SUBFLOW | Endpoint::BACKUP,
        port: Some(8080),
        ..here.endpoints[0].clone()
    };
    // A bridge of containers is not where the address went.
    here.interfaces.push(interface("zz-bridge", [172, 17, 0, 1]));
    let answers = explain(&[Case::new(&here, Some(SERVER.into()))]);
    let cause = &answers[0].causes[0];
    assert_eq!(
        (&*cause.id, cause.fix[1].command.as_str()),
        ("address-changed", "ip mptcp endpoint add 10.2.0.1 dev eth1 id 2 port 8080 subflow backup")
    );
}

#[test]
fn a_name_in_a_command_cannot_run_another_command() {
    let mut here = host();
    (here.interfaces[1].name, here.interfaces[1].up) = ("a;reboot'".to_owned(), false);
    let answers = explain(&[Case::new(&here, Some(SERVER.into()))]);
    let cause = &answers[0].causes[0];
    assert_eq!(
        (&*cause.id, cause.fix[0].command.as_str()),
        ("interface-down", r"ip link set dev 'a;reboot'\''' up")
    );
}

#[test]
fn a_loopback_peer_and_a_bridge_of_containers_give_no_path() {
    let mut here = Namespace { endpoints: Vec::new(), ..host() };
    let local = |address: [u8; 4]| names(&explain(&[Case::new(&here, Some(address.into()))])[0].causes);
    assert_eq!(local([127, 0, 0, 2]), Vec::<String>::new());
    here.interfaces[1].internal = true;
    assert_eq!(ids(&here, Some(&connection(Role::Server))), Vec::<String>::new());
    here.interfaces[1].internal = false;
    assert_eq!(ids(&here, Some(&connection(Role::Server))), ["not-announced"]);
}

#[test]
fn failed_joins_of_other_connections_are_no_cause_of_a_traced_connection() {
    let mut traced = fixture::connection(1, 1);
    (traced.role, traced.local) = (Some(Role::Server), Some((CLIENT, 443).into()));
    let mut here = counting(host(), &[("MPJoinSynRx", 1), ("MPJoinNoTokenFound", 1)]);
    here.endpoints.clear();
    assert!(NEED_JOIN.iter().all(|id| CAUSES.iter().any(|row| row.id == *id)), "an unknown cause");
    let question = Question::new(&traced).unwrap();
    assert_eq!(cause_of(&here, &question), None);
    let cause = cause_of(&here, &Question { has_join: true, ..question }).unwrap();
    assert_eq!(cause.id, "join-without-connection");
}

/// The counters of the namespace suggest another cause, because other connections raised them.
#[test]
fn the_end_of_a_traced_join_decides_on_its_cause() {
    let counted = [("MPJoinSynTx", 9), ("MPRstTx", 1)];
    let mut here = counting(host(), &counted);
    for name in ["TcpAttemptFails", "TcpExtTCPSynRetrans", "IcmpInDestUnreachs", "IcmpOutDestUnreachs"] {
        here.counters.insert(name.to_owned(), 3);
    }
    for (end, id) in [
        (CloseReason::HostUnreachable, "join-unreachable"),
        (CloseReason::Unanswered, "join-unanswered"),
        (CloseReason::Refused, "join-reset"),
        (CloseReason::OptionRemoved, "join-option-removed"),
        (CloseReason::NotSent, "join-not-sent"),
    ] {
        let client = Connection { failed_join: Some(end), ..connection(Role::Client) };
        assert_eq!(ids(&here, Some(&client)), [id], "{end:?}");
    }
}
