// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends the connections in the database that a target has not confirmed. The database is the queue, and records each confirmation.

use jiff::Timestamp;
use mpwatch_exporters::send::{Rejected, SendError, Sender};
use mpwatch_store::{Outbox, StoreError};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The target has confirmed every connection: nothing was sent.
    Idle,
    Confirmed(Option<Rejected>),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StepError {
    /// Whether the same step may succeed later, without any action of a user.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_temporary())
    }
}

/// Sends the next batch of at most `batch` connections, without a retry. `since`: omit connections that ended earlier; `None`: omit none.
pub(crate) fn step(
    sender: &mut Sender,
    outbox: &mut Outbox,
    since: Option<Timestamp>,
    batch: u32,
) -> Result<Step, StepError> {
    sender.check()?;
    if !sender.has_pending() {
        let ends = outbox.next(since, batch, sender.needs_timeline())?;
        if ends.is_empty() {
            return Ok(Step::Idle);
        }
        sender.prepare(ends.into_iter().map(|stored| (stored.end, stored.version)))?;
    }
    let rejected = sender.send()?;
    outbox.confirm()?;
    sender.forget();
    Ok(Step::Confirmed(rejected))
}
