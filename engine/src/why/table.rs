// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of causes, in order of importance. Names in braces are replaced by values of the condition.

use mpwatch_model::why::answer::Place::{self, Here, Peer};

use super::case::{Case, Found};
use super::{client, network, protocol, server};

mpwatch_model::words! {
    /// Groups of causes, in the order of the table.
    #[derive(PartialOrd, Ord)]
    pub enum Group {
        /// The connection never used MPTCP.
        NeverMptcp = "The connection does not use MPTCP",
        /// The connection asked for MPTCP and continues as plain TCP.
        FellBack = "The connection fell back to plain TCP",
        /// The client opens no second subflow.
        Client = "No second path: the client",
        /// Joins fail.
        Network = "No second path: the network",
        /// The server prevents a second path.
        Server = "No second path: the server",
        /// A second path exists.
        Unused = "The second path is not used",
    }
}

/// A cause.
pub struct Row {
    /// Stable name.
    pub id: &'static str,
    /// The group.
    pub group: Group,
    /// What prevents a second path.
    pub sentence: &'static str,
    /// What to do, if no command does it.
    pub advice: Option<&'static str>,
    /// Commands that remove the cause, and where to run them.
    pub fix: &'static [(Place, &'static str)],
    pub(super) find: fn(&Case<'_>) -> Option<Found>,
}

/// Declares rows: id, group, condition, sentence, then advice after `=>`, then commands.
macro_rules! rows {
    ($($id:literal, $group:ident, $find:path, $sentence:literal $(=> $advice:literal)? $(, $place:ident $command:literal)*;)+) => {
        &[$(Row {
            id: $id,
            group: Group::$group,
            sentence: $sentence,
            advice: rows!(@ $($advice)?),
            fix: &[$(($place, $command)),*],
            find: $find,
        }),+]
    };
    (@) => { None };
    (@ $advice:literal) => { Some($advice) };
}

