// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP and MPTCP sockets of the calling thread's namespace, from sock_diag (include/uapi/linux/inet_diag.h and mptcp.h). Kernels before 6.13 report
//! the MPTCP attributes of subflows only with CAP_NET_ADMIN.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use mpwatch_ebpf::netlink::{attribute, find_attribute, request};
use mpwatch_model::id::Token;
use mpwatch_model::kernel::lifecycle::{CarriedBy, Role, TcpState};
use mpwatch_model::why::facts::{Connection, Listener, Subflow};
use nix::libc::NLM_F_DUMP;
use nix::sys::socket::SockProtocol::NetlinkSockDiag;

use crate::system::procfs::read_file;

const SOCK_DIAG_BY_FAMILY: i32 = 20;
const FAMILIES: [u8; 2] = [2, 10];
const IPPROTO_TCP: u8 = 6;
const IPPROTO_MPTCP: u32 = 262;
/// Size of `inet_diag_req_v2` and of `inet_diag_msg` in bytes. Attributes follow them.
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
const INET_DIAG_REQ_PROTOCOL: i32 = 3;
const INET_DIAG_INFO: i32 = 2;
const INET_DIAG_ULP_INFO: i32 = 19;
const INET_ULP_INFO_NAME: i32 = 1;
const INET_ULP_INFO_MPTCP: i32 = 3;
const SUBFLOW_ATTR_TOKEN_LOC: i32 = 2;
const SUBFLOW_ATTR_FLAGS: i32 = 8;
const SUBFLOW_ATTR_ID_LOC: i32 = 10;
/// MPTCP_SUBFLOW_FLAG_*: the SYN asked for MPTCP; backup set by the peer; backup set here.
const MCAP_LOC: u32 = 1 << 1;
const BKUP_REM: u32 = 1 << 4;
const BKUP_LOC: u32 = 1 << 5;
/// MPTCP_INFO_FLAG_*, and the offsets of the flags and of the token in `mptcp_info`.
const INFO_FALLBACK: u32 = 1;
const INFO_REMOTE_KEY: u32 = 1 << 1;
const INFO_FLAGS: usize = 8;
const INFO_TOKEN: usize = 12;
/// Offset of `tcpi_total_retrans` in `tcp_info`.
const TOTAL_RETRANS: usize = 100;
const CLOSE: u8 = 7;
const TIME_WAIT: u8 = 6;
const SYN_RECV: u8 = 3;
/// Half-open connections are not listed: their sockets do not tell whether the client asked for MPTCP.
const STATES: u32 = 0xfff & !(1 << TIME_WAIT) & !(1 << CLOSE) & !(1 << SYN_RECV);

/// A socket as sock_diag lists it.
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    state: TcpState,
    retransmits: u8,
    inode: u32,
    attributes: Vec<u8>,
}

impl Socket {
    fn parse(body: &[u8]) -> Option<Self> {
        let (message, attributes) = body.split_at_checked(MESSAGE)?;
        let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
        let address = |at: usize| {
            let bytes = message.get(at..)?.first_chunk::<16>()?;
            Some(if message[0] == FAMILIES[0] {
                IpAddr::from(*bytes.first_chunk::<4>()?)
            } else {
                IpAddr::from(*bytes).to_canonical()
            })
        };
        Some(Self {
            local: SocketAddr::new(address(8)?, port(4)?),
            remote: SocketAddr::new(address(24)?, port(6)?),
            state: TcpState::from_kernel(message[1]),
            retransmits: message[3],
            inode: u32::from_ne_bytes(*message.get(68..)?.first_chunk()?),
            attributes: attributes.to_vec(),
        })
    }

    /// The attributes of a subflow. `None`: plain TCP.
    fn of_mptcp(&self) -> Option<&[u8]> {
        find_attribute(find_attribute(&self.attributes, INET_DIAG_ULP_INFO)?, INET_ULP_INFO_MPTCP)
    }

    /// Whether an MPTCP socket owns the TCP socket: a listener has the protocol's name, but no attributes.
    fn has_mptcp(&self) -> bool {
        let name = find_attribute(&self.attributes, INET_DIAG_ULP_INFO)
            .and_then(|info| find_attribute(info, INET_ULP_INFO_NAME));
        name.is_some_and(|name| name.strip_suffix(&[0]).unwrap_or(name) == b"mptcp")
    }

