// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live loop: events of the running kernel or of a recording feed the tracker, which gives a snapshot at each tick.

pub(crate) mod budget;
pub(crate) mod cost;
pub(crate) mod kernel;
pub(crate) mod owners;
pub(crate) mod playback;
pub(crate) mod recording;
pub(crate) mod session;
pub(crate) mod windows;

use mpwatch_model::kernel::event::{KernelEvent, Start};

/// Receives events in order.
pub(crate) type EventSink<'a> = dyn FnMut(&KernelEvent) -> anyhow::Result<()> + 'a;

/// The kernel or a recording. The rest of the program treats both alike.
pub(crate) trait EventSource {
    /// The start of the stream: what is traced, where, and since when.
    fn start(&self) -> &Start;

    /// Passes on the events up to the next tick, and the tick. `false`: the stream has ended.
    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool>;

    /// Why the stream ended too early. `None`: it did not.
    fn cut_short(&self) -> Option<&str> {
        None
    }
}
