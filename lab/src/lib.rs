// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test networks for mpwatch: private network namespaces, paths with a rate limit and a delay, MPTCP
//! endpoints, real traffic, simulated energy counters, and the kernel's own counters for comparison.
//! The demo, `selftest`, root tests and benches use the lab. It changes nothing outside the namespaces that
//! it creates. It removes these namespaces on drop, after a panic, and (see [`install_signal_cleanup`]) on Ctrl-C.
//! The lab does not use eBPF.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::module_name_repetitions,
    reason = "rates, byte counts and durations, all far below 2^52, are converted between f64 and integers"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod bottleneck;
mod cleanup;
mod command;
pub mod corpus;
pub mod endpoint;
mod error;
mod impairer;
pub mod link;
pub mod mib;
mod netns;
mod oracle;
mod poll;
pub mod random;
pub mod raplsim;
pub mod route;
pub mod router;
mod sys;
mod task_clock;
pub mod topology;
pub mod traffic;

pub use cleanup::{install_signal_cleanup, remove_all, sweep_stale};
pub use error::{Error, Result};
pub use impairer::{Direction, Impairer, ImpairerCounters, ImpairerKind, Impairment};
pub use netns::{Namespace, join};
pub use oracle::{MptcpInfo, SocketInfo, SubflowInfo, TcpInfo};
pub use poll::poll_until;
pub use task_clock::TaskClock;
pub use topology::Topology;
