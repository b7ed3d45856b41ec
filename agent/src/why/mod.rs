// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the facts for `mpwatch why` from a network namespace: configuration of MPTCP, counters, interfaces, routes and sockets. Nothing is
//! traced, loaded or changed. The own namespace needs no privilege, other namespaces need CAP_SYS_ADMIN.

mod interfaces;
mod path_manager;
mod peer;
mod routes;
mod socket_table;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, bail};
use mpwatch_ebpf::namespace::{self, DIRECTORIES, OWN_NAME};
use mpwatch_engine::why::quoted;
use mpwatch_model::why::facts::Namespace;

pub(crate) use peer::parse_peer;
use socket_table::Programs;

use crate::error::{Failure, PERMISSION, RUNTIME};
use crate::system::mib;
use crate::system::setup::{SYSCTLS, sysctls};

/// The facts of the requested namespace; by default this namespace, then all others that can be entered and for which `is_used` holds.
pub(crate) fn read(
    netns: Option<&str>,
    peer: Option<IpAddr>,
    is_used: impl Fn(&Namespace) -> bool,
) -> anyhow::Result<Vec<Namespace>> {
    let programs = Programs::find();
    let is_own = |found: &namespace::Namespace| found.name.as_deref() == Some(namespace::OWN_NAME);
    let mut all = namespace::all();
    all.sort_by_key(|found| !is_own(found));
    let Some(wanted) = netns else {
        let mut facts = Vec::new();
        for found in &all {
            match read_namespace(found, peer, &programs) {
                Ok(here) if is_own(found) || is_used(&here) => facts.push(here),
                Err(error) if is_own(found) => {
                    return Err(error).context("cannot read this network namespace");
                }
                // Another namespace is not permitted to this user, or has been removed.
                Ok(_) | Err(_) => {}
            }
        }
        return Ok(facts);
    };
    let Some(found) = namespace::find(wanted) else { bail!(no_namespace(wanted)) };
    let failed = |error| unreadable(&format!("the network namespace `{wanted}`"), &error);
    Ok(vec![read_namespace(&found, peer, &programs).map_err(failed)?])
}

/// The error of an unknown name in `--netns`.
pub(crate) fn no_namespace(wanted: &str) -> Failure {
    Failure::usage(format!("there is no network namespace `{wanted}`; `ip netns` lists the named ones"))
}

/// The error of a namespace whose facts cannot be read, with advice.
fn unreadable(what: &str, error: &io::Error) -> anyhow::Error {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let advice = "; run mpwatch as root: entering another network namespace needs cap_sys_admin, and before Linux 6.13 recognizing subflows needs cap_net_admin";
    let (code, advice) = if is_denied { (PERMISSION, advice) } else { (RUNTIME, "") };
    Failure { code, message: format!("cannot read {what}: {error}{advice}") }.into()
}

/// The facts of a namespace without its sockets, for a question about connections to one of these peers.
pub(crate) fn read_for(found: &namespace::Namespace, peers: &[IpAddr]) -> io::Result<Namespace> {
    named(found, |name| {
        let mut here = configuration(name)?;
        for peer in peers {
            let (routes, returns) = routes::read(&here, Some(*peer));
            here.routes.extend(routes);
            here.returns.extend(returns);
        }
        Ok(here)
    })
}

/// Reads the facts of a namespace. `peer`: also reads the routes to this address.
fn read_namespace(
    found: &namespace::Namespace,
    peer: Option<IpAddr>,
    programs: &Programs,
) -> io::Result<Namespace> {
    named(found, |name| read_here(name, peer, programs))
}

/// What `read` reads in a namespace, with the words that run a command there. `read` gets its name.
fn named(
    found: &namespace::Namespace,
    read: impl FnOnce(String) -> io::Result<Namespace> + Send,
) -> io::Result<Namespace> {
    let name = found.name.clone().unwrap_or_else(|| format!("net:[{}]", found.inode));
    let enter = match &found.name {
        Some(name) if name == OWN_NAME => String::new(),
        Some(name) if found.path.starts_with(DIRECTORIES[0]) => format!("ip netns exec {} ", quoted(name)),
        _ => format!("nsenter --net={} ", quoted(&found.path.to_string_lossy())),
    };
    let here = namespace::inside(found, || read(name))?;
    Ok(Namespace { enter, ..here })
}

/// Reads the facts of the calling thread's namespace.
fn read_here(name: String, peer: Option<IpAddr>, programs: &Programs) -> io::Result<Namespace> {
    let mut here = configuration(name)?;
    (here.listeners, here.connections) = socket_table::read(programs)?;
    (here.routes, here.returns) = routes::read(&here, peer);
    Ok(here)
}

/// Reads configuration, counters and interfaces of the calling thread's namespace.
fn configuration(name: String) -> io::Result<Namespace> {
    let mut here = Namespace { name, sysctls: sysctls(Path::new(SYSCTLS)), ..Namespace::default() };
    for file in ["netstat", "snmp"] {
        here.counters.extend(counters(&fs::read_to_string(format!("/proc/thread-self/net/{file}"))?));
    }
    // A kernel without IPv6 lacks the file, which has one counter per line.
    let icmp6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    let icmp6 = icmp6.lines().filter_map(|line| line.trim_end().split_once(char::is_whitespace));
    here.counters
        .extend(icmp6.filter_map(|(name, value)| Some((name.to_owned(), value.trim_start().parse().ok()?))));
    here.interfaces = interfaces::read()?;
    if !here.sysctls.is_empty() {
        here.limits = Some(path_manager::limits()?);
        here.endpoints = path_manager::endpoints()?;
    }
    Ok(here)
}

/// The counters of a file, named by their groups.
fn counters(text: &str) -> BTreeMap<String, u64> {
    let named = mib::groups(text)
        .flat_map(|(group, values)| values.map(move |(name, value)| (format!("{group}{name}"), value)));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_by_their_group() {
        let found = counters("TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: A\nMPTcpExt: 7\n");
        assert_eq!((found["TcpExtB"], found["MPTcpExtA"], found.len()), (2, 7, 3));
    }

    #[test]
    fn the_own_namespace_is_read_without_privileges() {
        let here = read_here("host".to_owned(), Some([127, 0, 0, 1].into()), &Programs::find()).unwrap();
        assert!(here.interfaces.iter().any(|interface| interface.loopback));
        assert!(here.counters.contains_key("TcpAttemptFails"), "{:?}", here.counters.keys());
        assert!(here.route(None, [127, 0, 0, 1].into()).unwrap().next_hop.is_ok());
    }
}