    /// A field of 32 bits of `tcp_info` or `mptcp_info`. 0: the kernel does not report it.
    fn field(&self, at: usize) -> u32 {
        let info =
            find_attribute(&self.attributes, INET_DIAG_INFO).and_then(|info| info.get(at..)?.first_chunk());
        info.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn flags(&self) -> u32 {
        number(self.of_mptcp().unwrap_or_default(), SUBFLOW_ATTR_FLAGS)
    }

    fn subflow(&self) -> Subflow {
        let (attributes, flags) = (self.of_mptcp().unwrap_or_default(), self.flags());
        Subflow {
            local: self.local,
            remote: self.remote,
            state: self.state,
            local_id: find_attribute(attributes, SUBFLOW_ATTR_ID_LOC)
                .and_then(|id| id.first().copied())
                .unwrap_or(0),
            retransmits: self.retransmits,
            backup_here: flags & BKUP_LOC != 0,
            backup_there: flags & BKUP_REM != 0,
        }
    }
}

fn number(attributes: &[u8], kind: i32) -> u32 {
    let value = find_attribute(attributes, kind).and_then(|value| value.first_chunk());
    value.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Lists the sockets of a protocol, in both address families.
fn sockets(extension: u8, more: &[u8]) -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    for family in FAMILIES {
        let mut body = vec![family, IPPROTO_TCP, extension, 0];
        body.extend(STATES.to_ne_bytes());
        body.resize(REQUEST, 0);
        body.extend(more);
        let answers = request(NetlinkSockDiag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &body)?;
        found.extend(answers.iter().filter_map(|answer| Socket::parse(answer)));
    }
    Ok(found)
}

/// Listening sockets and connections. Fails with `PermissionDenied` if the kernel does not show to this user which sockets are subflows.
pub(super) fn read(programs: &Programs) -> io::Result<(Vec<Listener>, Vec<Connection>)> {
    let info = 1 << (INET_DIAG_INFO - 1);
    let protocol = attribute(INET_DIAG_REQ_PROTOCOL, &IPPROTO_MPTCP.to_ne_bytes());
    let listed = sockets(info, &protocol);
    let (listening, connected): (Vec<Socket>, Vec<Socket>) =
        sockets(info, &[])?.into_iter().partition(|socket| socket.state == TcpState::Listen);
    let mut mptcp = match listed {
        // The kernel has no MPTCP, or nothing uses it.
        Err(_) if !connected.iter().any(Socket::has_mptcp) => Vec::new(),
        Err(error) => {
            let advice = "load the kernel module mptcp_diag";
            return Err(io::Error::new(
                error.kind(),
                format!("cannot list MPTCP sockets: {error}; {advice}"),
            ));
        }
        Ok(listed) => listed,
    };
    mptcp.retain(|socket| socket.state != TcpState::Listen);
    if !mptcp.is_empty() && connected.iter().chain(&listening).all(|socket| !socket.has_mptcp()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let listener = |socket: &Socket| Listener {
        address: socket.local,
        mptcp: socket.has_mptcp(),
        program: programs.0.get(&socket.inode).cloned(),
    };
    let listeners: Vec<Listener> = listening.iter().map(listener).collect();
    let connections = connections(&mptcp, &connected, &listeners, programs);
    Ok((listeners, connections))
}

/// MPTCP connections with their subflows, then the TCP connections that are not subflows.
fn connections(
    mptcp: &[Socket],
    tcp: &[Socket],
    listeners: &[Listener],
    programs: &Programs,
) -> Vec<Connection> {
    let connection = |socket: &Socket, carried_by: CarriedBy, subflows: &[&Socket]| {
        let listens = listeners.iter().any(|listener| listener.address.port() == socket.local.port());
        let first = subflows.iter().find(|subflow| subflow.local == socket.local).copied();
        let mut subflows: Vec<Subflow> = subflows.iter().map(|subflow| subflow.subflow()).collect();
        subflows.sort_by_key(|subflow| subflow.local_id);
        Connection {
            token: None,
            local: socket.local,
            remote: socket.remote,
            carried_by,
            role: if listens { Role::Server } else { Role::Client },
            asked: first.is_some_and(|first| first.flags() & MCAP_LOC != 0),
            peer_has_mptcp: socket.field(INFO_FLAGS) & INFO_REMOTE_KEY != 0,
            retransmissions: first.map_or(0, |first| first.field(TOTAL_RETRANS)),
            subflows,
            program: programs.0.get(&socket.inode).cloned(),
            failed_join: None,
        }
    };
    let mut by_token: HashMap<u32, Vec<&Socket>> = HashMap::new();
    let (subflows, plain): (Vec<&Socket>, Vec<&Socket>) = tcp.iter().partition(|socket| socket.has_mptcp());
    for socket in subflows {
        let token = number(socket.of_mptcp().unwrap_or_default(), SUBFLOW_ATTR_TOKEN_LOC);
        by_token.entry(token).or_default().push(socket);
    }
    let of_mptcp = |socket: &Socket| {
        let token = socket.field(INFO_TOKEN);
        let fell_back = socket.field(INFO_FLAGS) & INFO_FALLBACK != 0;
        let carried_by = if fell_back { CarriedBy::Fallback } else { CarriedBy::Mptcp };
        let subflows = by_token.get(&token).map(Vec::as_slice).unwrap_or_default();
        Connection { token: Some(Token(token)), ..connection(socket, carried_by, subflows) }
    };
    let mptcp = mptcp.iter().map(of_mptcp);
    mptcp.chain(plain.into_iter().map(|socket| connection(socket, CarriedBy::Tcp, &[socket]))).collect()
}

/// Names of processes by the inodes of their sockets, as far as this process may read them.
pub(super) struct Programs(HashMap<u32, String>);

impl Programs {
    /// Searches the open files of all processes.
    pub(super) fn find() -> Self {
        let mut found = HashMap::new();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
            for file in files.flatten() {
                let Ok(link) = fs::read_link(file.path()) else { continue };
                let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
                let Some(inode) = inode.and_then(|inode| inode.parse().ok()) else { continue };
                let name = || read_file(process.path().join("comm")).unwrap_or_default();
                found.entry(inode).or_insert_with(name);
            }
        }
        Self(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_tcp_connection_has_its_role_and_program() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (listeners, connections) = read(&Programs::find()).unwrap();
        let listening =
            listeners.iter().find(|found| found.address == listener.local_addr().unwrap()).unwrap();
        assert!(!listening.mptcp);
        for (socket, role) in [(&client, Role::Client), (&server, Role::Server)] {
            let is_this = |found: &&Connection| {
                found.local == socket.local_addr().unwrap() && found.remote == socket.peer_addr().unwrap()
            };
            let found = connections.iter().find(is_this).unwrap();
            assert_eq!((found.role, found.carried_by, found.token), (role, CarriedBy::Tcp, None));
            assert!(found.program.is_some(), "{found:?}");
        }
    }
}
