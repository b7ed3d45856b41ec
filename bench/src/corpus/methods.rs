// SPDX-License-Identifier: MIT OR Apache-2.0
//! The methods of mpwatch and of papers that the corpus compares, by name.

use std::collections::BTreeMap;

use mpwatch_engine::bottleneck::{Concordance, Method, PairEvaluation};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::SampleBatch;
use mpwatch_model::unit::Nanos;
use mpwatch_study::published;

use crate::bottleneck::truth::Time;
use crate::corpus::judge::{INTERVAL, Judge, PairResult};
use crate::corpus::recording::{Recording, Subflow};
use crate::corpus::tracked::Tracked;

/// Methods evaluate only samples that are at least this much older than the latest sample, as mpwatch does: batches arrive late.
const DELAY: Time = 300_000_000;
/// A connection without samples for this time is not evaluated.
const IDLE: Time = 3_000_000_000;

/// The names of all methods: `mpwatch`, as its tracker evaluates it; `mpwatch-connection`, which uses only the samples of one connection; the
/// published methods, which evaluate a connection or, with `-host`, all flows of the host, as RFC 8382 prescribes.
pub fn methods() -> Vec<String> {
    let published = DetectionMethod::ALL.iter().filter(|method| **method != DetectionMethod::Concordance);
    let published = published.map(|method| method.as_str().to_owned());
    let fixed = ["mpwatch", "mpwatch-connection", "rfc8382-host"].map(str::to_owned);
    fixed.into_iter().chain(published).collect()
}

/// The method of this name. `None`: there is no such method.
pub fn method(name: &str, recording: &Recording) -> Option<Box<dyn Judge>> {
    match name {
        "mpwatch" => return Some(Box::new(Tracked::new(recording))),
        "mpwatch-connection" => return Some(Box::<BuiltIn>::default()),
        _ => {}
    }
    let (known, per_host) = name.strip_suffix("-host").map_or((name, false), |known| (known, true));
    let method = *DetectionMethod::ALL.iter().find(|method| method.as_str() == known)?;
    Some(Box::new(BuiltIn { method, per_host, ..BuiltIn::default() }))
}

/// An instance of the method, for a connection or for all flows of the host.
struct Group {
    method: Box<dyn Method + Send>,
    newest: Time,
}

/// A method of mpwatch or of a paper.
#[derive(Default)]
struct BuiltIn {
    method: DetectionMethod,
    per_host: bool,
    groups: BTreeMap<u64, Group>,
    subflows: BTreeMap<SubflowId, Subflow>,
}

impl Judge for BuiltIn {
    fn add(&mut self, subflow: &Subflow, batch: &SampleBatch) -> Result<(), String> {
        self.subflows.entry(subflow.id).or_insert_with(|| subflow.clone());
        let method = self.method;
        let new = || Group {
            method: match method {
                DetectionMethod::Concordance => Box::<Concordance>::default(),
                other => published::new(other),
            },
            newest: 0,
        };
        let key = if self.per_host { 0 } else { subflow.connection };
        let group = self.groups.entry(key).or_insert_with(new);
        group.method.add(batch.id, &batch.samples);
        group.newest = batch.samples.last().map_or(group.newest, |last| group.newest.max(last.at.0));
        Ok(())
    }

    fn evaluate(&mut self, now: Time) -> Result<Vec<PairResult>, String> {
        let at = Nanos(now.saturating_sub(DELAY) / INTERVAL * INTERVAL);
        let mut results = Vec::new();
        for group in self.groups.values_mut().filter(|group| group.newest + IDLE > now) {
            for own in group.method.evaluate(at) {
                let [a, b] = [&self.subflows[&own.a], &self.subflows[&own.b]];
                if a.connection == b.connection {
                    let pair = (own.a.min(own.b), own.a.max(own.b));
                    let PairEvaluation { verdict, probability, .. } = own;
                    results.push(PairResult { pair, verdict, probability, is_capped: false });
                }
            }
        }
        Ok(results)
    }

    fn closed(&self) -> Option<Vec<SubflowId>> {
        let closed: Option<Vec<_>> = self.groups.values().map(|group| group.method.closed()).collect();
        Some(closed.filter(|_| !self.groups.is_empty())?.concat())
    }
}
