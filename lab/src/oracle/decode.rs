// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes structures of `linux/mptcp.h` and `linux/tcp.h`. A field that the kernel did not write is decoded as 0 or `None`.

use super::info::{MptcpInfo, SubflowInfo, TcpInfo};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn maybe_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    array_at(bytes, offset).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    maybe_u64(bytes, offset).unwrap_or(0)
}

fn u8_at(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

/// Writes `value` as a native-endian u32 at `offset`.
pub(super) fn put(bytes: &mut [u8], offset: usize, value: usize) {
    if let Some(field) = bytes.get_mut(offset..offset + 4) {
        field.copy_from_slice(&(value as u32).to_ne_bytes());
    }
}

pub(super) fn mptcp(bytes: &[u8]) -> MptcpInfo {
    MptcpInfo {
        extra_subflows: u8_at(bytes, 0),
        flags: u32_at(bytes, 8),
        token: u32_at(bytes, 12),
        write_seq: u64_at(bytes, 16),
        snd_una: u64_at(bytes, 24),
        rcv_nxt: u64_at(bytes, 32),
        retransmits: u32_at(bytes, 44),
        bytes_retrans: maybe_u64(bytes, 48),
        bytes_sent: maybe_u64(bytes, 56),
        bytes_received: maybe_u64(bytes, 64),
        bytes_acked: maybe_u64(bytes, 72),
        subflows_total: bytes.get(80).copied(),
    }
}

pub(super) fn tcp(bytes: &[u8]) -> TcpInfo {
    TcpInfo {
        state: u8_at(bytes, 0),
        ca_state: u8_at(bytes, 1),
        snd_mss: u32_at(bytes, 16),
        unacked: u32_at(bytes, 24),
        notsent_bytes: u32_at(bytes, 144),
        lost: u32_at(bytes, 32),
        srtt_us: u32_at(bytes, 68),
        rttvar_us: u32_at(bytes, 72),
        snd_cwnd: u32_at(bytes, 80),
        total_retrans: u32_at(bytes, 100),
        bytes_acked: u64_at(bytes, 120),
        bytes_received: u64_at(bytes, 128),
        segs_out: u32_at(bytes, 136),
        segs_in: u32_at(bytes, 140),
        min_rtt_us: u32_at(bytes, 148),
        delivery_rate: u64_at(bytes, 160),
        busy_us: u64_at(bytes, 168),
        rwnd_limited_us: u64_at(bytes, 176),
        sndbuf_limited_us: u64_at(bytes, 184),
        delivered: u32_at(bytes, 192),
        bytes_sent: u64_at(bytes, 200),
        bytes_retrans: u64_at(bytes, 208),
    }
}

/// Decodes `struct mptcp_subflow_addrs`: two `sockaddr_storage`, local and remote. `None`: unknown address family.
pub(super) fn subflow(id: Option<u32>, addresses: &[u8], tcp_bytes: &[u8]) -> Option<SubflowInfo> {
    Some(SubflowInfo {
        id,
        local: socket_address(addresses.get(..128)?)?,
        remote: socket_address(addresses.get(128..)?)?,
        tcp: tcp(tcp_bytes),
    })
}

/// Converts an IPv4-mapped address of an IPv6 socket to an IPv4 address.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(array_at(bytes, 2)?);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes(array_at(bytes, 0)?)) {
        libc::AF_INET => Ipv4Addr::from(array_at::<4>(bytes, 4)?).into(),
        libc::AF_INET6 => Ipv6Addr::from(array_at::<16>(bytes, 8)?).into(),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_an_older_kernel_does_not_write_are_unknown() {
        let mut bytes = [0_u8; 48];
        bytes[12..16].copy_from_slice(&0xdead_beef_u32.to_ne_bytes());
        let info = mptcp(&bytes);
        assert_eq!(info.token, 0xdead_beef);
        assert_eq!(info.bytes_sent, None);
        assert_eq!(info.subflows_total, None);
    }

    #[test]
    fn addresses_of_both_families_are_decoded() {
        let mut pair = [0_u8; 256];
        pair[..2].copy_from_slice(&2_u16.to_ne_bytes());
        pair[2..4].copy_from_slice(&80_u16.to_be_bytes());
        pair[4..8].copy_from_slice(&[10, 0, 0, 1]);
        pair[128..130].copy_from_slice(&10_u16.to_ne_bytes());
        pair[151] = 1;
        let subflow = subflow(Some(1), &pair, &[]).unwrap();
        assert_eq!(subflow.local, "10.0.0.1:80".parse().unwrap());
        assert_eq!(subflow.remote, "[::1]:0".parse().unwrap());
    }
}
