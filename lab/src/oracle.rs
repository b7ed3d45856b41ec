// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own account of a connection, asked from its socket: the truth that mpwatch is compared with.
//! Reads `MPTCP_FULL_INFO` (Linux 6.5), else the three older options, else `TCP_INFO`.
//! Decoding is by offset and tolerates shorter answers of older kernels.

mod decode;

use crate::error::{Error, Result};
use crate::sys;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A connection and its subflows at one instant (atomic under the connection's lock where
/// `MPTCP_FULL_INFO` exists).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The connection's own counters, or `None` for plain TCP.
    pub mptcp: Option<MptcpInfo>,
    /// The subflows that exist now; for plain TCP its single socket.
    pub subflows: Vec<SubflowInfo>,
}

/// `struct mptcp_info`. `None` means that the running kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpInfo {
    /// Extra subflows, beyond the first.
    pub extra_subflows: u8,
    /// `MPTCP_INFO_FLAG_*`: bit 0 fallback, bit 1 remote key received.
    pub flags: u32,
    /// The local token.
    pub token: u32,
    /// Next data sequence number to send.
    pub write_seq: u64,
    /// First unacknowledged data sequence number.
    pub snd_una: u64,
    /// Next data sequence number expected.
    pub rcv_nxt: u64,
    /// Times that data was sent again on another subflow.
    pub retransmits: u32,
    /// Bytes sent again at the connection level (Linux 6.5).
    pub bytes_retrans: Option<u64>,
    /// Bytes sent once each (Linux 6.5).
    pub bytes_sent: Option<u64>,
    /// Bytes received in order (Linux 6.5).
    pub bytes_received: Option<u64>,
    /// Bytes acknowledged by the peer (Linux 6.5).
    pub bytes_acked: Option<u64>,
    /// Subflows including the first (Linux 6.10).
    pub subflows_total: Option<u8>,
}

impl MptcpInfo {
    /// Whether the connection fell back to plain TCP.
    #[must_use]
    pub fn fallback(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// One subflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowInfo {
    /// The kernel's number of the subflow in its connection, or `None` before Linux 6.5.
    pub id: Option<u32>,
    /// Its own address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// Its TCP counters.
    pub tcp: TcpInfo,
}

/// The part of `struct tcp_info` that mpwatch shows. Times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// TCP state number (1 is established).
    pub state: u8,
    /// Congestion state number.
    pub ca_state: u8,
    /// Largest segment it sends, bytes.
    pub snd_mss: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Bytes queued and not yet sent.
    pub notsent_bytes: u32,
    /// Segments thought lost now.
    pub lost: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Its variation.
    pub rttvar_us: u32,
    /// Smallest round-trip time seen.
    pub min_rtt_us: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted, SYNs included.
    pub total_retrans: u32,
    /// Bytes acknowledged; counts the SYN of the active side and the FIN as one each.
    pub bytes_acked: u64,
    /// Bytes received; counts the FIN as one.
    pub bytes_received: u64,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Rate of delivery, bytes per second.
    pub delivery_rate: u64,
    /// Segments delivered.
    pub delivered: u32,
}

const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
const MPTCP_FULL_INFO: i32 = 4;
/// The kernel's path manager allows eight extra subflows.
const MOST_SUBFLOWS: usize = 16;
const TCP_SIZE: usize = 256;
const ADDRESSES_SIZE: usize = 256;
const SUBFLOW_SIZE: usize = 264;
const MPTCP_SIZE: usize = 128;
const FULL_HEADER: usize = 40;

impl Flow {
    /// Asks the kernel about an open socket, MPTCP or TCP.
    ///
    /// # Errors
    /// When the socket is neither, or not connected.
    pub fn read(socket: &impl AsFd) -> Result<Self> {
        if let Some(flow) = full(socket).or_else(|| parts(socket)) {
            return Ok(flow);
        }
        let mut bytes = [0; TCP_SIZE];
        let length = sys::socket_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)
            .map_err(Error::os("ask TCP_INFO of", "a socket"))?;
        let reference = socket2::SockRef::from(socket);
        let address =
            |of: std::io::Result<socket2::SockAddr>| of.ok().and_then(|address| address.as_socket());
        let (local, remote) = (address(reference.local_addr()), address(reference.peer_addr()));
        let (Some(local), Some(remote)) = (local, remote) else {
            return Err(Error::Invalid {
                what: "a socket without addresses has no flow".to_owned(),
                advice: "ask while it is connected",
            });
        };
        Ok(Self {
            mptcp: None,
            subflows: vec![SubflowInfo {
                id: None,
                local: canonical(local),
                remote: canonical(remote),
                tcp: decode::tcp(&bytes[..length]),
            }],
        })
    }

    /// Whether everything sent has been acknowledged, by the connection and by each subflow.
    #[must_use]
    pub fn quiescent(&self) -> bool {
        let acked = self.mptcp.as_ref().is_none_or(|info| info.fallback() || info.snd_una == info.write_seq);
        acked
            && self.subflows.iter().all(|subflow| subflow.tcp.unacked == 0 && subflow.tcp.notsent_bytes == 0)
    }

    /// Bytes sent on all subflows without retransmissions.
    #[must_use]
    pub fn unique_subflow_bytes(&self) -> u64 {
        self.subflows.iter().map(|subflow| subflow.tcp.bytes_sent - subflow.tcp.bytes_retrans).sum()
    }
}

