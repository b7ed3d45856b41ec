// SPDX-License-Identifier: MIT OR Apache-2.0
//! The story of a connection: what is told on its timeline, when, and from which evidence.

use std::net::SocketAddr;

use mpwatch_model::event::{MskView, SubflowRecord};
use mpwatch_model::lifecycle::FallbackReason;
use mpwatch_model::timeline::{ObservedBy, TimelineEvent};
use mpwatch_model::unit::Nanos;

use super::super::close;
use super::super::stall::{self, Witness};
use super::{Entry, Flow};

/// Entries kept of one connection's timeline; what comes after that is counted as lost.
const TIMELINE_LIMIT: usize = 256;

/// How much later than its FIN a REMOVE_ADDR may come and still be its cause.
const LATE: Nanos = Nanos(1_000_000_000);

impl Flow {
    pub(super) fn tell_addresses(&mut self, msk: &MskView, at: Nanos) {
        if msk.addresses_announced > self.addresses_announced {
            self.addresses_announced = msk.addresses_announced;
            self.tell(
                at,
                ObservedBy::Sampled,
                TimelineEvent::AddressAnnounced { total: msk.addresses_announced },
            );
        }
        // The kernel keeps the last of each for good, so only a change of what it shows is news.
        let (announced, removed) = match &self.msk {
            Some(old) => (old.announced != msk.announced, old.removed_ids != msk.removed_ids),
            None => (true, true),
        };
        if let Some((id, address)) = msk.announced.filter(|_| announced) {
            self.peer_announced(at, ObservedBy::Sampled, id, Some(address));
        }
        if removed {
            for &id in &msk.removed_ids {
                self.peer_removed(at, ObservedBy::Sampled, id);
            }
            self.explain_ends(&msk.removed_ids, self.looked);
        }
        self.looked = at;
    }

    fn peer_announced(&mut self, at: Nanos, source: ObservedBy, address_id: u8, address: Option<SocketAddr>) {
        self.removed_ids.remove(&address_id);
        if self.announced_ids.insert(address_id) {
            self.tell(at, source, TimelineEvent::PeerAddressAnnounced { address_id, address });
        }
    }

    fn peer_removed(&mut self, at: Nanos, source: ObservedBy, address_id: u8) {
        self.announced_ids.remove(&address_id);
        if self.removed_ids.insert(address_id) {
            self.tell(at, source, TimelineEvent::PeerAddressRemoved { address_id });
        }
    }

    /// A REMOVE_ADDR travels on any path, so it may come after the FIN or reset that it announces; then it shows in the first look since.
    fn explain_ends(&mut self, removed_ids: &[u8], looked: Nanos) {
        for place in 0..self.subflows.len() {
            let subflow = &mut self.subflows[place];
            let recent = subflow.end.is_some_and(|(at, _)| at + LATE >= looked);
            if recent
                && (subflow.record.end.fin_received_first || subflow.record.end.reset_received)
                && removed_ids.contains(&subflow.record.remote_id)
            {
                subflow.record.end.removed_by_peer = true;
                self.note_end(place);
            }
        }
    }

    /// Tells what two samples of a subflow differ in.
    pub(super) fn compare(&mut self, place: usize, record: &SubflowRecord, now: Nanos) {
        let old = &self.subflows[place].record;
        if old.last {
            return;
        }
        let (stale, backup, id) = (old.stale, old.backup, record.id);
        let at = record.at.max(now);
        if stale != record.stale {
            self.tell(
                at,
                ObservedBy::Sampled,
                TimelineEvent::SubflowStale { subflow: id, stale: record.stale },
            );
        }
        if backup != record.backup && record.closed.is_none() {
            self.tell(
                at,
                ObservedBy::Sampled,
                TimelineEvent::PriorityChanged { subflow: id, backup: record.backup },
            );
        }
        let fell_back = record.msk.as_ref().is_some_and(|msk| msk.fallback);
        if fell_back && !self.fell_back {
            self.fell_back = true;
            let reason = close::fallback_reason(record);
            // Without MP_CAPABLE in the handshake it fell back there; later fallbacks show in a sample only.
            let (at, source) = match (reason, record.established) {
                (FallbackReason::NoMpCapableInSynAck | FallbackReason::NotAttempted, Some(at)) => {
                    (at, ObservedBy::Tracepoint)
                }
                _ => (at, ObservedBy::Sampled),
            };
            self.tell(at, source, TimelineEvent::FellBack { reason });
        }
    }

    pub(super) fn note_end(&mut self, place: usize) {
        if self.subflows[place].note_end() {
            self.tell_end(place);
        } else if let (Some((_, now_known)), id) = (self.subflows[place].end, self.subflows[place].record.id)
        {
            for entry in &mut self.timeline {
                match &mut entry.event {
                    TimelineEvent::SubflowClosed { subflow, reason } if *subflow == id => *reason = now_known,
                    _ => {}
                }
            }
        }
    }

    pub(super) fn tell_end(&mut self, place: usize) {
        let subflow = &self.subflows[place];
        let id = subflow.record.id;
        if let Some((at, reason)) = subflow.end {
            self.tell(at, ObservedBy::Tracepoint, TimelineEvent::SubflowClosed { subflow: id, reason });
            if self.msk.is_none() {
                self.tell(at, ObservedBy::Tracepoint, TimelineEvent::Closed);
            }
        }
    }

    pub(super) fn tell_stalls(&mut self) {
        // Without a scheduler nothing tells when an idle connection on plain TCP begins to wait.
        if self.fell_back {
            return;
        }
        let witnesses: Vec<Witness<'_>> = self
            .subflows
            .iter()
            .map(|subflow| Witness {
                stalls: &subflow.record.stalls,
                progress: subflow.record.progress,
                unacked: subflow.record.unacked,
            })
            .collect();
        let told_to = self.stalls_told_to;
        let new = stall::of_connection(&witnesses).into_iter().filter(|&(_, to)| to > told_to);
        for (from, to) in new.collect::<Vec<_>>() {
            self.stalls_told_to = to;
            self.tell(from, ObservedBy::Tracepoint, TimelineEvent::Stalled { gap: to.since(from).micros() });
        }
    }

    pub(super) fn tell(&mut self, at: Nanos, source: ObservedBy, event: TimelineEvent) {
        if self.timeline.len() < TIMELINE_LIMIT {
            self.timeline.push(Entry { at, source, event });
        } else {
            self.timeline_dropped += 1;
        }
    }
}
