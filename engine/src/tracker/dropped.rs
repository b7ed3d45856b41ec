// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits how many ended subflows a connection lists: a peer may open and close subflows without end. The sums of a connection include them.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::SubflowRecord;
use mpwatch_model::unit::Nanos;

use super::energy::{Energy, MAX_DEFERRED};
use super::flow::Flow;
use super::flows::Flows;
use super::index::Index;
use super::subflow::SubflowState;

/// Maximum number of ids of dropped subflows kept per connection (16 kB): a late record of a dropped subflow must be ignored.
const MAX_IDS: usize = 1_024;

impl Flow {
    /// Numbers new subflows (`place`) in the order of their creation. The initial subflow has number 1, even if it is learned after a join.
    pub(super) fn assign_places(&mut self) {
        let dropped = self.dropped.as_ref().map_or(0, |dropped| dropped.count);
        self.subflows.iter_mut().filter(|subflow| subflow.is_initial()).for_each(|initial| initial.place = 1);
        let placed: u32 = self.subflows.iter().map(|subflow| u32::from(subflow.place > 1)).sum();
        let mut new: Vec<_> = self.subflows.iter_mut().filter(|subflow| subflow.place == 0).collect();
        new.sort_by_key(|subflow| subflow.order());
        new.into_iter().zip(dropped + placed + 2..).for_each(|(subflow, place)| subflow.place = place);
    }

    /// Drops `excess` ended subflows whose values in `reported` are final: first subflows without payload, then the oldest. It keeps the
    /// first joined subflow that was established, the first that carried a tenth of the payload, and all subflows opened before tracing began,
    /// which an earlier run may have stored. `is_charged`: whether all energy of a subflow is charged.
    fn drop_ended(
        &mut self,
        (reported, excess): (&Connection, usize),
        is_charged: impl Fn(&SubflowState) -> bool,
    ) -> Vec<SubflowId> {
        let joined = || self.subflows.iter().filter(|subflow| !subflow.is_initial());
        let first = |at: fn(&SubflowRecord) -> Option<Nanos>| {
            let known = joined().filter_map(|subflow| Some((at(&subflow.record)?, subflow.record.id)));
            known.min().map(|(_, id)| id)
        };
        let stays = [first(|record| record.established), first(|record| Some(record.effective?.0))];
        let mut ended: Vec<&SubflowState> = joined()
            .filter(|subflow| subflow.end.is_some() && subflow.is_final() && subflow.record.seen_open)
            .filter(|subflow| !stays.contains(&Some(subflow.record.id)) && is_charged(subflow))
            .collect();
        ended.sort_by_key(|subflow| (subflow.carried().1 > 0, subflow.end.map(|(at, _)| at)));
        ended.truncate(excess);
        let ids: Vec<SubflowId> = ended.iter().map(|subflow| subflow.record.id).collect();
        // The progress of dropped subflows must still end stalls and outages.
        let progress = ended.iter().filter_map(|subflow| subflow.record.progress);
        self.stalls_until = progress.fold(self.stalls_until, Nanos::max);
        let acked = ended.iter().filter_map(|subflow| subflow.path.acked_at);
        self.calm_at = acked.fold(self.calm_at, Nanos::max);
        for subflow in reported.subflows.iter().filter(|subflow| ids.contains(&subflow.id)) {
            self.dropped.get_or_insert_default().add(subflow);
        }
        self.subflows.retain(|subflow| !ids.contains(&subflow.record.id));
        self.dropped_ids.extend(&ids);
        self.dropped_ids.drain(..self.dropped_ids.len().saturating_sub(MAX_IDS));
        ids
    }
}

/// Drops excess ended subflows of a connection that was just reported. Returns the number of dropped subflows.
pub(super) fn drop_ended(
    reported: &Connection,
    now: Nanos,
    flows: &mut Flows,
    energy: &mut Option<Energy>,
    index: &mut Index,
) -> u64 {
    let (excess, first) = (reported.excess_subflows(), reported.subflows.first());
    let key = first.filter(|_| excess > 0).and_then(|first| index.by_subflow(first.id));
    let Some((flow, mut detector)) = key.and_then(|key| flows.active_mut(key)) else { return 0 };
    let is_charged = |subflow: &SubflowState| {
        let is_late = subflow.end.is_some_and(|(at, _)| now.since(at) >= MAX_DEFERRED);
        let mut energy = energy.iter();
        is_late || energy.all(|energy| energy.are_settled([subflow.record.id].into_iter()))
    };
    let ids = flow.drop_ended((reported, excess), is_charged);
    if let Some(energy) = energy {
        energy.forget(ids.iter().copied());
    }
    for id in &ids {
        index.subflows.remove(id);
        if let Some(detector) = &mut detector {
            detector.forget(*id);
        }
    }
    ids.len() as u64
}
