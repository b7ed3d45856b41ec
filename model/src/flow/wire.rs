// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimate of a flow's bytes on the wire. The kernel counts payload and segments, but not headers.

use std::net::IpAddr;

use crate::kernel::endpoint::ip_header_bytes;
use crate::unit::Bytes;

/// Bytes of an Ethernet header in interface counters (without preamble and frame check sequence).
const ETHERNET: u64 = 14;
/// Bytes of a DSS option without checksum (RFC 8684 section 3.3): 4 for the header, 4 for the DATA_ACK, 8 for the data sequence number, 4
/// for the subflow sequence number and 2 for the data-level length, padded to a multiple of 4.
const DSS_DATA: u64 = 24;
/// Bytes of a DSS option with only a DATA_ACK of 32 bits.
const DSS_ACK: u64 = 8;

/// Numbers of segments in one direction, as in `tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// All segments.
    pub all: u64,
    /// Segments with payload.
    pub with_data: u64,
}

/// Wire bytes of this payload in these segments, with the headers of Ethernet, IP and TCP (with its fixed options) and MPTCP's DSS option.
pub fn wire_bytes(
    payload: Bytes,
    segments: Segments,
    address: IpAddr,
    tcp_header: u64,
    mptcp: bool,
) -> Bytes {
    let header = ETHERNET + ip_header_bytes(address) + tcp_header;
    let pure_acks = segments.all.saturating_sub(segments.with_data);
    let options = if mptcp { segments.with_data * DSS_DATA + pure_acks * DSS_ACK } else { 0 };
    payload + Bytes(segments.all * header + options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_segments_of_ipv4_cost_their_headers() {
        let segments = Segments { all: 10, with_data: 10 };
        let wire = wire_bytes(Bytes(14_000), segments, "10.0.0.1".parse().unwrap(), 32, false);
        assert_eq!(wire, Bytes(14_000 + 10 * 66));
    }

    #[test]
    fn mptcp_adds_its_option() {
        let segments = Segments { all: 3, with_data: 2 };
        let wire = wire_bytes(Bytes(2_000), segments, "fd00::1".parse().unwrap(), 32, true);
        assert_eq!(wire, Bytes(2_000 + 3 * 86 + 2 * 24 + 8));
    }
}
