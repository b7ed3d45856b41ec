// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events come from: the kernel ([`crate::live`]) or a file ([`crate::recording`]). Everything above is the same.

use mpwatch_model::event::{KernelEvent, Start};

/// Takes events as they come.
pub(crate) type Sink<'a> = dyn FnMut(&KernelEvent) -> anyhow::Result<()> + 'a;

/// A stream of events with a beginning and, for recordings, an end.
pub(crate) trait EventSource {
    /// What was traced, where and from when on.
    fn start(&self) -> &Start;

    /// Hands on events up to and with the next tick. `false`: there is nothing more.
    fn next_tick(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<bool>;

    /// Why there is nothing more although there was more once. `None`: it has been told to its end.
    fn cut_short(&self) -> Option<&str> {
        None
    }
}
