// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bottlenecks between connections: the subflows of this host to one address under one detector, whichever connection they belong to. What
//! is compared is bounded, because pairs grow with the square of their number; what had no room is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use mpwatch_model::across::{self, Member};
use mpwatch_model::bottleneck::DetectionMethod;
use mpwatch_model::id::{NetnsCookie, SubflowId};
use mpwatch_model::sample::SampleBatch;
use mpwatch_model::unit::Nanos;

use super::bottleneck::shown;
use super::index::Index;
use super::{Flow, Key, Names};
use crate::bottleneck::{Detector, groups};

/// Subflows that are compared at one address, and addresses at once.
pub const MOST_SUBFLOWS: usize = 16;
const MOST_DESTINATIONS: usize = 32;
/// Who sends nothing for so long makes room.
const SILENT: Nanos = Nanos(10_000_000_000);

/// An address, as seen from a namespace.
type Place = (NetnsCookie, IpAddr);

/// Everything that is compared.
pub(super) struct Across {
    method: DetectionMethod,
    /// Where two connections or more send to.
    crowded: BTreeSet<Place>,
    gatherings: BTreeMap<Place, Gathering>,
    left_out: BTreeSet<Place>,
}

/// The subflows to one address.
struct Gathering {
    detector: Detector,
    begun: Nanos,
    /// Those that are compared, and when the last sample of each came.
    members: BTreeMap<SubflowId, Nanos>,
    /// The others, likewise.
    left_out: BTreeMap<SubflowId, Nanos>,
}

/// Where a subflow sends to.
fn place(netns: NetnsCookie, remote: IpAddr) -> Place {
    (netns, remote.to_canonical())
}

impl Across {
    pub(super) fn new(method: DetectionMethod) -> Self {
        let (crowded, gatherings, left_out) = Default::default();
        Self { method, crowded, gatherings, left_out }
    }

    /// Takes in samples of a subflow of this connection.
    pub(super) fn take(&mut self, flow: &Flow, samples: &SampleBatch) {
        let of = flow.subflows.iter().find(|subflow| subflow.record.id == samples.id);
        let (Some(subflow), Some(last)) = (of, samples.points.last()) else { return };
        let place = place(flow.netns, subflow.record.remote.ip());
        if !self.crowded.contains(&place) {
            return;
        }
        let is_full = self.gatherings.len() >= MOST_DESTINATIONS;
        if is_full && !self.gatherings.contains_key(&place) {
            self.left_out.insert(place);
            return;
        }
        let method = self.method;
        self.gatherings
            .entry(place)
            .or_insert_with(|| Gathering::new(method, last.at))
            .take(samples, last.at);
    }

    /// Looks at what came until now.
    pub(super) fn look<'a>(&mut self, flows: impl Iterator<Item = &'a Flow>, now: Nanos) {
        let mut connections: HashMap<Place, BTreeSet<u64>> = HashMap::new();
        let mut open: BTreeSet<SubflowId> = BTreeSet::new();
        for flow in flows.filter(|flow| flow.closed_at().is_none()) {
            for subflow in flow.subflows.iter().filter(|subflow| subflow.end.is_none()) {
                let place = place(flow.netns, subflow.record.remote.ip());
                connections.entry(place).or_default().insert(flow.serial());
                open.insert(subflow.record.id);
            }
        }
        let crowded = connections.into_iter().filter(|(_, of)| of.len() > 1);
        self.crowded = crowded.map(|(place, _)| place).collect();
        self.gatherings.retain(|place, _| self.crowded.contains(place));
        self.left_out.retain(|place| self.crowded.contains(place) && !self.gatherings.contains_key(place));
        for gathering in self.gatherings.values_mut() {
            gathering.look(&open, now);
        }
    }

    /// As outputs show it.
    pub(super) fn shown(&self, index: &Index, flows: &HashMap<Key, Flow>, names: &Names) -> across::Across {
        let whose = |subflow: SubflowId| index.by_subflow(subflow).and_then(|key| flows.get(&key));
        let destination = |(place, gathering): (&Place, &Gathering)| {
            let member = |id: &SubflowId| Some(Member { connection: whose(*id)?.id(), subflow: *id });
            let subflows: Vec<Member> = gathering.members.keys().filter_map(member).collect();
            let inode = subflows.first().and_then(|one| whose(one.subflow))?.netns_inode;
            let netns = names.of_netns(place.0, inode);
            Some(gathering.shown(netns, place.1, self.method, subflows))
        };
        across::Across {
            destinations: self.gatherings.iter().filter_map(destination).collect(),
            destinations_left_out: u32::try_from(self.left_out.len()).unwrap_or(u32::MAX),
        }
    }
}

impl Gathering {
    fn new(method: DetectionMethod, begun: Nanos) -> Self {
        Self { detector: Detector::by(method), begun, members: BTreeMap::new(), left_out: BTreeMap::new() }
    }

    fn take(&mut self, samples: &SampleBatch, at: Nanos) {
        if self.members.len() >= MOST_SUBFLOWS && !self.members.contains_key(&samples.id) {
            self.left_out.insert(samples.id, at);
            return;
        }
        self.left_out.remove(&samples.id);
        self.members.insert(samples.id, at);
        self.detector.take(samples);
    }

    fn look(&mut self, open: &BTreeSet<SubflowId>, now: Nanos) {
        let stays = |id: &SubflowId, last: &mut Nanos| open.contains(id) && now.since(*last) < SILENT;
        let before: Vec<SubflowId> = self.members.keys().copied().collect();
        self.members.retain(stays);
        self.left_out.retain(stays);
        for id in before.iter().filter(|id| !self.members.contains_key(id)) {
            self.detector.forget(*id);
        }
        self.detector.advance(now);
    }

    fn shown(
        &self,
        netns: String,
        remote: IpAddr,
        method: DetectionMethod,
        subflows: Vec<Member>,
    ) -> across::Destination {
        let ids: Vec<SubflowId> = subflows.iter().map(|member| member.subflow).collect();
        let evaluations = self.detector.evaluations();
        let connection =
            |id: SubflowId| subflows.iter().find(|one| one.subflow == id).map(|one| one.connection);
        let mut pairs = Vec::new();
        for (place, a) in ids.iter().enumerate() {
            for b in ids[place + 1..].iter().filter(|b| connection(**b) != connection(*a)) {
                let evaluation =
                    evaluations.iter().find(|evaluation| (evaluation.a, evaluation.b) == (*a, *b));
                pairs.push(shown(*a, *b, evaluation, self.begun));
            }
        }
        let left_out = u32::try_from(self.left_out.len()).unwrap_or(u32::MAX);
        let groups = groups(&ids, evaluations);
        across::Destination { netns, remote, method, subflows, left_out, groups, pairs }
    }
}
