// SPDX-License-Identifier: MIT OR Apache-2.0
//! The privacy mask: in place of addresses with their ports, processes, namespaces and hosts stand names that say only which ones are the same.

mod report;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::{Name, printable};

/// Pseudonyms in the order in which their owners were first seen while the mask was on. Empty and off by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mask {
    on: bool,
    addresses: HashMap<IpAddr, usize>,
    names: HashMap<String, usize>,
}

impl Mask {
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn turn(&mut self) {
        self.on = !self.on;
    }

    /// Gives names to everything that these connections show.
    pub(crate) fn learn<'a>(&mut self, connections: impl IntoIterator<Item = &'a Connection>) {
        if !self.on {
            return;
        }
        for connection in connections {
            let ends = connection.local.into_iter().chain(connection.remote);
            let all = ends.chain(connection.subflows.iter().flat_map(|flow| [flow.local, flow.remote]));
            let all = all.map(|address| address.ip());
            for address in all {
                let next = self.addresses.len() + 1;
                self.addresses.entry(address).or_insert(next);
            }
            let process = connection.process.map(|process| process.comm);
            for name in
                [process.as_ref().map(Name::text), Some(Cow::from(&connection.netns))].into_iter().flatten()
            {
                // Mostly they are known already, and there may be many connections.
                if !self.names.contains_key(&*name) {
                    self.names.insert(name.into_owned(), self.names.len() + 1);
                }
            }
        }
    }

    pub(crate) fn ip(&self, ip: IpAddr) -> String {
        if self.on {
            self.addresses.get(&ip).map_or_else(|| "host-?".to_owned(), |number| format!("host-{number}"))
        } else {
            ip.to_string()
        }
    }

    pub(crate) fn address(&self, address: SocketAddr) -> String {
        // A port tells the service, and together with a time the connection.
        if self.on { self.ip(address.ip()) } else { address.to_string() }
    }

    /// The name of a process, a namespace, a host: of this kind.
    pub(crate) fn name(&self, kind: &str, name: &str) -> String {
        if self.on {
            self.names.get(name).map_or_else(|| format!("{kind}-?"), |number| format!("{kind}-{number}"))
        } else {
            printable(name).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::fixture;

    use super::*;

    #[test]
    fn the_same_address_has_the_same_name() {
        let mut mask = Mask::default();
        let connection = fixture::connection(1, 2);
        let local = connection.subflows[0].local;
        assert_eq!(mask.address(local), local.to_string());
        mask.turn();
        assert_eq!(mask.ip(local.ip()), "host-?");
        mask.learn([&connection]);
        assert_eq!(mask.address(local), "host-1");
        assert_eq!(mask.name("process", "iperf3"), "process-1");
        mask.learn([&fixture::connection(2, 2)]);
        assert_eq!(mask.address(local), "host-1");
    }
}
