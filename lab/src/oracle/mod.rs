// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the kernel's information about a connection from its socket, to compare it with the values of mpwatch.
//! Uses `MPTCP_FULL_INFO` (Linux 6.5), else the three older MPTCP options, else `TCP_INFO`.
//! Decoding is by offset and accepts the shorter structures of older kernels.

mod decode;
mod info;

pub use info::{MptcpInfo, SocketInfo, SubflowInfo, TcpInfo};

use crate::error::{Error, Result};
use crate::sys;
use std::os::fd::AsFd;

const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
const MPTCP_FULL_INFO: i32 = 4;
/// Maximum number of subflows to read, above the limit of the kernel's path manager (the initial subflow and eight more).
const MAX_SUBFLOWS: usize = 16;
const TCP_SIZE: usize = 256;
const ADDRESSES_SIZE: usize = 256;
const SUBFLOW_SIZE: usize = 264;
const MPTCP_SIZE: usize = 128;
const FULL_HEADER: usize = 40;
/// TCP state of an initial subflow that was reset. Such a subflow stays in the kernel's list.
const TCP_CLOSE: u8 = 7;

impl SocketInfo {
    /// Reads the information about an open socket, MPTCP or TCP.
    ///
    /// # Errors
    /// If the socket is neither MPTCP nor TCP, or not connected.
    pub fn read(socket: &impl AsFd) -> Result<Self> {
        if let Some(info) = full_info(socket).or_else(|| older_options(socket)) {
            return Ok(info);
        }
        let mut bytes = [0; TCP_SIZE];
        let length = sys::socket_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
            .map_err(Error::os("read TCP_INFO of", "a socket"))?;
        let reference = socket2::SockRef::from(socket);
        let address =
            |result: std::io::Result<socket2::SockAddr>| result.ok().and_then(|address| address.as_socket());
        let (local, remote) = (address(reference.local_addr()), address(reference.peer_addr()));
        let (Some(local), Some(remote)) = (local, remote) else {
            return Err(Error::Invalid {
                what: "the socket has no addresses".to_owned(),
                advice: "read the information while the socket is connected",
            });
        };
        Ok(Self {
            mptcp: None,
            subflows: vec![SubflowInfo {
                id: None,
                local: decode::canonical(local),
                remote: decode::canonical(remote),
                tcp: decode::tcp(&bytes[..length]),
            }],
        })
    }

    /// Whether all sent data is acknowledged, at the level of the connection and on each open subflow.
    #[must_use]
    pub fn all_acknowledged(&self) -> bool {
        let by_connection =
            self.mptcp.as_ref().is_none_or(|info| info.fallback() || info.snd_una == info.write_seq);
        let is_done = |tcp: &TcpInfo| tcp.state == TCP_CLOSE || (tcp.unacked == 0 && tcp.notsent_bytes == 0);
        by_connection && self.subflows.iter().all(|subflow| is_done(&subflow.tcp))
    }

    /// Bytes sent on all subflows, without retransmissions.
    #[must_use]
    pub fn unique_subflow_bytes(&self) -> u64 {
        self.subflows.iter().map(|subflow| subflow.tcp.bytes_sent - subflow.tcp.bytes_retrans).sum()
    }
}

/// Reads `MPTCP_FULL_INFO`: a header with element sizes and two pointers to arrays, then `mptcp_info`. `None`: not supported.
fn full_info(socket: &impl AsFd) -> Option<SocketInfo> {
    let mut header = [0_u8; FULL_HEADER + MPTCP_SIZE];
    let mut subflows = [0_u8; SUBFLOW_SIZE * MAX_SUBFLOWS];
    let mut tcps = [0_u8; TCP_SIZE * MAX_SUBFLOWS];
    decode::put(&mut header, 4, TCP_SIZE);
    decode::put(&mut header, 12, SUBFLOW_SIZE);
    decode::put(&mut header, 20, MAX_SUBFLOWS);
    let length = sys::socket_option_with_arrays(
        socket,
        SOL_MPTCP,
        MPTCP_FULL_INFO,
        &mut header,
        [(24, &mut subflows), (32, &mut tcps)],
    )
    .ok()?;
    // The distance between two elements is the smaller of the kernel's element size and the requested size.
    let tcp_size = stride(&header, 4, TCP_SIZE);
    let subflow_size = stride(&header, 12, SUBFLOW_SIZE);
    let count = (decode::u32_at(&header, 16) as usize).min(MAX_SUBFLOWS);
    let subflows = subflows
        .chunks_exact(subflow_size)
        .zip(tcps.chunks_exact(tcp_size))
        .take(count)
        .filter_map(|(subflow, tcp)| decode::subflow(Some(decode::u32_at(subflow, 0)), &subflow[8..], tcp))
        .collect();
    Some(SocketInfo { mptcp: Some(decode::mptcp(header.get(FULL_HEADER..length)?)), subflows })
}

