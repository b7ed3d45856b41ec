// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the subflows and samples of a recorded run.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use mpwatch_engine::bottleneck::AddressPair;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::event::{KernelEvent, Start, SubflowRecord};
use mpwatch_model::kernel::sample::SampleBatch;

use crate::bottleneck::trace::read;
use crate::bottleneck::truth::Time;

/// A subflow, or a plain TCP connection.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// The subflow.
    pub id: SubflowId,
    /// The connection: the cookie of its socket.
    pub connection: u64,
    /// Whether it belongs to an MPTCP connection. Only pairs of such subflows are scored.
    pub is_mptcp: bool,
    /// Namespace and addresses.
    pub path: AddressPair,
    /// Local address and port.
    pub local: SocketAddr,
    /// Payload of a segment, bytes.
    pub mss: u32,
    /// When it was established. `None`: never.
    pub established: Option<Time>,
    /// Time of its last sample.
    pub last_sample: Time,
}

/// The subflows and samples of a run.
#[derive(Debug)]
pub struct Recording {
    /// The first event.
    pub start: Start,
    /// The subflows, by id.
    pub subflows: BTreeMap<SubflowId, Subflow>,
    /// The last record of each subflow.
    pub records: BTreeMap<SubflowId, SubflowRecord>,
    /// The samples in the order in which they were recorded.
    pub batches: Vec<SampleBatch>,
}

impl Recording {
    /// Reads a recording.
    pub fn read(file: &Path) -> io::Result<Self> {
        let (mut subflows, mut records, mut batches) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut start = Start::default();
        for event in read(file)? {
            match event {
                KernelEvent::Subflow(record) => {
                    let msk = record.msk.as_ref().map(|msk| msk.cookie.0);
                    let subflow = Subflow {
                        id: record.id,
                        connection: msk.unwrap_or(record.id.cookie.0),
                        is_mptcp: msk.is_some_and(|cookie| cookie > 0),
                        path: AddressPair {
                            netns: record.netns,
                            local: record.local.ip(),
                            remote: record.remote.ip(),
                        },
                        local: record.local,
                        mss: record.tcp.mss,
                        established: record.established.map(|at| at.0),
                        last_sample: 0,
                    };
                    subflows.insert(record.id, subflow);
                    records.insert(record.id, record);
                }
                KernelEvent::Start(first) => start = first,
                KernelEvent::Samples(batch) => batches.push(batch),
                _ => {}
            }
        }
        for batch in &batches {
            if let Some((subflow, last)) = subflows.get_mut(&batch.id).zip(batch.samples.last()) {
                subflow.last_sample = subflow.last_sample.max(last.at.0);
            }
        }
        Ok(Self { start, subflows, records, batches })
    }

    /// All pairs of established subflows of one MPTCP connection.
    pub fn pairs(&self) -> Vec<[&Subflow; 2]> {
        let mut by_connection: BTreeMap<u64, Vec<&Subflow>> = BTreeMap::new();
        let scored = |subflow: &&Subflow| subflow.is_mptcp && subflow.established.is_some();
        for subflow in self.subflows.values().filter(scored) {
            by_connection.entry(subflow.connection).or_default().push(subflow);
        }
        let mut pairs = Vec::new();
        for subflows in by_connection.values() {
            for (index, a) in subflows.iter().enumerate() {
                pairs.extend(subflows[index + 1..].iter().map(|b| [*a, *b]));
            }
        }
        pairs
    }
}
