// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `mpwatch demo`.

use clap::{Args, ValueEnum};

use super::options::{FilterOptions, LabelOptions, StoreOptions, TraceOptions};

#[derive(Args, Clone, Debug)]
pub(crate) struct DemoOptions {
    /// Scenario to run
    #[arg(value_enum, default_value_t = Scenario::TwoPaths)]
    pub(crate) scenario: Scenario,
    /// Print only the report at the end, without the live view
    #[arg(long)]
    pub(crate) headless: bool,
    /// Run the traffic for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreOptions,
    /// Simulate energy counters that follow the CPU time of the demo; all outputs mark the figures as simulated
    #[arg(long, conflicts_with = "sysfs_root")]
    pub(crate) simulate_rapl: bool,
    #[command(flatten)]
    pub(crate) label: LabelOptions,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

/// Traffic of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// One connection over two paths of different rate and delay
    TwoPaths,
    /// Three subflows that share one bottleneck
    Shared,
    /// A path fails in mid-transfer
    Failover,
    /// Many small requests
    Requests,
    /// One connection to a server without MPTCP, and one to a server with MPTCP
    Fallback,
}
