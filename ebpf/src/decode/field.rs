// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the parts that several kinds of records share.

use std::net::{Ipv6Addr, SocketAddr};

use mpwatch_model::id::{SocketCookie, Token};
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::event::{MskBytes, MskView, Process};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Nanos};

use crate::abi;

/// A time; 0 means never.
pub(super) fn nanos(value: u64) -> Option<Nanos> {
    (value != 0).then_some(Nanos(value))
}

/// An address as it is on the wire (a v4-mapped IPv6 address becomes IPv4), and its MPTCP address id.
pub(super) fn address(raw: abi::mpw_address) -> (SocketAddr, u8) {
    let abi::mpw_address { ip, port, id, _reserved } = raw;
    (SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port), id)
}

pub(super) fn owner(raw: abi::mpw_owner) -> Option<Process> {
    let abi::mpw_owner { pid, _reserved, comm } = raw;
    (pid != 0).then(|| Process { pid, comm: Name::from_kernel(comm) })
}

pub(super) fn msk(raw: abi::mpw_msk) -> MskView {
    let abi::mpw_msk {
        cookie,
        bytes_sent,
        bytes_received,
        bytes_acked,
        bytes_retrans,
        unsent,
        unacked,
        window,
        announced,
        token,
        remote_token,
        flags,
        state,
        add_addr_signaled,
        add_addr_accepted,
        removed_count,
        removed_ids,
    } = raw;
    let flag = |bit: u32| flags & bit != 0;
    let bytes = MskBytes {
        sent: Bytes(bytes_sent),
        received: Bytes(bytes_received),
        acked: Bytes(bytes_acked),
        retransmitted: flag(abi::MPW_MSK_HAS_RETRANS).then_some(Bytes(bytes_retrans)),
    };
    let (announced_address, announced_id) = address(announced);
    MskView {
        cookie: SocketCookie(cookie),
        token: Token(token),
        remote_token: Token(remote_token),
        state: TcpState::from_kernel(state),
        server_side: flag(abi::MPW_MSK_SERVER_SIDE),
        fallback: flag(abi::MPW_MSK_FALLBACK),
        bytes: (!flag(abi::MPW_MSK_BYTES_UNKNOWN)).then_some(bytes),
        bytes_are_apart: flag(abi::MPW_MSK_BYTES_APART),
        unsent: Bytes(unsent),
        unacked: Bytes(unacked),
        window: Some(Bytes(window)),
        addresses_announced: add_addr_signaled,
        addresses_accepted: add_addr_accepted,
        announced: (announced.ip != [0; 16]).then_some((announced_id, announced_address)),
        removed_ids: removed_ids.into_iter().take(removed_count.into()).collect(),
    }
}
