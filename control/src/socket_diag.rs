// SPDX-License-Identifier: MIT OR Apache-2.0
//! Aborts one TCP socket of another process, or reads its progress (`SOCK_DESTROY` and dumps of sock_diag, include/uapi/linux/inet_diag.h). The
//! socket is found by its cookie, so no other socket can be aborted, even if its ports were reused.

use std::io;
use std::net::SocketAddr;

use mpwatch_model::id::SocketCookie;
use nix::errno::Errno;
use nix::libc::{NLM_F_ACK, NLM_F_DUMP};
use nix::sys::socket::SockProtocol::NetlinkSockDiag;

use mpwatch_ebpf::netlink::{self, find_attribute};

const SOCK_DIAG_BY_FAMILY: i32 = 20;
const SOCK_DESTROY: i32 = 21;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
/// The attribute with `struct tcp_info`.
const INET_DIAG_INFO: i32 = 2;
/// Size of `inet_diag_msg` in bytes. Attributes follow it.
const MESSAGE: usize = 72;
/// Size of `inet_diag_sockid` in bytes: two ports, two addresses, interface, cookie.
const ID: usize = 48;
const COOKIE: std::ops::Range<usize> = 40..48;
/// Every state but LISTEN (10) and TIME_WAIT (6).
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6);

/// Aborts the socket with this cookie.
///
/// # Errors
/// `NotFound`: the socket is gone. `PermissionDenied`: CAP_NET_ADMIN is missing. `Unsupported`: CONFIG_INET_DIAG_DESTROY is missing.
pub(super) fn abort(cookie: SocketCookie, local: SocketAddr, remote: SocketAddr) -> io::Result<()> {
    let (family, id, _) = find(cookie, local, remote)?;
    netlink::request(NetlinkSockDiag, SOCK_DESTROY, NLM_F_ACK, &request(family, &id)).map(drop)
}

/// State of a socket's transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    is_established: bool,
    /// Backoff of the retransmission timer (`tcpi_backoff`). The kernel resets it at the next valid RTT sample (RFC 6298), not at every ACK.
    backoff: u8,
    unacked: u32,
    bytes_acked: u64,
}

impl Progress {
    /// Whether the socket makes progress: it is established, its retransmission timer is not backed off, and either all data is
    /// acknowledged or data was acknowledged since `before`.
    pub(super) fn is_made_since(&self, before: &Self) -> bool {
        self.is_established
            && self.backoff == 0
            && (self.unacked == 0 || self.bytes_acked > before.bytes_acked)
    }
}

/// Reads the socket with this cookie.
pub(super) fn progress(cookie: SocketCookie, local: SocketAddr, remote: SocketAddr) -> io::Result<Progress> {
    let (.., attributes) = find(cookie, local, remote)?;
    let info = find_attribute(&attributes, INET_DIAG_INFO).unwrap_or_default();
    // The numbers are offsets in `struct tcp_info`, in bytes.
    let read = || {
        Some(Progress {
            is_established: *info.first()? == TCP_ESTABLISHED,
            backoff: *info.get(4)?,
            unacked: u32::from_ne_bytes(*info.get(24..)?.first_chunk()?),
            bytes_acked: u64::from_ne_bytes(*info.get(120..)?.first_chunk()?),
        })
    };
    read().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Finds the socket with this cookie. Returns its address family, its `inet_diag_sockid` (with the interface that it is bound to) and its
/// attributes.
fn find(cookie: SocketCookie, local: SocketAddr, remote: SocketAddr) -> io::Result<(u8, [u8; ID], Vec<u8>)> {
    // A dual-stack AF_INET6 socket may have IPv4-mapped addresses.
    let families: &[u8] = if local.is_ipv4() { &[AF_INET, AF_INET6] } else { &[AF_INET6] };
    for family in families {
        let asked = request(*family, &ports(local, remote));
        for found in netlink::request(NetlinkSockDiag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &asked)? {
            let id = found.get(4..).and_then(<[u8]>::first_chunk);
            if let Some(id) = id.filter(|id| id[COOKIE] == cookie_bytes(cookie)) {
                return Ok((*family, *id, found.get(MESSAGE..).unwrap_or_default().to_vec()));
            }
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Whether the kernel has sock_diag and can abort sockets. Asks the kernel to abort a socket that cannot exist: the error code shows whether
/// the kernel lacks the operation or did not find the socket.
pub(super) fn can_abort() -> bool {
    let answer = netlink::request(NetlinkSockDiag, SOCK_DESTROY, NLM_F_ACK, &request(AF_INET, &[0; ID]));
    let code = answer.err().and_then(|error| error.raw_os_error()).map(Errno::from_raw);
    !matches!(code, Some(Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT))
}

/// `inet_diag_req_v2`.
fn request(family: u8, id: &[u8; ID]) -> Vec<u8> {
    let mut body = vec![family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0];
    body.extend(STATES.to_ne_bytes());
    body.extend(id);
    body
}

/// An `inet_diag_sockid` that limits a dump to sockets with these ports.
fn ports(local: SocketAddr, remote: SocketAddr) -> [u8; ID] {
    let mut id = [0; ID];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    id
}

/// A cookie as the kernel writes it: two halves, the lower half first (`sock_diag_save_cookie`).
fn cookie_bytes(cookie: SocketCookie) -> [u8; 8] {
    if cfg!(target_endian = "big") { cookie.0.rotate_left(32) } else { cookie.0 }.to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_selects_by_ports_in_network_order() {
        let id = ports("10.0.0.1:258".parse().unwrap(), "10.0.0.2:5201".parse().unwrap());
        let body = request(AF_INET, &id);
        assert_eq!(body.len(), 56);
        assert_eq!(body[8..12], [1, 2, 0x14, 0x51]);
        assert_eq!(u32::from_ne_bytes(body[4..8].try_into().unwrap()) & (1 << 10), 0, "no listeners");
    }

    #[test]
    fn a_cookie_is_stored_in_halves() {
        let bytes = cookie_bytes(SocketCookie(0x1_0000_0002));
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()), 2);
        assert_eq!(u32::from_ne_bytes(bytes[4..].try_into().unwrap()), 1);
    }

    #[test]
    fn progress_needs_an_acknowledgement_of_waiting_data() {
        let idle = Progress { is_established: true, backoff: 0, unacked: 0, bytes_acked: 5 };
        assert!(idle.is_made_since(&idle));
        let waiting = Progress { unacked: 1, ..idle };
        assert!(!waiting.is_made_since(&waiting), "nothing was acknowledged");
        assert!(Progress { bytes_acked: 6, ..waiting }.is_made_since(&waiting));
        assert!(!Progress { bytes_acked: 6, backoff: 1, ..waiting }.is_made_since(&waiting), "a timeout");
        assert!(!Progress { is_established: false, ..idle }.is_made_since(&idle));
    }

    #[test]
    fn a_socket_with_another_cookie_is_not_aborted() {
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        // No socket has this cookie, so nothing is aborted, with or without CAP_NET_ADMIN.
        let error = abort(SocketCookie(u64::MAX), ends.0, ends.1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        assert_eq!(client.take_error().unwrap().map(|error| error.kind()), None);
    }
}