/// All causes, most important first.
pub static CAUSES: &[Row] = rows! {
    "no-mptcp-in-kernel", NeverMptcp, protocol::no_mptcp_in_kernel,
        "this kernel was built without MPTCP, so all connections are plain TCP"
        => "boot a kernel with CONFIG_MPTCP=y";
    "mptcp-disabled", NeverMptcp, protocol::disabled,
        "MPTCP is disabled in this network namespace, so all connections are plain TCP",
        Here "sysctl -w net.mptcp.enabled=1";
    "tcp-program", NeverMptcp, protocol::tcp_program,
        "{program} opened a TCP socket instead of an MPTCP socket"
        => "start the program with `mptcpize run COMMAND` (package mptcpize); a Go program with GODEBUG=multipathtcp=1; in your own program use socket(..., IPPROTO_MPTCP)";
    "tcp-listener", NeverMptcp, protocol::tcp_listener,
        "{program} listens on port {port} with a TCP socket, so it accepts plain TCP only"
        => "start the server with `mptcpize run COMMAND`, or run `mptcpize enable UNIT` for a systemd unit (package mptcpize); a Go program with GODEBUG=multipathtcp=2";
    "no-option-in-ack", NeverMptcp, protocol::no_option_in_ack,
        "the SYN from {peer} had MP_CAPABLE, the next segment had not: a device on the path removes the option from it"
        => "let the devices on the path pass TCP option 30 (MPTCP)";
    "tcp-client", NeverMptcp, protocol::tcp_client,
        "the SYN from {peer} had no MP_CAPABLE: the client opened a TCP socket, or a device on the path removed the option"
        => "run `mpwatch why` at the client: it shows whether its program asks for MPTCP";

    "syn-dropped", FellBack, protocol::syn_dropped,
        "SYNs with MP_CAPABLE were not answered, a SYN without the option was: a device on the path drops SYNs with MPTCP"
        => "let the firewalls on the path pass TCP option 30 (MPTCP)";
    "black-hole", FellBack, protocol::black_hole,
        "the kernel does not ask for MPTCP because earlier SYNs with the option were dropped; it tries again after {timeout} s, and waits longer after each failure",
        Here "sysctl -w net.mptcp.blackhole_timeout={timeout}";
    "no-option-in-answer", FellBack, protocol::no_option_in_answer,
        "{peer} answered without MP_CAPABLE: its program listens with a TCP socket, a proxy or load balancer answered, or a device on the path removed the option"
        => "run `mpwatch why` at the peer: it shows whether the program there listens with MPTCP";
    "fell-back-later", FellBack, protocol::fell_back_later,
        "the peers agreed on MPTCP, but later data arrived without valid MPTCP options: a device on the path removes options or changes payload, or the server was overloaded during the handshake (SYN cookies)"
        => "find the device: capture packets at both ends and compare the TCP options";

    "userspace-path-manager", Client, client::userspace_manager,
        "the path manager is a program in user space, so the kernel itself opens, announces and accepts no additional subflows"
        => "run a path manager such as mptcpd, or use the kernel's",
        Here "sysctl -w net.mptcp.{kernel}";
    "subflow-limit", Client, client::subflow_limit,
        "this host allows no subflow besides the initial one",
        Here "ip mptcp limits set subflows {limit}";
    "announcement-not-accepted", Client, client::announcement_not_accepted,
        "the peer announced an address, and this host accepts no announced addresses",
        Here "ip mptcp limits set add_addr_accepted {limit}";
    "endpoint-without-subflow", Client, client::endpoint_without_subflow,
        "the endpoint {address} lacks the flag `subflow`, so this host opens no subflow from it",
        Here "ip mptcp endpoint delete id {id}",
        Here "ip mptcp endpoint add {address} dev {device} id {id} {flags}";
    "interface-down", Client, client::interface_down,
        "the interface {device} of the endpoint {address} is down",
        Here "ip link set dev {device} up";
    "no-carrier", Client, client::no_carrier,
        "the interface {device} of the endpoint {address} has no carrier"
        => "connect the cable, the radio or the tunnel of the interface";
    "address-changed", Client, client::address_changed,
        "no interface has the address {address} of the endpoint {id}; {device} has {new}",
        Here "ip mptcp endpoint delete id {id}",
        Here "ip mptcp endpoint add {new} dev {device} id {id} {flags}";
    "address-missing", Client, client::address_missing,
        "no interface has the address {address} of the endpoint {id}"
        => "add the address to an interface, or delete the endpoint and add one with an existing address";
    "no-route", Client, client::no_route,
        "there is no route from the endpoint {address} to {peer}"
        => "give the address a route of its own, in a routing table T that nothing else uses: ip route add default via GATEWAY dev DEVICE table T; ip rule add from ADDRESS table T";
    "route-over-other-interface", Client, client::route_over_other_interface,
        "packets from the endpoint {address} leave through {other} instead of {device}, so both subflows use the same path"
        => "if the interface has a route to the peer, the command is enough; otherwise give the address a route of its own, in a routing table T that nothing else uses: ip route add default via GATEWAY dev DEVICE table T; ip rule add from ADDRESS table T",
        Here "ip mptcp endpoint delete id {id}",
        Here "ip mptcp endpoint add {address} dev {device} id {id} {flags}";
    "no-endpoint", Client, client::no_endpoint,
        "no endpoint tells the kernel to open a subflow from {address} ({device})",
        Here "ip mptcp endpoint add {address} dev {device} subflow";
    "single-address", Client, client::single_address,
        "this host has no usable address besides {address}, and the peer announced none"
        => "connect this host to a second network, or let a server with several addresses announce them: ip mptcp endpoint add ADDRESS dev DEVICE signal";

    "reverse-path-filter", Network, network::reverse_path_filter,
        "the strict reverse path filter of this host drops packets that arrive through another interface than the route back to their source",
        Here "sysctl -w net.ipv4.conf.all.rp_filter=2";
    "join-hmac", Network, network::join_hmac,
        "the authentication of a join failed: a proxy or load balancer on the path ended one of the subflows"
        => "let both subflows reach the same server without a device that ends TCP connections";
    "join-not-sent", Network, network::join_not_sent,
        "the kernel could not send the SYN of a join: there is no route, or the address or port is not available"
        => "check the route of the endpoint: ip route get PEER from ADDRESS";
    "join-unreachable", Network, network::join_unreachable,
        "the join to {peer} found its host unreachable: the next hop does not answer ARP or neighbour discovery, a router has no route, or a firewall rejects it by ICMP"
        => "check the next hop of the endpoint (`ip route get PEER from ADDRESS`, `ip neigh`), then run `mpwatch why` at the peer";
    "join-unanswered", Network, network::join_unanswered,
        "SYNs with MP_JOIN from {from} to {peer} are not answered: a firewall drops them, a route is missing on the way, or the reverse path filter of the peer drops them"
        => "run `mpwatch why` at the peer, then check the firewalls on this path";
    "join-refused", Network, network::join_refused,
        "{peer} answered the join, but did not accept the subflow because its limit is 0 or reached; or this host reset the subflow later (`mpwatch show` has its end)",
        Peer "ip mptcp limits set subflows 8";
    "join-reset", Network, network::join_reset,
        "the join to {peer} was answered with a reset or an ICMP error: a firewall rejects it, or it reached a server that does not know the connection"
        => "run `mpwatch why` at the peer, then check firewalls and load balancers on this path";
    "join-option-removed", Network, network::join_option_removed,
        "the join to {peer} was answered without MP_JOIN: a device on this path removed the option"
        => "let the devices on this path pass TCP option 30 (MPTCP)";
    "no-join-attempted", Network, client::no_join_attempted,
        "this host has not tried to join from {address}: the peer denies joins to its initial address, or the connection is older than the endpoint or the limits"
        => "open a new connection first",
        Peer "sysctl -w net.mptcp.allow_join_initial_addr_port=1";

    "refuses-joins", Server, server::refuses_joins,
        "this host allows no subflow besides the initial one, so it rejects joins",
        Here "ip mptcp limits set subflows {limit}";
    "denies-initial-address", Server, server::denies_initial_address,
        "this host denies joins to the address of the initial subflow, and announces no other address",
        Here "sysctl -w net.mptcp.allow_join_initial_addr_port=1";
    "join-without-connection", Server, server::joins_without_connection,
        "joins arrived for connections that this host does not have: a load balancer sends the subflows of a connection to different servers"
        => "let the load balancer choose the server by the client only, or announce the address of the server itself and deny joins to the shared address (net.mptcp.allow_join_initial_addr_port=0)";
    "subflow-endpoint-at-server", Server, server::subflow_endpoint,
        "the endpoint {address} has the flag `subflow`, with which this server connects to the client, where nothing listens",
        Here "ip mptcp endpoint delete id {id}",
        Here "ip mptcp endpoint add {address} dev {device} id {id} {flags}";
    "announcement-not-echoed", Server, server::announcement_not_echoed,
        "the client did not confirm the announced address: a device on the path removes ADD_ADDR, or the client does not handle it"
        => "capture packets at both ends and compare the TCP options";
    "announced-but-not-joined", Server, server::announced_but_not_joined,
        "the client received the announced address but no join arrived: it accepts no announced addresses, or it cannot reach this address",
        Peer "ip mptcp limits set subflows 2 add_addr_accepted 2";
    "not-announced", Server, server::not_announced,
        "this server does not announce its address {address} ({device}), and the client opens no second subflow itself",
        Here "ip mptcp endpoint add {address} dev {device} signal";

    "backup", Unused, client::backup_here,
        "the subflow from {address} is a backup: it carries data only while no other path works",
        Here "ip mptcp endpoint change id {id} nobackup";
    "backup-by-peer", Unused, client::backup_there,
        "the peer made the subflow to {peer} a backup: it carries data only while no other path works"
        => "at the peer, find the endpoint with `ip mptcp endpoint show` and run `ip mptcp endpoint change id ID nobackup`";
};
