// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terms of a filter, and their evaluation for a connection.

use std::fmt;
use std::net::SocketAddr;

use super::value::{Amount, Comparison, Network, Pattern, Subject};
use crate::flow::class::FlowClass;
use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::kernel::lifecycle::{Protocol, Role, TcpState};
use crate::words;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) negated: bool,
    pub(super) test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Peer(Network),
    Local(Network),
    Port(u16),
    Name(NameKey, Pattern),
    Id(String),
    State(TcpState),
    Role(Role),
    Class(FlowClass),
    Compare(Subject, Comparison, Amount),
    Word(Word),
}

words! {
    /// Keys whose value is a pattern for a name.
    pub(super) enum NameKey {
        Process = "proc",
        Interface = "iface",
        Netns = "netns",
        Cgroup = "cgroup",
        Pod = "pod",
    }
}

words! {
    pub(super) enum Word {
        Mptcp = "mptcp",
        Tcp = "tcp",
        Fallback = "fallback",
        Shared = "shared",
        Open = "open",
        Closed = "closed",
        Stale = "stale",
        Failed = "failed",
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(network) => write!(f, "peer:{network}"),
            Self::Local(network) => write!(f, "local:{network}"),
            Self::Port(port) => write!(f, "port:{port}"),
            Self::Name(key, pattern) => write!(f, "{}:{pattern}", key.as_str()),
            Self::Id(prefix) => write!(f, "id:{prefix}"),
            Self::State(state) => write!(f, "state:{}", state.as_str()),
            Self::Role(role) => write!(f, "role:{}", role.as_str()),
            Self::Class(class) => write!(f, "class:{}", class.as_str()),
            Self::Compare(subject, comparison, quantity) => {
                write!(f, "{}{}{quantity}", subject.as_str(), comparison.as_str())
            }
            Self::Word(word) => f.write_str(word.as_str()),
        }
    }
}

impl Test {
    pub(super) fn holds(&self, c: &Connection) -> bool {
        match self {
            Self::Peer(network) => addresses(c).any(|(_, remote)| network.contains(remote.ip())),
            Self::Local(network) => addresses(c).any(|(local, _)| network.contains(local.ip())),
            Self::Port(port) => addresses(c).any(|(a, b)| a.port() == *port || b.port() == *port),
            Self::Name(key, pattern) => key.matches(c, pattern),
            Self::Id(prefix) => c.id.to_string().starts_with(prefix) || c.id.short().starts_with(prefix),
            Self::State(state) => c.state == *state,
            Self::Role(role) => c.role == Some(*role),
            Self::Class(class) => c.flow_class == *class,
            Self::Compare(subject, comparison, quantity) => {
                subject.values(c).into_iter().any(|value| comparison.holds(value, quantity.base))
            }
            Self::Word(word) => word.holds(c),
        }
    }
}

/// Local and remote addresses of a connection and of each of its subflows.
fn addresses(c: &Connection) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
    c.local.zip(c.remote).into_iter().chain(c.subflows.iter().map(|s| (s.local, s.remote)))
}

impl NameKey {
    fn matches(self, c: &Connection, pattern: &Pattern) -> bool {
        match self {
            Self::Process => c.process.is_some_and(|process| {
                pattern.matches(&process.comm.text()) || pattern.text() == process.pid.to_string()
            }),
            Self::Interface => {
                c.subflows.iter().filter_map(|s| s.interface).any(|name| pattern.matches(&name.text()))
            }
            Self::Netns => pattern.matches(&c.netns),
            Self::Cgroup => c.cgroup.as_deref().is_some_and(|path| pattern.matches(path)),
            Self::Pod => c.pod.as_ref().is_some_and(|pod| pattern.matches(&pod.to_string())),
        }
    }
}

impl Word {
    pub(super) fn holds(self, c: &Connection) -> bool {
        match self {
            Self::Mptcp => c.protocol == Protocol::Mptcp,
            Self::Tcp => c.protocol == Protocol::Tcp,
            Self::Fallback => c.fallback.is_some(),
            Self::Shared => c.bottlenecks.iter().flat_map(|found| &found.groups).any(|group| group.len() > 1),
            Self::Open => c.is_open(),
            Self::Closed => !c.is_open(),
            Self::Stale => c.subflows.iter().any(|s| s.is_failed() && s.closed.is_none()),
            Self::Failed => {
                c.dropped_subflows.as_ref().is_some_and(|dropped| dropped.path_failures > 0)
                    || c.subflows.iter().any(|s| s.path_failures > 0 || outage::has_failed(c, s))
            }
        }
    }
}
