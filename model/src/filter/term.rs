// SPDX-License-Identifier: MIT OR Apache-2.0
//! One term of a filter: its test, and what it reads of a connection.

use std::fmt;
use std::net::IpAddr;

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
    Process(Pattern),
    Interface(Pattern),
    Netns(Pattern),
    Cgroup(Pattern),
    Pod(Pattern),
    Id(String),
    State(TcpState),
    Role(Role),
    Class(FlowClass),
    Compare(Subject, Comparison, Amount),
    Word(Word),
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
            Self::Process(name) => write!(f, "proc:{name}"),
            Self::Interface(name) => write!(f, "iface:{name}"),
            Self::Netns(name) => write!(f, "netns:{name}"),
            Self::Cgroup(name) => write!(f, "cgroup:{name}"),
            Self::Pod(name) => write!(f, "pod:{name}"),
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
            Self::Peer(network) => addresses(c, |local_remote| local_remote.1).any(|ip| network.contains(ip)),
            Self::Local(network) => {
                addresses(c, |local_remote| local_remote.0).any(|ip| network.contains(ip))
            }
            Self::Port(port) => has_port(c, *port),
            Self::Process(name) => {
                c.process.is_some_and(|p| name.matches(&p.comm.text()) || name.text() == p.pid.to_string())
            }
            Self::Interface(name) => {
                c.subflows.iter().filter_map(|s| s.interface).any(|interface| name.matches(&interface.text()))
            }
            Self::Netns(name) => name.matches(&c.netns),
            Self::Cgroup(name) => c.cgroup.as_deref().is_some_and(|path| name.matches(path)),
            Self::Pod(name) => c.pod.as_ref().is_some_and(|pod| name.matches(&pod.to_string())),
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

/// One end's addresses of a connection and of all its subflows.
fn addresses(c: &Connection, end: fn((IpAddr, IpAddr)) -> IpAddr) -> impl Iterator<Item = IpAddr> {
    let own = c.local.zip(c.remote).into_iter();
    let all = own.chain(c.subflows.iter().map(|s| (s.local, s.remote)));
    all.map(move |(local, remote)| end((local.ip(), remote.ip())))
}

fn has_port(c: &Connection, port: u16) -> bool {
    let own = [c.local, c.remote].into_iter().flatten();
    own.chain(c.subflows.iter().flat_map(|s| [s.local, s.remote])).any(|address| address.port() == port)
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
            Self::Failed => c.subflows.iter().any(|s| s.path_failures > 0 || outage::has_failed(c, s)),
        }
    }
}
