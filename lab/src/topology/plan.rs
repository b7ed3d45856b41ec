// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address plan. Addresses are `10.<segment>.<side>.<node>` and `fd00:<segment>:<side>::<node>`. Every segment has a
//! number. Side 1 is the client's side, side 2 the server's side. Node 2 is an end of the segment, node 1 the router.

use super::spec::Family;
use crate::link::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// A side of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The client's side.
    Near,
    /// The server's side.
    Far,
}

/// The segment number of a path, 1 to 9.
pub(super) fn path_number(index: usize) -> u8 {
    index as u8 + 1
}

/// The segment number of a bottleneck, from 101.
pub(super) fn bottleneck_number(index: usize) -> u8 {
    index as u8 + 101
}

fn address(number: u8, side: Side, node: u8, family: Family) -> IpAddr {
    let side = match side {
        Side::Near => 1,
        Side::Far => 2,
    };
    match family {
        Family::V4 => Ipv4Addr::new(10, number, side, node).into(),
        Family::V6 => {
            Ipv6Addr::new(0xfd00, u16::from(number), u16::from(side), 0, 0, 0, 0, u16::from(node)).into()
        }
    }
}

/// The address of the end of a segment on one side.
pub(super) fn end(number: u8, side: Side, family: Family) -> IpAddr {
    address(number, side, 2, family)
}

/// The address of the router's interface on one side of a segment.
pub(super) fn router(number: u8, side: Side, family: Family) -> IpAddr {
    address(number, side, 1, family)
}

/// The IPv4 and IPv6 address of a node.
pub(super) fn on_interface(number: u8, side: Side, node: Node, subnet: Subnet) -> Vec<IpNet> {
    FAMILIES
        .iter()
        .map(|family| IpNet {
            address: match node {
                Node::End => end(number, side, *family),
                Node::Router => router(number, side, *family),
            },
            length: subnet.prefix_length(*family),
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    End,
    Router,
}

/// The part of a segment that forms one subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subnet {
    /// One side of a segment, with a router between the sides.
    Side,
    /// Both sides of a segment, which reach each other without a router.
    Segment,
}

impl Subnet {
    fn prefix_length(self, family: Family) -> u8 {
        match (self, family) {
            (Self::Side, Family::V4) => 24,
            (Self::Side, Family::V6) => 64,
            (Self::Segment, Family::V4) => 16,
            (Self::Segment, Family::V6) => 32,
        }
    }
}

/// The network of one side of a segment.
pub(super) fn network(number: u8, side: Side, family: Family) -> IpNet {
    IpNet { address: address(number, side, 0, family), length: Subnet::Side.prefix_length(family) }
}

/// The destination of a default route.
pub(super) fn any_address(family: Family) -> IpNet {
    let address = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    IpNet { address, length: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_contain_segment_side_and_node() {
        assert_eq!(end(2, Side::Near, Family::V4).to_string(), "10.2.1.2");
        assert_eq!(router(2, Side::Far, Family::V6).to_string(), "fd00:2:2::1");
        let [four, six] = on_interface(1, Side::Far, Node::End, Subnet::Segment)[..] else {
            panic!("two families");
        };
        assert_eq!((four.length, six.length), (16, 32));
    }
}
