// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the record of an MPTCP socket.

use mpwatch_model::id::NetnsCookie;
use mpwatch_model::kernel::cpu::CpuTimes;
use mpwatch_model::kernel::event::ConnectionRecord;
use mpwatch_model::unit::Nanos;

use super::field::{address, msk, nanos, owner};
use crate::abi;

pub(super) fn connection(raw: &abi::mpw_connection) -> ConnectionRecord {
    let abi::mpw_connection {
        kind: _,
        netns_inode,
        at_ns,
        netns_cookie,
        cgroup_id,
        opened_ns,
        first_seen_ns,
        closed_ns,
        cpu_ns,
        msk: raw_msk,
        owner: raw_owner,
        local: raw_local,
        remote: raw_remote,
    } = *raw;
    let ((local, _), (remote, _)) = (address(raw_local), address(raw_remote));
    let flag = |bit: u32| raw_msk.flags & bit != 0;
    ConnectionRecord {
        at: Nanos(at_ns),
        netns: NetnsCookie(netns_cookie),
        netns_inode,
        cgroup: cgroup_id,
        opened: nanos(opened_ns),
        first_seen: Nanos(first_seen_ns),
        closed: nanos(closed_ns),
        msk: msk(raw_msk),
        cpu: flag(abi::MPW_MSK_HAS_CPU).then(|| CpuTimes::from_classes(cpu_ns, true)),
        owner: owner(raw_owner),
        last: flag(abi::MPW_MSK_FINAL),
        addresses: (local.port() != 0 && remote.port() != 0).then_some((local, remote)),
    }
}
