// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of the daemon that changes connections. It alone holds CAP_NET_ADMIN, and starts only if the daemon shall remove subflows.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::Context as _;
use caps::Capability::{CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE};
use mpwatch_model::flow::elimination::Removal;

use super::actuator::{Actuator, Target};
use super::kernel::Kernel;
use crate::privilege;

struct Request {
    target: Target,
    removal: Removal,
    is_undo: bool,
    answer: Sender<Result<(), String>>,
}

/// The other end of the thread, which ends when this is dropped.
pub(crate) struct Worker {
    requests: Sender<Request>,
}

impl Worker {
    /// Starts the thread. It keeps what it needs to change connections, find their network namespaces and enter them.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (requests, received) = channel();
        let (started, outcome) = channel();
        let work = move || {
            let dropped = privilege::drop_to(&[CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_PTRACE]);
            let is_ready = dropped.is_ok();
            if started.send(dropped).is_ok() && is_ready {
                serve(&received);
            }
        };
        thread::Builder::new().name("mpwatch-act".to_owned()).spawn(work).context("cannot start a thread")?;
        outcome.recv().context("the thread that changes connections ended")??;
        Ok(Self { requests })
    }

    fn request(&self, target: &Target, removal: &Removal, is_undo: bool) -> Result<(), String> {
        let (answer, answered) = channel();
        let request = Request { target: target.clone(), removal: removal.clone(), is_undo, answer };
        let sent = self.requests.send(request).map_err(|_| ());
        let outcome = sent.and_then(|()| answered.recv().map_err(|_| ()));
        outcome.unwrap_or_else(|()| Err("the thread that changes connections has ended".to_owned()))
    }
}

fn serve(requests: &Receiver<Request>) {
    for Request { target, removal, is_undo, answer } in requests {
        let outcome = if is_undo { Kernel.undo(&target, &removal) } else { Kernel.apply(&target, &removal) };
        // The daemon waits for the answer, unless it is stopping.
        let _ = answer.send(outcome);
    }
}

impl Actuator for Worker {
    fn apply(&mut self, target: &Target, removal: &Removal) -> Result<(), String> {
        self.request(target, removal, false)
    }

    fn undo(&mut self, target: &Target, removal: &Removal) -> Result<(), String> {
        self.request(target, removal, true)
    }
}
