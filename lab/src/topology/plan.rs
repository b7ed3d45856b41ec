// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address plan: every stretch of network has a number, and its addresses follow from it.
//! `10.<number>.<side>.<host>` and `fd00:<number>:<side>::<host>`; side 1 is the client's, side 2 the server's;
//! host 2 is an end, host 1 the router between. Pure.

use super::spec::Family;
use crate::link::Prefixed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Near,
    Far,
}

/// Paths are numbered 1 to 9.
pub(super) fn path_number(index: usize) -> u8 {
    index as u8 + 1
}

/// Bottlenecks are numbered from 101.
pub(super) fn bottleneck_number(index: usize) -> u8 {
    index as u8 + 101
}

fn address(number: u8, side: Side, host: u8, family: Family) -> IpAddr {
    let side = match side {
        Side::Near => 1,
        Side::Far => 2,
    };
    match family {
        Family::V4 => Ipv4Addr::new(10, number, side, host).into(),
        Family::V6 => {
            Ipv6Addr::new(0xfd00, u16::from(number), u16::from(side), 0, 0, 0, 0, u16::from(host)).into()
        }
    }
}

/// The address of an end.
pub(super) fn end(number: u8, side: Side, family: Family) -> IpAddr {
    address(number, side, 2, family)
}

/// The address of the router next to an end.
pub(super) fn router(number: u8, side: Side, family: Family) -> IpAddr {
    address(number, side, 1, family)
}

/// Both addresses of an end, or of the router next to it. Narrow prefixes hold one side; wide ones both,
/// for ends that see each other without a router.
pub(super) fn on_interface(number: u8, side: Side, host: Host, width: Width) -> Vec<Prefixed> {
    FAMILIES
        .iter()
        .map(|family| Prefixed {
            address: match host {
                Host::End => end(number, side, *family),
                Host::Router => router(number, side, *family),
            },
            length: width.bits(*family),
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    End,
    Router,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

impl Width {
    fn bits(self, family: Family) -> u8 {
        match (self, family) {
            (Self::Narrow, Family::V4) => 24,
            (Self::Narrow, Family::V6) => 64,
            (Self::Wide, Family::V4) => 16,
            (Self::Wide, Family::V6) => 32,
        }
    }
}

/// The network of one side.
pub(super) fn network(number: u8, side: Side, family: Family) -> Prefixed {
    Prefixed { address: address(number, side, 0, family), length: Width::Narrow.bits(family) }
}

/// Everything, for a default route.
pub(super) fn anywhere(family: Family) -> Prefixed {
    let address = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    Prefixed { address, length: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_path_side_and_host() {
        assert_eq!(end(2, Side::Near, Family::V4).to_string(), "10.2.1.2");
        assert_eq!(router(2, Side::Far, Family::V6).to_string(), "fd00:2:2::1");
        let [four, six] = on_interface(1, Side::Far, Host::End, Width::Wide)[..] else {
            panic!("two families");
        };
        assert_eq!((four.length, six.length), (16, 32));
    }
}
