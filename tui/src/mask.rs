// SPDX-License-Identifier: MIT OR Apache-2.0
//! The privacy mask: replaces addresses (and removes their ports), processes, namespaces and hosts by pseudonyms, on the screen and in
//! exports.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::endpoint::{Name, printable};
use mpwatch_model::kernel::event::Process;
use mpwatch_model::snapshot::Report;
use mpwatch_model::why::answer::Cause;

/// Pseudonyms, numbered in the order in which names first appeared while the mask was on. Off by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mask {
    pub(crate) is_on: bool,
    addresses: HashMap<IpAddr, usize>,
    names: HashMap<String, usize>,
}

impl Mask {
    /// Assigns pseudonyms to the names in `connections`. Does nothing while the mask is off.
    pub(crate) fn learn<'a>(&mut self, connections: impl IntoIterator<Item = &'a Connection>) {
        if !self.is_on {
            return;
        }
        for connection in connections {
            let ends = connection.local.into_iter().chain(connection.remote);
            for address in ends.chain(connection.subflows.iter().flat_map(|flow| [flow.local, flow.remote])) {
                let next = self.addresses.len() + 1;
                self.addresses.entry(address.ip()).or_insert(next);
            }
            let process = connection.process.map(|process| process.comm);
            for name in process.iter().map(Name::text).chain([Cow::from(&connection.netns)]) {
                // Most names have a pseudonym already. `entry` would allocate the name for every connection.
                if !self.names.contains_key(&*name) {
                    self.names.insert(name.into_owned(), self.names.len() + 1);
                }
            }
        }
    }

    pub(crate) fn number(&self, ip: IpAddr) -> Option<usize> {
        self.addresses.get(&ip).copied()
    }

    pub(crate) fn ip(&self, ip: IpAddr) -> String {
        if self.is_on {
            self.number(ip).map_or_else(|| "host-?".to_owned(), |number| format!("host-{number}"))
        } else {
            ip.to_string()
        }
    }

    pub(crate) fn address(&self, address: SocketAddr) -> String {
        // The mask removes the port: a port identifies the service and, together with a time, the connection.
        if self.is_on { self.ip(address.ip()) } else { address.to_string() }
    }

    /// The name of a process or a namespace, or its pseudonym, which begins with `kind`.
    pub(crate) fn name(&self, kind: &str, name: &str) -> String {
        if self.is_on {
            self.names.get(name).map_or_else(|| format!("{kind}-?"), |number| format!("{kind}-{number}"))
        } else {
            printable(name).into_owned()
        }
    }

    /// The report with pseudonyms instead of names and addresses: `host-3` on the screen is exported as 192.0.2.3 or 2001:db8::3 (RFC 5737, 2544,
    /// 3849), without a port.
    pub(crate) fn report(&self, mut report: Report) -> Report {
        "masked: names and addresses are pseudonyms".clone_into(&mut report.run.host.name);
        report.run.host.boot_id.clear();
        for connection in &mut report.connections {
            self.mask(connection);
        }
        report
    }

    fn mask(&self, connection: &mut Connection) {
        let pseudonym = |at: SocketAddr| SocketAddr::new(self.pseudonym(at.ip()), 0);
        connection.local = connection.local.map(pseudonym);
        connection.remote = connection.remote.map(pseudonym);
        for subflow in &mut connection.subflows {
            (subflow.local, subflow.remote) = (pseudonym(subflow.local), pseudonym(subflow.remote));
        }
        let process = connection.process.map(|process| self.name("process", &process.comm.text()));
        connection.process = process.map(|name| Process { pid: 0, comm: name.into() });
        connection.netns = self.name("netns", &connection.netns);
        (connection.netns_inode, connection.cgroup, connection.pod) = (0, None, None);
        connection.cause =
            connection.cause.take().map(|known| Self::cause(Arc::unwrap_or_clone(known)).into());
        for entry in &mut connection.timeline {
            if let TimelineEvent::PeerAddressAnnounced { address, .. } = &mut entry.event {
                *address = None;
            }
        }
    }

    /// The cause without its texts and commands, which name addresses, interfaces, namespaces and programs.
    fn cause(known: Cause) -> Cause {
        let sentence = known.id.to_string();
        Cause { sentence, evidence: Vec::new(), advice: None, fix: Vec::new(), ..known }
    }

    /// A documentation or benchmarking address whose last bytes are the number of the pseudonym on the screen.
    fn pseudonym(&self, ip: IpAddr) -> IpAddr {
        let number = self.number(ip).unwrap_or(0);
        let [.., high, low] = number.to_be_bytes();
        match ip {
            IpAddr::V4(_) if number < 255 => Ipv4Addr::new(192, 0, 2, low).into(),
            IpAddr::V4(_) => Ipv4Addr::new(198, 18, high, low).into(),
            IpAddr::V6(_) => {
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from_be_bytes([high, low])).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    #[test]
    fn an_address_keeps_its_pseudonym() {
        let mut mask = Mask::default();
        let connection = fixture::connection(1, 2);
        let local = connection.subflows[0].local;
        assert_eq!(mask.address(local), local.to_string());
        mask.is_on = true;
        assert_eq!(mask.ip(local.ip()), "host-?");
        mask.learn([&connection]);
        assert_eq!(mask.address(local), "host-1");
        assert_eq!(mask.name("process", "iperf3"), "process-1");
        mask.learn([&fixture::connection(2, 2)]);
        assert_eq!(mask.address(local), "host-1");
    }
    #[test]
    fn a_cause_keeps_only_its_name() {
        let mask = Mask { is_on: true, ..Mask::default() };
        let report = mask.report(fixture::report(vec![fixture::fallen_back(1)]));
        let Some(cause) = &report.connections[0].cause else { panic!("no cause") };
        assert_eq!((&*cause.sentence, &*cause.id), ("no-option-in-answer", "no-option-in-answer"));
        assert!(cause.fix.is_empty() && cause.evidence.is_empty() && cause.advice.is_none(), "{cause:?}");
    }
}
