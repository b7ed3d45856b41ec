// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `control`, the only command that changes how connections behave.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Register the congestion control `mptcpd` until Ctrl-C; sockets must select it
    ///
    /// mptcpd couples the subflows of an MPTCP connection and prefers paths with a short RTT ([MPTCP-D], docs/control.md). Only sockets that select it
    /// use it: with TCP_CONGESTION, with the sysctl net.ipv4.tcp_congestion_control of their namespace, or by a route (congctl).
    /// When this command ends, it is unregistered; sockets that use it keep it until they close.
    Congestion(CongestionOptions),
}

/// Options of `control congestion`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CongestionOptions {
    /// Print only errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
