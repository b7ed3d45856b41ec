// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that changes connections for the daemon, so that no other thread needs CAP_NET_ADMIN.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::Context as _;
use caps::Capability::{self, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use mpwatch_model::flow::elimination::Removal;

use super::actuator::{Actuator, TargetConnection};
use super::kernel::KernelActuator;

/// Needed to change connections, to enter their network namespaces and to find them.
const CAPABILITIES: [Capability; 3] = [CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE];

struct Request {
    connection: TargetConnection,
    removal: Removal,
    is_undo: bool,
    answer: Sender<Result<(), String>>,
}

/// Sends requests to the thread, which ends when this is dropped.
pub struct Worker {
    requests: Sender<Request>,
}

impl Worker {
    /// Starts the thread. There `drop_to` gives up all capabilities but the given ones.
    ///
    /// # Errors
    /// If the thread does not start, or `drop_to` fails.
    pub fn start(
        drop_to: impl FnOnce(&[Capability]) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (requests, received) = channel();
        let (started, outcome) = channel();
        let work = move || {
            let dropped = drop_to(&CAPABILITIES);
            let is_ready = dropped.is_ok();
            if started.send(dropped).is_ok() && is_ready {
                serve(&received);
            }
        };
        thread::Builder::new().name("mpwatch-act".to_owned()).spawn(work).context("cannot start a thread")?;
        outcome.recv().context("the thread that changes connections ended")??;
        Ok(Self { requests })
    }

    fn request(&self, connection: &TargetConnection, removal: &Removal, is_undo: bool) -> Result<(), String> {
        let (answer, answered) = channel();
        let request = Request { connection: connection.clone(), removal: removal.clone(), is_undo, answer };
        let sent = self.requests.send(request).map_err(|_| ());
        let outcome = sent.and_then(|()| answered.recv().map_err(|_| ()));
        outcome.unwrap_or_else(|()| Err("the thread that changes connections has ended".to_owned()))
    }
}

fn serve(requests: &Receiver<Request>) {
    for Request { connection, removal, is_undo, answer } in requests {
        let outcome = if is_undo {
            KernelActuator.undo(&connection, &removal)
        } else {
            KernelActuator.apply(&connection, &removal)
        };
        // The daemon waits for the answer, unless it is stopping.
        let _ = answer.send(outcome);
    }
}

impl Actuator for Worker {
    fn apply(&mut self, connection: &TargetConnection, removal: &Removal) -> Result<(), String> {
        self.request(connection, removal, false)
    }

    fn undo(&mut self, connection: &TargetConnection, removal: &Removal) -> Result<(), String> {
        self.request(connection, removal, true)
    }
}
