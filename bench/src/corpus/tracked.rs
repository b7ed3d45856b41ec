// SPDX-License-Identifier: MIT OR Apache-2.0
//! mpwatch's verdicts, as its tracker reports them in snapshots. A corpus has only the last record of each subflow, so the subflow counts as
//! open until the closing time in this record.

use std::collections::BTreeMap;

use mpwatch_engine::tracker::{Closed, Tracker};
use mpwatch_model::flow::bottleneck::{Bottlenecks, PairVerdict};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::{KernelEvent, SubflowRecord, Tick};
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::kernel::sample::SampleBatch;
use mpwatch_model::unit::Nanos;

use crate::bottleneck::truth::Time;
use crate::corpus::judge::{Judge, PairResult};
use crate::corpus::recording::{Recording, Subflow};

/// A tracker, and the subflow records that are applied to it.
pub(crate) struct Tracked {
    tracker: Tracker,
    records: BTreeMap<SubflowId, SubflowRecord>,
    /// The open subflows that had samples.
    open: Vec<SubflowId>,
}

impl Tracked {
    /// A tracker at the start of a recording.
    pub(crate) fn new(recording: &Recording) -> Self {
        let tracker = Tracker::new(recording.start.clone(), Closed::Forget);
        Self { tracker, records: recording.records.clone(), open: Vec::new() }
    }

    /// Applies the record of a subflow as it was at this time. Returns whether the subflow was open.
    fn apply(&mut self, id: SubflowId, now: Time) -> bool {
        let Some(record) = self.records.get(&id) else { return false };
        let mut record = record.clone();
        let is_open = record.closed.is_none_or(|closed| closed.0 > now);
        if is_open {
            record.at = Nanos(now);
            (record.closed, record.last) = (None, false);
            record.state = TcpState::Established;
            if let Some(msk) = &mut record.msk {
                msk.state = TcpState::Established;
            }
        }
        self.tracker.apply(&KernelEvent::Subflow(record));
        is_open
    }
}

impl Judge for Tracked {
    fn add(&mut self, subflow: &Subflow, batch: &SampleBatch) -> Result<(), String> {
        if let Some(first) = batch.samples.first().filter(|_| !self.open.contains(&subflow.id)) {
            self.open.push(subflow.id);
            self.apply(subflow.id, first.at.0);
        }
        self.tracker.apply(&KernelEvent::Samples(batch.clone()));
        Ok(())
    }

    fn evaluate(&mut self, now: Time) -> Result<Vec<PairResult>, String> {
        let open = std::mem::take(&mut self.open);
        self.open = open.into_iter().filter(|id| self.apply(*id, now)).collect();
        self.tracker.apply(&KernelEvent::Tick(Tick { at: Nanos(now), ..Tick::default() }));
        let snapshot = self.tracker.end_tick();
        let found = snapshot.connections.iter().filter_map(|connection| connection.bottlenecks.as_ref());
        let result = |found: &Bottlenecks, pair: &PairVerdict| PairResult {
            pair: (pair.a.min(pair.b), pair.a.max(pair.b)),
            verdict: pair.verdict,
            probability: pair.probability,
            is_capped: found.is_capped(pair),
        };
        Ok(found.flat_map(|found| found.pairs.iter().map(move |pair| result(found, pair))).collect())
    }
}
