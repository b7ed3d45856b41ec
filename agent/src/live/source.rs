// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events come from: the kernel or a recording. The rest of the program treats both alike.

use mpwatch_engine::why::Question;
use mpwatch_model::kernel::event::{KernelEvent, Start};

/// Receives events in order.
pub(crate) type EventSink<'a> = dyn FnMut(&KernelEvent) -> anyhow::Result<()> + 'a;

pub(crate) trait EventSource {
    /// The start of the stream: what is traced, where, and since when.
    fn start(&self) -> &Start;

    /// Passes on the events up to the next tick, and the tick. `false`: the stream has ended.
    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool>;

    /// Number of connections that can be passed to [`EventSource::ask`].
    fn free_questions(&self) -> usize {
        0
    }

    /// Requests explanations of these connections. They are events before one of the next ticks.
    fn ask(&mut self, _: Vec<Question>) {}

    /// Why the stream ended too early. `None`: it did not.
    fn cut_short(&self) -> Option<&str> {
        None
    }
}
