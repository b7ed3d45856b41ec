// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs every detection method on a trace. Only this file calls the methods.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mpwatch_engine::bottleneck::{self as engine, Detector, PairEvaluation, TERMS, groups};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::kernel::event::KernelEvent;
use mpwatch_study::published::Variant;

use crate::bottleneck::trace::{labels_of, read, trace_of};
use crate::bottleneck::truth::Labels;
use crate::bottleneck::verdict::{Evaluation, Pair, Subflow, Verdicts};
use mpwatch_lab::bottleneck::cell::Cell;

/// The labels of a cell and the verdicts on its trace. `None`: the cell was not recorded.
pub fn replay_cell(folder: &Path, cell: &Cell) -> Result<Option<(Labels, Verdicts)>, String> {
    let file = labels_of(folder, cell);
    let Ok(text) = fs::read(&file) else { return Ok(None) };
    let labels = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Some((labels, replay(&trace_of(folder, cell))?)))
}

/// The verdicts of every method on a trace. Each connection is evaluated at every step, without backoff.
pub fn replay(trace: &Path) -> Result<Verdicts, String> {
    let events = read(trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    let subflows = subflows(&events);
    let connections: BTreeMap<SubflowId, SocketCookie> =
        subflows.iter().map(|(id, subflow)| (*id, subflow.connection)).collect();
    let mut verdicts = Verdicts::new(subflows);
    let variants = Variant::all();
    let mut detectors: BTreeMap<(SocketCookie, usize), Detector> = BTreeMap::new();
    for event in &events {
        let KernelEvent::Samples(samples) = event else { continue };
        let Some(&connection) = connections.get(&samples.id) else { continue };
        for (index, variant) in variants.iter().enumerate() {
            let detector = detectors.entry((connection, index)).or_insert_with(|| variant.detector());
            detector.add_and_evaluate(samples, &mut |result| {
                verdicts.push(&variant.name, connection, copied(result));
            });
        }
    }
    for ((connection, index), detector) in &mut detectors {
        let method = &variants[*index].name;
        detector.finish(&mut |result| verdicts.push(method, *connection, copied(result)));
    }
    Ok(verdicts)
}

/// The subflows of MPTCP connections, from the last record of each subflow.
fn subflows(events: &[KernelEvent]) -> BTreeMap<SubflowId, Subflow> {
    let mut subflows = BTreeMap::new();
    for event in events {
        let KernelEvent::Subflow(record) = event else { continue };
        let Some(msk) = record.msk.as_ref().filter(|msk| msk.cookie.0 > 0) else { continue };
        let (address, established) = (record.local.ip(), record.established.map(|at| at.0));
        subflows.insert(record.id, Subflow { connection: msk.cookie, address, established });
    }
    subflows
}

fn copied(evaluation: &engine::Evaluation<'_>) -> Evaluation {
    let pair = |evaluation: &PairEvaluation| {
        let PairEvaluation { a, b, verdict, evidence, .. } = *evaluation;
        let terms =
            evidence.map(|evidence| TERMS.iter().map(|term| (term.name, (term.value)(&evidence))).collect());
        Pair { a, b, verdict, terms }
    };
    Evaluation {
        at: evaluation.at.0,
        pairs: evaluation.pairs.iter().map(pair).collect(),
        extra: evaluation.closed.clone().unwrap_or_else(|| beyond_one_per_group(evaluation.pairs)),
    }
}

/// The subflows to close, if a method does not choose them: all except the first of each group.
fn beyond_one_per_group(evaluations: &[PairEvaluation]) -> Vec<SubflowId> {
    let mut ids: Vec<SubflowId> =
        evaluations.iter().flat_map(|evaluation| [evaluation.a, evaluation.b]).collect();
    ids.sort_unstable();
    ids.dedup();
    groups(&ids, evaluations).iter().flat_map(|group| group.iter().skip(1).copied()).collect()
}
