// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch's laboratory: private network namespaces, shaped and delayed paths, MPTCP endpoints,
//! real traffic, and the kernel's own numbers to compare with. The demo, `selftest`, root tests
//! and benches run on it. It touches nothing outside the namespaces that it makes, and removes
//! them when their values are dropped, after a panic, and (see [`install_signal_cleanup`]) on Ctrl-C.
//! It measures nothing itself and knows nothing of eBPF.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::module_name_repetitions,
    reason = "rates, byte counts and durations cross between f64 and integers far below 2^52"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod cleanup;
mod command;
pub mod endpoint;
mod error;
mod impairer;
pub mod link;
pub mod mib;
mod netns;
mod oracle;
mod poll;
mod random;
pub mod raplsim;
mod relay;
mod reset;
pub mod route;
mod sys;
mod task_clock;
pub mod topology;
pub mod traffic;

pub use cleanup::{install_signal_cleanup, remove_all, sweep_stale};
pub use error::{Error, Result};
pub use impairer::{Direction, Enforcer, Impairer, ImpairerCounters, Impairment};
pub use netns::{Namespace, join};
pub use oracle::{Flow, MptcpInfo, SubflowInfo, TcpInfo};
pub use poll::{may_run, poll_until};
pub use task_clock::TaskClock;
pub use topology::Topology;
