// SPDX-License-Identifier: MIT OR Apache-2.0
//! The networks, traffic and conditions of the corpus of bottlenecks (`./dev corpus`). All queues are the kernel's.

mod condition;
mod network;
mod traffic;

pub use condition::{App, Condition, Cross, Layout, Queue, Route, Run, Split, all, plan};
pub use network::Network;
pub use traffic::Traffic;
