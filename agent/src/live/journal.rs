// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds steps of elimination to the stream of events, so that timelines, the database and recordings contain them.

use std::cell::RefCell;
use std::rc::Rc;

use mpwatch_model::flow::elimination::EliminationRecord;
use mpwatch_model::kernel::event::{KernelEvent, Start};

use crate::live::source::{EventSink, EventSource};

/// Steps that wait for the next tick.
#[derive(Clone, Default)]
pub(crate) struct Journal {
    waiting: Rc<RefCell<Vec<EliminationRecord>>>,
}

/// A source of events with the steps inserted.
pub(crate) struct Journaled<'a> {
    source: &'a mut dyn EventSource,
    journal: Journal,
}

impl Journal {
    /// Adds a step. It enters the stream before the next tick.
    #[cfg(feature = "control")]
    pub(crate) fn add(&self, record: EliminationRecord) {
        self.waiting.borrow_mut().push(record);
    }

    /// The source, with the steps of this journal inserted.
    pub(crate) fn insert_into<'a>(&self, source: &'a mut dyn EventSource) -> Journaled<'a> {
        Journaled { source, journal: self.clone() }
    }
}

impl EventSource for Journaled<'_> {
    fn start(&self) -> &Start {
        self.source.start()
    }

    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool> {
        for record in self.journal.waiting.take() {
            sink(&KernelEvent::Elimination(record))?;
        }
        self.source.next_tick(sink)
    }

    fn cut_short(&self) -> Option<&str> {
        self.source.cut_short()
    }
}
