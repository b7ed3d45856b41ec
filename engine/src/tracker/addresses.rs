// SPDX-License-Identifier: MIT OR Apache-2.0
//! ADD_ADDR and REMOVE_ADDR options of both ends, as far as the MPTCP socket records them.

use std::collections::BTreeSet;

use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::event::MskView;
use mpwatch_model::unit::Nanos;
use serde::{Deserialize, Serialize};

use super::timeline::Timeline;

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Addresses {
    /// Address ids that the peer announced and has not removed, and ids that it removed.
    announced: BTreeSet<u8>,
    removed: BTreeSet<u8>,
    /// Number of ADD_ADDR options that this host has sent.
    sent: u8,
    /// Time of the last reading of the MPTCP socket.
    read: Nanos,
}

impl Addresses {
    /// Adds new announcements and removals to the timeline. If removed ids have changed, returns the time of the previous reading.
    pub(super) fn update(
        &mut self,
        old: Option<&MskView>,
        new: &MskView,
        at: Nanos,
        timeline: &mut Timeline,
    ) -> Option<Nanos> {
        if new.addresses_announced > self.sent {
            self.sent = new.addresses_announced;
            timeline.sampled(at, TimelineEvent::AddressAnnounced { total: new.addresses_announced });
        }
        // The kernel keeps only the last announcement and the last removal, so a new announcement or removal shows as a change.
        let is_announcement = old.is_none_or(|old| old.announced != new.announced);
        let is_removal = old.is_none_or(|old| old.removed_ids != new.removed_ids);
        if let Some((address_id, address)) = new.announced.filter(|_| is_announcement) {
            self.removed.remove(&address_id);
            if self.announced.insert(address_id) {
                let address = Some(address);
                timeline.sampled(at, TimelineEvent::PeerAddressAnnounced { address_id, address });
            }
        }
        if is_removal {
            for &address_id in &new.removed_ids {
                self.announced.remove(&address_id);
                if self.removed.insert(address_id) {
                    timeline.sampled(at, TimelineEvent::PeerAddressRemoved { address_id });
                }
            }
        }
        let before = std::mem::replace(&mut self.read, at);
        is_removal.then_some(before)
    }
}
