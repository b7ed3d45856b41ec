// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two ends of a connection are one flow.
#![allow(clippy::unwrap_used, reason = "a test")]

use jiff::SignedDuration;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::flows;
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::id::SocketCookie;
use mpwatch_model::kernel::lifecycle::{Protocol, Role};
use mpwatch_model::unit::Bytes;

/// The other end of a connection, in the same report.
fn other_end(own: &Connection) -> Connection {
    let mut other = own.clone();
    other.id.birth = SocketCookie(own.id.birth.0 + 1_000_000);
    (other.token, other.remote_token) = (own.remote_token, own.token);
    (other.local, other.remote) = (own.remote, own.local);
    (other.bytes_sent, other.bytes_received) = (own.bytes_received, own.bytes_sent);
    other.role = Some(Role::Server);
    other
}

#[test]
fn swapped_tokens_are_two_ends_whatever_their_order() {
    let clients: Vec<Connection> = (1..=3).map(|token| fixture::connection(token, 2)).collect();
    let servers: Vec<Connection> = clients.iter().rev().map(other_end).collect();
    for connections in [[&clients[..], &servers].concat(), [&servers[..], &clients].concat()] {
        let flows = flows(&connections);
        assert_eq!(flows.len(), 3);
        for flow in flows {
            assert_eq!(flow.end.role, Some(Role::Client));
            assert_eq!(flow.other.unwrap().token, flow.end.remote_token);
            assert_eq!(flow.sender().role, Some(Role::Client), "the fixture's client sends");
        }
    }
}

#[test]
fn a_flow_has_its_payload_once_and_the_cost_of_both_ends() {
    let client = fixture::connection(1, 2);
    let connections = [client.clone(), other_end(&client)];
    let flow = flows(&connections)[0];
    assert_eq!(flow.observed_payload(), client.observed_payload());
    assert_eq!(flow.cpu().unwrap().total().0, 2 * client.cpu.unwrap().total().0);
    let (single, both) = (client.energy.unwrap(), flow.energy().unwrap());
    assert_eq!(both.active.unwrap().0, 2 * single.active.unwrap().0);
    assert!((both.j_per_gb.unwrap() - 2.0 * single.j_per_gb.unwrap()).abs() < 1e-9);
}

#[test]
fn a_cost_that_is_unknown_at_one_end_is_unknown_for_the_flow() {
    let client = fixture::connection(1, 2);
    let mut server = other_end(&client);
    (server.cpu, server.energy) = (None, Some(FlowEnergy::default()));
    let connections = [client, server];
    let flow = flows(&connections)[0];
    assert_eq!((flow.cpu(), flow.energy().unwrap().active), (None, None));
}

#[test]
fn equal_tokens_that_are_not_swapped_are_two_connections() {
    let connection = fixture::connection(1, 2);
    let mut same = connection.clone();
    same.id.birth = SocketCookie(99);
    let without_peer = Connection { remote_token: None, remote: None, ..connection.clone() };
    let connections = [connection, same, without_peer];
    assert!(flows(&connections).iter().all(|flow| flow.other.is_none()));
    assert_eq!(flows(&connections).len(), 3);
}

fn plain_tcp() -> [Connection; 2] {
    let mut client = fixture::connection(1, 1);
    (client.token, client.remote_token, client.protocol) = (None, None, Protocol::Tcp);
    [client.clone(), other_end(&client)]
}

#[test]
fn ends_of_plain_tcp_have_their_addresses_swapped_and_begin_together() {
    let mut ends = plain_tcp();
    assert_eq!(flows(&ends).len(), 1);
    ends[1].opened_at = ends[1].opened_at.map(|at| at + SignedDuration::from_secs(60));
    assert_eq!(flows(&ends).len(), 2, "the port was reused");
    ends[1].opened_at = None;
    assert_eq!(flows(&ends).len(), 2);
    ends[0].opened_at = None;
    assert_eq!(flows(&ends).len(), 1, "both are older than mpwatch");
}

#[test]
fn a_fallback_and_the_servers_plain_tcp_are_one_connection() {
    let [mut client, server] = plain_tcp();
    client.protocol = Protocol::Mptcp;
    client.token = fixture::connection(1, 1).token;
    assert_eq!(flows(&[client.clone(), server.clone()]).len(), 2, "MPTCP and TCP");
    client.fallback = fixture::fallen_back(1).fallback;
    let ends = [server, client];
    let flows = flows(&ends);
    assert_eq!((flows.len(), flows[0].end.role), (1, Some(Role::Client)));
}

#[test]
fn loopback_addresses_of_two_namespaces_are_two_connections() {
    let mut ends = plain_tcp();
    let (a, b) = ("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:80".parse().unwrap());
    (ends[0].local, ends[0].remote) = (Some(a), Some(b));
    (ends[1].local, ends[1].remote) = (Some(b), Some(a));
    assert_eq!(flows(&ends).len(), 1);
    ends[1].netns_inode += 1;
    assert_eq!(flows(&ends).len(), 2);
}

#[test]
fn the_end_that_sends_more_is_the_sender() {
    let mut client = fixture::connection(1, 1);
    (client.bytes_sent, client.bytes_received) = (Some(Bytes(100)), Some(Bytes(5_000_000)));
    let connections = [other_end(&client), client];
    assert_eq!(flows(&connections)[0].sender().role, Some(Role::Server));
}
