// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `control`, the only command that changes connections.

use std::time::Duration;

use clap::{Args, Subcommand};
use mpwatch_model::flow::elimination::EliminationAction;

use super::options::{FilterOptions, StoreOptions, TraceOptions, filter_help, word_parser};
use crate::quantity::{parse_count, parse_interval, parse_probability, parse_step};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Register the congestion control `mptcpd` until Ctrl-C; sockets must select it
    ///
    /// mptcpd couples the subflows of an MPTCP connection and prefers paths with a short RTT ([MPTCP-D], docs/control.md). Only sockets that
    /// select mptcpd use it: with TCP_CONGESTION, with the sysctl net.ipv4.tcp_congestion_control of their namespace, or by a route (congctl).
    /// When this command ends, mptcpd is unregistered; sockets that use mptcpd keep it until they close.
    Congestion {
        /// Print only errors
        #[arg(long, short)]
        quiet: bool,
    },
    /// Remove extra subflows, which share a bottleneck with a better subflow, until Ctrl-C; without --yes, only print them
    #[command(after_long_help = filter_help())]
    Eliminate(Box<EliminateOptions>),
}

#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "switches of the command line")]
pub(crate) struct EliminateOptions {
    /// Remove subflows
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print what would be removed and change nothing. This is the default without --yes
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Set how an extra subflow is removed
    #[arg(long, value_name = "ACTION", value_parser = word_parser!(EliminationAction, description), default_value = EliminationAction::Close.as_str())]
    pub(crate) action: EliminationAction,
    /// Act on verdicts that have been stable for at least this time, 100ms to 600s
    #[arg(long, value_name = "DURATION", value_parser = parse_step, default_value = "2500ms")]
    pub(crate) stable: Duration,
    /// Act on verdicts with at least this probability, 0.5 to 1
    #[arg(long, value_name = "PROBABILITY", value_parser = parse_probability, default_value_t = 0.99)]
    pub(crate) probability: f64,
    /// Remove at most this many subflows per minute from a connection
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>, default_value_t = 10)]
    pub(crate) max_per_minute: u32,
    /// Treat a rate cap that subflows share, such as a policer, as a bottleneck
    #[arg(long)]
    pub(crate) shared_caps: bool,
    /// Set the time between two decisions, 100ms to 60s [default: 250ms]
    #[arg(long, short, value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// Stop after this time, up to 600s
    #[arg(long, value_name = "DURATION", value_parser = parse_step)]
    pub(crate) duration: Option<Duration>,
    /// Print one JSON object per event
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}