/// Reads the three older options. Their arrays have the same order, but are not read atomically. `None`: not supported.
fn older_options(socket: &impl AsFd) -> Option<SocketInfo> {
    let mut info = [0_u8; MPTCP_SIZE];
    let length = sys::socket_option(socket, SOL_MPTCP, MPTCP_INFO, &mut info).ok()?;
    let tcps = array::<TCP_SIZE>(socket, MPTCP_TCPINFO)?;
    let addresses = array::<ADDRESSES_SIZE>(socket, MPTCP_SUBFLOW_ADDRS)?;
    Some(SocketInfo {
        mptcp: Some(decode::mptcp(&info[..length])),
        subflows: addresses
            .iter()
            .zip(&tcps)
            .filter_map(|(addresses, tcp)| decode::subflow(None, addresses, tcp))
            .collect(),
    })
}

/// Reads an array option: `mptcp_subflow_data` (four u32: its size, the count, the kernel's element size, the requested element size), then
/// the elements.
fn array<const SIZE: usize>(socket: &impl AsFd, name: i32) -> Option<Vec<[u8; SIZE]>> {
    const HEADER: usize = 16;
    let mut bytes = vec![0_u8; HEADER + SIZE * MAX_SUBFLOWS];
    decode::put(&mut bytes, 0, HEADER);
    decode::put(&mut bytes, 12, SIZE);
    sys::socket_option(socket, SOL_MPTCP, name, &mut bytes).ok()?;
    let count = (decode::u32_at(&bytes, 4) as usize).min(MAX_SUBFLOWS);
    let elements = bytes[HEADER..].chunks_exact(stride(&bytes, 12, SIZE)).take(count);
    let padded = |element: &[u8]| {
        let mut full = [0; SIZE];
        full[..element.len()].copy_from_slice(element);
        full
    };
    Some(elements.map(padded).collect())
}

/// The distance between two elements, which the kernel writes at `offset`: the smaller of its own element size and `ours`.
fn stride(bytes: &[u8], offset: usize, ours: usize) -> usize {
    (decode::u32_at(bytes, offset) as usize).clamp(1, ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Socket, Type};
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    fn connected_pair() -> (Socket, Socket) {
        let open = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
        let (listener, client) = (open(), open());
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(1).unwrap();
        client.connect(&listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_reset_subflow_is_not_waited_for() {
        let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let subflow = |state, unacked, notsent_bytes| SubflowInfo {
            id: None,
            local: address,
            remote: address,
            tcp: TcpInfo { state, unacked, notsent_bytes, ..TcpInfo::default() },
        };
        let info = |first, second| SocketInfo { mptcp: None, subflows: vec![first, second] };
        assert!(info(subflow(7, 0, 9_000), subflow(1, 0, 0)).all_acknowledged());
        assert!(!info(subflow(7, 0, 0), subflow(1, 1, 0)).all_acknowledged());
        assert!(!info(subflow(1, 0, 1), subflow(1, 0, 0)).all_acknowledged());
    }

    #[test]
    fn the_older_options_report_the_same_as_mptcp_full_info() {
        if !mpwatch_testkit::may_run_as_root() {
            return;
        }
        let namespace = crate::netns::Namespace::new("oracle").unwrap();
        let (new, old) = namespace
            .enter(|| {
                let (client, server) = connected_pair();
                (&client).write_all(&[7; 5000]).unwrap();
                (&server).read_exact(&mut [0; 5000]).unwrap();
                let timeout = std::time::Duration::from_secs(5);
                crate::poll::poll_until("all acknowledgements", timeout, || {
                    SocketInfo::read(&client).unwrap().all_acknowledged().then_some(())
                })
                .unwrap();
                (full_info(&client).unwrap(), older_options(&client).unwrap())
            })
            .unwrap();
        assert_eq!(new.mptcp, old.mptcp);
        assert_eq!(new.subflows.len(), 1);
        let compared = |info: &SocketInfo| {
            let subflow = &info.subflows[0];
            (subflow.local, subflow.remote, subflow.tcp.bytes_acked, subflow.tcp.srtt_us)
        };
        assert_eq!(compared(&new), compared(&old));
        assert_eq!(new.subflows[0].tcp.bytes_sent, 5000);
    }
}
