// SPDX-License-Identifier: MIT OR Apache-2.0
//! The question that the conditions of the table answer: a connection, or a connection that does not exist yet, in its namespace.

use std::fmt::Display;
use std::net::IpAddr;

use mpwatch_model::kernel::lifecycle::{CarriedBy, CloseReason, Role, TcpState};
use mpwatch_model::why::answer::Certainty;
use mpwatch_model::why::facts::{Connection, Endpoint, Interface, Namespace, Route, Subflow};

/// A connection with its namespace.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Facts about the namespace.
    pub here: &'a Namespace,
    /// The connection. `None`: a new connection that this host opens.
    pub connection: Option<&'a Connection>,
    /// The peer. `None`: any peer.
    pub peer: Option<IpAddr>,
    /// Judge only this endpoint, whatever its flags are. `None`: all that can belong to a second path.
    pub(super) only: Option<&'a Endpoint>,
}

/// A condition of the table holds.
pub(super) struct Found {
    /// Values for the names in braces.
    pub(super) values: Vec<(&'static str, String)>,
    pub(super) evidence: Vec<String>,
    pub(super) certainty: Certainty,
}

impl Found {
    pub(super) fn certain(evidence: Vec<String>) -> Self {
        Self { values: Vec::new(), evidence, certainty: Certainty::Certain }
    }

    pub(super) fn likely(evidence: Vec<String>) -> Self {
        Self::certain(evidence).but_likely()
    }

    /// The same, but only likely.
    pub(super) fn but_likely(self) -> Self {
        Self { certainty: Certainty::Likely, ..self }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.values.push((name, value.to_string()));
        self
    }
}

impl<'a> Case<'a> {
    /// The question about a connection.
    pub fn with_connection(here: &'a Namespace, connection: &'a Connection) -> Self {
        Self { connection: Some(connection), ..Self::new(here, Some(connection.remote.ip())) }
    }

    /// The question about a connection that this host would open. `peer`: `None`, to any peer.
    pub fn new(here: &'a Namespace, peer: Option<IpAddr>) -> Self {
        Self { here, connection: None, peer, only: None }
    }

    pub(super) fn is_new(&self) -> bool {
        self.connection.is_none()
    }

    pub(super) fn carried_by(&self) -> Option<CarriedBy> {
        self.connection.map(|connection| connection.carried_by)
    }

    /// Whether this host opened the connection, or will open it.
    pub(super) fn is_client(&self) -> bool {
        self.connection.is_none_or(|connection| connection.role == Role::Client)
    }

    /// Number of subflows whose handshake is complete.
    pub(super) fn paths(&self) -> usize {
        self.connection.map_or(0, |connection| connection.established().count())
    }

    /// Whether both ends are on this host.
    fn is_local(&self) -> bool {
        self.peer.is_some_and(|peer| peer.is_loopback() || self.here.interface_with(peer).is_some())
    }

    /// Whether the connection uses MPTCP without a second path, or does not exist yet. Within a host there are no paths.
    pub(super) fn lacks_path(&self) -> bool {
        let has_one = self.carried_by() == Some(CarriedBy::Mptcp) && self.paths() < 2;
        (self.is_new() || has_one) && !self.is_local()
    }

    /// As [`Self::lacks_path`], at the client.
    pub(super) fn client_lacks_path(&self) -> bool {
        self.is_client() && self.lacks_path()
    }

    /// As [`Self::lacks_path`], at the server.
    pub(super) fn server_lacks_path(&self) -> bool {
        !self.is_client() && self.lacks_path()
    }

    /// Local address of the initial subflow.
    pub(super) fn initial(&self) -> Option<IpAddr> {
        let chosen = || self.here.route(None, self.peer?)?.next_hop.as_ref().ok()?.source;
        self.connection.map(|connection| connection.local.ip()).or_else(chosen)
    }

    /// Whether an address can belong to a second path: it is not the initial address, and has the peer's family.
    fn is_second(&self, address: IpAddr) -> bool {
        Some(address) != self.initial() && self.peer.is_none_or(|peer| peer.is_ipv4() == address.is_ipv4())
    }

    /// Endpoints, other than the initial address, that an administrator has set for this purpose.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &'a Endpoint> {
        let case = *self;
        let is_set =
            move |endpoint: &&Endpoint| !endpoint.has(Endpoint::IMPLICIT) && case.is_second(endpoint.address);
        self.here.endpoints.iter().filter(is_set)
    }

