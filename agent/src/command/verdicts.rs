// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch replay FILE --verdicts`: what every method of finding bottlenecks thought at each look, to compare them on the same samples.
//! The first line tells of the subflows, each further one what one method thought of one connection at one time; with `--across`, of
//! the subflows of all connections to one address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use mpwatch_model::bottleneck::{Evidence, Verdict};
use mpwatch_model::event::KernelEvent;
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::unit::Nanos;
use serde::Serialize;

use crate::cli::Scope;
use crate::recording::Replay;
use crate::source::EventSource as _;
use mpwatch_engine::bottleneck::{Cap, Contestant, Detector, Look, PairEvaluation, TERMS, groups};
use mpwatch_engine::tracker::MOST_ACROSS;

/// A subflow of the recording.
#[derive(Clone, Debug, Serialize)]
struct Known {
    id: SubflowId,
    connection: SocketCookie,
    netns: Option<String>,
    local: SocketAddr,
    remote: SocketAddr,
    established_ns: Option<Nanos>,
}

/// The first line.
#[derive(Serialize)]
struct Subflows<'a> {
    subflows: Vec<&'a Known>,
}

/// Whose subflows are compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Connection(SocketCookie),
    /// Of all connections to an address, as one namespace sees it.
    Destination(Option<String>, IpAddr),
}

impl Whose {
    fn of(known: &Known, across: bool) -> Self {
        if across {
            Self::Destination(known.netns.clone(), known.remote.ip().to_canonical())
        } else {
            Self::Connection(known.connection)
        }
    }
}

/// A further line.
#[derive(Serialize)]
struct Line<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<SocketCookie>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<IpAddr>,
    at_ns: Nanos,
    pairs: Vec<Pair>,
    /// Subflows that share a cap, but no queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    caps: Vec<Vec<SubflowId>>,
    /// Subflows that could be closed, by this method.
    extra: Vec<SubflowId>,
}

#[derive(Serialize)]
struct Pair {
    a: SubflowId,
    b: SubflowId,
    verdict: Verdict,
    probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
    /// What the evidence says for and against sharing, before it is weighed.
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<BTreeMap<&'static str, f64>>,
}

/// `rested`: our own method sees of paths that would have rested only what the kernel would have sent of them.
pub(super) fn print(file: &Path, rested: bool, scope: &Scope) -> anyhow::Result<()> {
    let known = subflows(file, scope)?;
    let mut output = BufWriter::new(io::stdout().lock());
    write(&mut output, &Subflows { subflows: known.values().collect() })?;
    let contestants = Contestant::all();
    let mut running: BTreeMap<(Whose, usize), Detector> = BTreeMap::new();
    let mut compared: BTreeMap<Whose, BTreeSet<SubflowId>> = BTreeMap::new();
    let mut replay = Replay::open(file)?;
    let mut failed = Ok(());
    let mut sink = |event: &KernelEvent| {
        let KernelEvent::Samples(samples) = event else { return Ok(()) };
        let Some(known) = known.get(&samples.id) else { return Ok(()) };
        let whose = Whose::of(known, scope.across);
        let members = compared.entry(whose.clone()).or_default();
        if scope.across && members.len() >= MOST_ACROSS && !members.contains(&samples.id) {
            return Ok(());
        }
        members.insert(samples.id);
        for (place, contestant) in contestants.iter().enumerate() {
            let new =
                || if rested { contestant.detector().rehearsing() } else { contestant.detector().restless() };
            let detector = running.entry((whose.clone(), place)).or_insert_with(new);
            detector.take_and(samples, &mut |look| {
                let written = write(&mut output, &line(&contestant.name, &whose, look));
                if failed.is_ok() {
                    failed = written;
                }
            });
        }
        std::mem::replace(&mut failed, Ok(())).map_err(Into::into)
    };
    while replay.next_tick(&mut sink)? {}
    for ((whose, place), detector) in &mut running {
        let mut written = Ok(());
        detector.finish_and(&mut |look| {
            if written.is_ok() {
                written = write(&mut output, &line(&contestants[*place].name, whose, look));
            }
        });
        written?;
    }
    Ok(output.flush()?)
}

/// The subflows of all connections that are to be shown, by the last record of each.
fn subflows(file: &Path, scope: &Scope) -> anyhow::Result<BTreeMap<SubflowId, Known>> {
    let mut known = BTreeMap::new();
    let mut names: HashMap<u32, String> = HashMap::new();
    let mut inodes: HashMap<SubflowId, u32> = HashMap::new();
    let mut replay = Replay::open(file)?;
    let mut sink = |event: &KernelEvent| {
        match event {
            KernelEvent::Subflow(record) => {
                let Some(msk) = record.msk.as_ref().filter(|msk| msk.cookie.0 > 0) else { return Ok(()) };
                inodes.insert(record.id, record.netns_inode);
                let (connection, local, remote) = (msk.cookie, record.local, record.remote);
                let (netns, established_ns) = (None, record.established);
                known.insert(
                    record.id,
                    Known { id: record.id, connection, netns, local, remote, established_ns },
                );
            }
            KernelEvent::Netns(netns) => _ = names.insert(netns.inode, netns.name.clone()),
            _ => {}
        }
        Ok(())
    };
    while replay.next_tick(&mut sink)? {}
    for (id, subflow) in &mut known {
        subflow.netns = inodes.get(id).and_then(|inode| names.get(inode)).cloned();
    }
    if let Some(wanted) = &scope.netns {
        known.retain(|_, subflow| subflow.netns.as_ref() == Some(wanted));
    }
    Ok(known)
}

fn line<'a>(method: &'a str, whose: &Whose, look: &Look<'_>) -> Line<'a> {
    let shown = |evaluation: &PairEvaluation| {
        let PairEvaluation { a, b, verdict, probability, evidence, .. } = *evaluation;
        let terms =
            evidence.map(|evidence| TERMS.iter().map(|term| (term.name, (term.of)(&evidence))).collect());
        Pair { a, b, verdict, probability, evidence, terms }
    };
    let mut ids: Vec<SubflowId> =
        look.evaluations.iter().flat_map(|evaluation| [evaluation.a, evaluation.b]).collect();
    ids.sort_unstable();
    ids.dedup();
    let beyond_one = || {
        let groups = groups(&ids, look.evaluations);
        groups.iter().flat_map(|group| group.iter().skip(1).copied()).collect()
    };
    let extra = look.closed.clone().unwrap_or_else(beyond_one);
    let divide = |cap: &Cap| cap.rates.iter().map(|(id, _)| *id).collect();
    let caps = look.caps.iter().map(divide).collect();
    let (connection, destination) = match whose {
        Whose::Connection(connection) => (Some(*connection), None),
        Whose::Destination(_, address) => (None, Some(*address)),
    };
    let pairs = look.evaluations.iter().map(shown).collect();
    Line { method, connection, destination, at_ns: look.at, pairs, caps, extra }
}

fn write(output: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line).map_err(io::Error::from)?;
    output.write_all(b"\n")
}
