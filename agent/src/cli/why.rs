// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `mpwatch why`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// The end of the long help.
pub(super) const WHY_HELP: &str = "\
mpwatch reads the configuration, counters, routes and sockets of the network namespace. It traces nothing and changes nothing. This \
namespace needs no privilege (before Linux 6.13 cap_net_admin); other namespaces need root.

A fix affects new connections, except that deleting an endpoint closes its subflows. Open a connection after it, and run `mpwatch why` again.";

#[derive(Args, Clone, Debug)]
pub(crate) struct WhyOptions {
    /// Id or token of a connection (or the beginning of either), or a peer: ADDRESS, ADDRESS:PORT or HOST:PORT. Without a connection to the peer, predict a new one [default: all MPTCP connections]
    #[arg(value_name = "ID|PEER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) subject: Option<String>,
    /// Read this network namespace: a name of `ip netns`, `host`, or `net:[INODE]` [default: all with MPTCP connections; for a new connection, this one]
    #[arg(long, value_name = "NAME")]
    pub(crate) netns: Option<String>,
    /// Explain only connections of processes with this name, plain TCP included
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