    /// Endpoints from which this host opens subflows.
    pub(super) fn joining(&self) -> impl Iterator<Item = &'a Endpoint> {
        let only = self.only;
        self.endpoints().filter(move |endpoint| {
            endpoint.has(Endpoint::SUBFLOW | Endpoint::FULLMESH) && only.is_none_or(|only| only == *endpoint)
        })
    }

    /// Joining endpoints that have this problem. Empty: an endpoint without a problem exists, too, so that the problem is not the cause.
    pub(super) fn joining_if_all_broken(&self) -> impl Iterator<Item = &'a Endpoint> {
        let has_usable = self.joining().any(|endpoint| self.is_usable(endpoint));
        let all = self.joining().filter(move |_| self.only.is_none() && !has_usable);
        self.only.into_iter().chain(all)
    }

    /// Whether subflows can be opened from an endpoint: an interface has the address and is up, and there is a route.
    pub(super) fn is_usable(&self, endpoint: &Endpoint) -> bool {
        let interface = self.here.interface_with(endpoint.address);
        interface.is_some_and(|interface| interface.up && interface.running)
            && self
                .route(endpoint)
                .is_none_or(|route| route.next_hop.as_ref().is_ok_and(|next_hop| !next_hop.assumed))
    }

    /// The route from an endpoint to the peer. `None`: not read.
    pub(super) fn route(&self, endpoint: &Endpoint) -> Option<&'a Route> {
        self.here.route(Some(endpoint.address), self.peer?)
    }

    /// Interfaces that work, with an address that a path may have.
    fn working(&self) -> impl Iterator<Item = (&'a Interface, IpAddr)> {
        let interfaces = self.here.interfaces.iter();
        let works = interfaces.filter(|interface| {
            interface.up && interface.running && !interface.loopback && !interface.internal
        });
        works.flat_map(|interface| {
            let addresses = interface.addresses.iter().copied().filter(|address| is_global(*address));
            addresses.map(move |address| (interface, address))
        })
    }

    /// The initial address or, if the peer is unknown, an address that a connection may have.
    pub(super) fn first_address(&self) -> Option<IpAddr> {
        self.initial().or_else(|| Some(self.working().next()?.1).filter(|_| self.peer.is_none()))
    }

    /// Addresses for a second path that are not endpoints yet: on another interface than the initial subflow, which works.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (&'a Interface, IpAddr)> {
        let case = *self;
        let first = self.first_address().and_then(|address| self.here.interface_with(address));
        let is_endpoint = move |address| case.endpoints().any(|endpoint| endpoint.address == address);
        self.working().filter(move |(interface, address)| {
            Some(*interface) != first && case.is_second(*address) && !is_endpoint(*address)
        })
    }

    /// One of [`Self::candidates`].
    pub(super) fn candidate(&self) -> Option<(&'a Interface, IpAddr)> {
        self.candidates().last()
    }

    /// Number of times that a counter of MPTCP has counted.
    pub(super) fn counter(&self, name: &str) -> u64 {
        self.here.counter(&format!("MPTcpExt{name}"))
    }

    /// As [`Self::counter`]. `None`: the kernel lacks the counter.
    pub(super) fn known_counter(&self, name: &str) -> Option<u64> {
        self.here.counters.get(&format!("MPTcpExt{name}")).copied()
    }

    /// Counters as evidence.
    pub(super) fn counters(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{name} {}", self.here.counter(name))).collect()
    }

    /// Why the latest failed join of the connection ended. `None`: none failed, or the connection is not traced.
    pub(super) fn failed_join(&self) -> Option<CloseReason> {
        self.connection.and_then(|connection| connection.failed_join)
    }

    /// Whether the kernel waits for the answer to a join, and has retransmitted the SYN.
    pub(super) fn pending_join(&self) -> Option<bool> {
        self.pending_joins().next()?;
        Some(self.pending_joins().any(|join| join.retransmits > 0))
    }

    /// Subflows that wait for the answer to their SYN.
    pub(super) fn pending_joins(&self) -> impl Iterator<Item = &'a Subflow> {
        let subflows = self.connection.into_iter().flat_map(|connection| &connection.subflows);
        subflows.filter(|subflow| subflow.state == TcpState::SynSent)
    }
}

/// Whether an address is neither link-local nor loopback.
fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => !four.is_link_local() && !four.is_loopback(),
        IpAddr::V6(six) => !six.is_unicast_link_local() && !six.is_loopback(),
    }
}
