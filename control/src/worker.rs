// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that changes connections for the daemon, so that no other thread needs CAP_NET_ADMIN.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context as _;
use caps::Capability::{self, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::Removal;

use super::kernel::{self, Actuator, Change};

/// The capabilities to change connections, to enter their network namespaces, and to find these namespaces.
const CAPABILITIES: [Capability; 3] = [CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE];

type Request = (Connection, Removal, Change, Sender<Result<bool, String>>);

/// Starts the thread, which ends when the returned actuator is dropped. The thread first calls `drop_to` to drop all other capabilities.
pub fn start(
    drop_to: impl FnOnce(&[Capability]) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<Actuator> {
    let (requests, received) = channel::<Request>();
    let (started, outcome) = channel();
    let work = move || {
        let dropped = drop_to(&CAPABILITIES);
        let is_ready = dropped.is_ok();
        if started.send(dropped).is_err() || !is_ready {
            return;
        }
        for (connection, removal, change, answer) in received {
            // Fails only if the daemon no longer waits for the answer because it is stopping.
            let _ = answer.send(kernel::change(&connection, &removal, change));
        }
    };
    thread::Builder::new().name("mpwatch-act".to_owned()).spawn(work).context("cannot start a thread")?;
    outcome.recv().context("the thread that changes connections ended")??;
    Ok(Box::new(move |connection, removal, change| {
        const ENDED: &str = "the thread that changes connections has ended";
        let (answer, answered) = channel();
        requests.send((connection.clone(), removal.clone(), change, answer)).map_err(|_| ENDED)?;
        answered.recv().map_err(|_| ENDED)?
    }))
}
