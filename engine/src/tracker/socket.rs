// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MPTCP socket of a connection, as opposed to its subflows.

use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::event::{MIN_WINDOW, MskBytes, MskView};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::seen::Seen;

/// Whether a record of the socket has arrived (`is_known`), and whether the kernel still has the socket.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Socket {
    pub(super) is_known: bool,
    /// Whether its final record has arrived.
    pub(super) is_final: bool,
    pub(super) seen: Seen,
}

impl Socket {
    /// Ends a tick. Returns whether the socket has just vanished without a final record.
    pub(super) fn on_tick(&mut self, now: Nanos) -> bool {
        let vanished = self.seen.on_tick(now);
        vanished && self.is_known && !self.is_final
    }

    /// Whether the socket has vanished, so that no more records will arrive.
    pub(super) fn is_gone(&self) -> bool {
        self.seen.has_vanished()
    }
}

/// The newer view of a socket, completed by fields that only the older view has. Byte counters never decrease in the result, although a
/// socket that is being destroyed reports zeros. The state does not change after the final record.
pub(super) fn merge(old: Option<&MskView>, new: &MskView, is_final: bool) -> MskView {
    let Some(old) = old else { return new.clone() };
    // The record of a subflow that has left its connection contains only the ids of the connection.
    let mut merged = if new.state == TcpState::Unknown { old.clone() } else { new.clone() };
    merged.cookie = if new.cookie.0 == 0 { old.cookie } else { new.cookie };
    merged.token = if new.token.0 == 0 { old.token } else { new.token };
    merged.remote_token = if new.remote_token.0 == 0 { old.remote_token } else { new.remote_token };
    merged.server_side = new.server_side || old.server_side;
    merged.fallback = new.fallback || old.fallback;
    merged.bytes = larger(old.bytes, new.bytes);
    merged.bytes_are_apart = new.bytes_are_apart || old.bytes_are_apart;
    if is_final {
        merged.state = old.state;
    }
    merged
}

fn larger(old: Option<MskBytes>, new: Option<MskBytes>) -> Option<MskBytes> {
    let (Some(old), Some(new)) = (old, new) else { return new.or(old) };
    Some(MskBytes {
        sent: old.sent.max(new.sent),
        received: old.received.max(new.received),
        acked: old.acked.max(new.acked),
        retransmitted: old.retransmitted.max(new.retransmitted),
    })
}

/// The part of the id that distinguishes the connection from others with the same token: the cookie of the MPTCP socket. A subflow's cookie
/// is used if, at the first record, the kernel had cleared the token and had never assigned a cookie to the MPTCP socket.
pub(super) fn birth(msk: &MskView, subflow: Option<SubflowId>) -> SocketCookie {
    let is_nameless = msk.token.0 == 0 && msk.cookie.0 == 0;
    subflow.filter(|_| is_nameless).map_or(msk.cookie, birth_of_tcp)
}

/// A plain TCP socket may be connected again after a disconnect (AF_UNSPEC); each of these connections has a generation of its own. Cookies
/// are far below 2^48, because the kernel counts up from zero.
pub(super) fn birth_of_tcp(id: SubflowId) -> SocketCookie {
    SocketCookie(id.cookie.0 | u64::from(id.generation) << 48)
}

/// Whether payload waits because the peer's receive window has no room for a segment besides the payload in flight.
pub(super) fn waits_for_window(msk: &MskView) -> bool {
    let room = msk.window.map(|window| window.since(unacked_payload(msk)));
    !msk.fallback && msk.unsent > Bytes(0) && room.is_some_and(|room| room < MIN_WINDOW)
}

/// Payload without a DATA_ACK. The DATA_FIN of a closing connection takes up one sequence number.
pub(super) fn unacked_payload(msk: &MskView) -> Bytes {
    let can_send = matches!(msk.state, TcpState::Established | TcpState::CloseWait);
    if can_send || msk.unacked != Bytes(1) { msk.unacked } else { Bytes(0) }
}
