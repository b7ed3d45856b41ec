// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements that a connection lacks, so that "no problem found" does not hide "not measured".

use crate::flow::connection::Connection;
use crate::kernel::lifecycle::CarriedBy;

/// Problems that cannot be found in a connection, one phrase each. Empty: everything is measured.
pub fn unmeasured(connection: &Connection) -> Vec<&'static str> {
    let has_several = connection.carried_by() == CarriedBy::Mptcp && connection.subflows.len() > 1;
    let detects_nothing = has_several && connection.bottlenecks.is_none();
    let cases = [
        (detects_nothing, "shared bottlenecks, because detection is disabled or this kernel lacks its hook"),
        (!connection.seen_open, "failures and outages before mpwatch started"),
        (connection.unobserved_gap().is_some(), "failures and outages while mpwatch was not running"),
    ];
    cases.into_iter().filter(|(applies, _)| *applies).map(|(_, what)| what).collect()
}
