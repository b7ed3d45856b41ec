// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masks exported reports: `host-3` on the screen is exported as 192.0.2.3 or 2001:db8::3 (RFC 5737, 2544, 3849), without a port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::event::Process;
use mpwatch_model::snapshot::Report;

use crate::mask::Mask;

impl Mask {
    /// The report with pseudonyms instead of names and addresses.
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
        connection.process = process.map(|name| Process { pid: 0, comm: short(&name) });
        connection.netns = self.name("netns", &connection.netns);
        (connection.netns_inode, connection.cgroup, connection.pod) = (0, None, None);
        for entry in &mut connection.timeline {
            if let TimelineEvent::PeerAddressAnnounced { address, .. } = &mut entry.event {
                *address = None;
            }
        }
    }

    /// A documentation address whose last part is the number of the pseudonym on the screen.
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

/// A name in the kernel's format, cut to 15 bytes.
fn short(text: &str) -> Name {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(text.bytes().take(15)).for_each(|(slot, byte)| *slot = byte);
    Name::from_kernel(bytes)
}