/// An IPv4 address shown as itself even when the socket is of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// `MPTCP_FULL_INFO`: a header with the sizes we can take and two pointers, then `mptcp_info`.
fn full(socket: &impl AsFd) -> Option<Flow> {
    let mut header = [0_u8; FULL_HEADER + MPTCP_SIZE];
    let mut subflows = [0_u8; SUBFLOW_SIZE * MOST_SUBFLOWS];
    let mut tcps = [0_u8; TCP_SIZE * MOST_SUBFLOWS];
    decode::put(&mut header, 4, TCP_SIZE);
    decode::put(&mut header, 12, SUBFLOW_SIZE);
    decode::put(&mut header, 20, MOST_SUBFLOWS);
    let length = sys::socket_option_with_arrays(
        socket,
        SOL_MPTCP,
        MPTCP_FULL_INFO,
        &mut header,
        [(24, &mut subflows), (32, &mut tcps)],
    )
    .ok()?;
    // The kernel lays the elements as far apart as the smaller of its size and ours.
    let tcp_size = stride(&header, 4, TCP_SIZE);
    let subflow_size = stride(&header, 12, SUBFLOW_SIZE);
    let count = (decode::u32_at(&header, 16) as usize).min(MOST_SUBFLOWS);
    let subflows = subflows
        .chunks_exact(subflow_size)
        .zip(tcps.chunks_exact(tcp_size))
        .take(count)
        .filter_map(|(subflow, tcp)| decode::subflow(Some(decode::u32_at(subflow, 0)), &subflow[8..], tcp))
        .collect();
    Some(Flow { mptcp: Some(decode::mptcp(header.get(FULL_HEADER..length)?)), subflows })
}

/// The older three options: the arrays are in the same order, and not atomic.
fn parts(socket: &impl AsFd) -> Option<Flow> {
    let mut info = [0_u8; MPTCP_SIZE];
    let length = sys::socket_option(socket, SOL_MPTCP, MPTCP_INFO, &mut info).ok()?;
    let tcps = array::<TCP_SIZE>(socket, MPTCP_TCPINFO)?;
    let addresses = array::<ADDRESSES_SIZE>(socket, MPTCP_SUBFLOW_ADDRS)?;
    Some(Flow {
        mptcp: Some(decode::mptcp(&info[..length])),
        subflows: addresses
            .iter()
            .zip(&tcps)
            .filter_map(|(addresses, tcp)| decode::subflow(None, addresses, tcp))
            .collect(),
    })
}

/// Reads an array option: `mptcp_subflow_data` (four u32: own size, count, kernel's and our element size), then elements.
fn array<const SIZE: usize>(socket: &impl AsFd, name: i32) -> Option<Vec<[u8; SIZE]>> {
    const HEADER: usize = 16;
    let mut bytes = vec![0_u8; HEADER + SIZE * MOST_SUBFLOWS];
    decode::put(&mut bytes, 0, HEADER);
    decode::put(&mut bytes, 12, SIZE);
    sys::socket_option(socket, SOL_MPTCP, name, &mut bytes).ok()?;
    let count = (decode::u32_at(&bytes, 4) as usize).min(MOST_SUBFLOWS);
    let elements = bytes[HEADER..].chunks_exact(stride(&bytes, 12, SIZE)).take(count);
    let padded = |element: &[u8]| {
        let mut whole = [0; SIZE];
        whole[..element.len()].copy_from_slice(element);
        whole
    };
    Some(elements.map(padded).collect())
}

/// The distance between two elements of an answer: the kernel puts the smaller of its own size and ours at `offset`.
fn stride(answer: &[u8], offset: usize, ours: usize) -> usize {
    (decode::u32_at(answer, offset) as usize).clamp(1, ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Socket, Type};
    use std::io::{Read as _, Write as _};

    fn pair() -> (Socket, Socket) {
        let open = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
        let (listener, client) = (open(), open());
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&address.into()).unwrap();
        listener.listen(1).unwrap();
        client.connect(&listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_options_of_older_kernels_tell_the_same_as_full_info() {
        if !crate::may_run("the_options_of_older_kernels_tell_the_same_as_full_info") {
            return;
        }
        let namespace = crate::Namespace::new("oracle").unwrap();
        let (new, old) = namespace
            .enter(|| {
                let (client, server) = pair();
                (&client).write_all(&[7; 5000]).unwrap();
                (&server).read_exact(&mut [0; 5000]).unwrap();
                let patience = std::time::Duration::from_secs(5);
                crate::poll_until("quiet", patience, || {
                    Flow::read(&client).unwrap().quiescent().then_some(())
                })
                .unwrap();
                (full(&client).unwrap(), parts(&client).unwrap())
            })
            .unwrap();
        assert_eq!(new.mptcp, old.mptcp);
        assert_eq!(new.subflows.len(), 1);
        let essence = |flow: &Flow| {
            let one = &flow.subflows[0];
            (one.local, one.remote, one.tcp.bytes_acked, one.tcp.srtt_us)
        };
        assert_eq!(essence(&new), essence(&old));
        assert_eq!(new.subflows[0].tcp.bytes_sent, 5000);
    }
}
