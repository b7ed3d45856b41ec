// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which subflows the published methods close. Snapshots contain only verdicts on pairs. Such verdicts cannot express that a
//! method closes every subflow of a link, as ESE does in its printed form.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use mpwatch_engine::bottleneck::{Method, PairEvaluation};
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use crate::published;

/// The closed subflows of all connections, by method; methods that do not close are absent. Subflow ids are unique until the next boot.
static CLOSED: Mutex<Option<HashMap<DetectionMethod, BTreeSet<SubflowId>>>> = Mutex::new(None);

/// Creates a published method whose closed subflows [`is_closed`] reports.
pub(crate) fn recorded_method(name: DetectionMethod) -> Box<dyn Method + Send> {
    Box::new(Recorded { name, method: published::new(name) })
}

/// Whether a method closed a subflow. `None`: the method does not close subflows.
pub(crate) fn is_closed(method: DetectionMethod, subflow: SubflowId) -> Option<bool> {
    let closed = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    Some(closed.as_ref()?.get(&method)?.contains(&subflow))
}

struct Recorded {
    name: DetectionMethod,
    method: Box<dyn Method + Send>,
}

impl Method for Recorded {
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]) {
        self.method.add(subflow, samples);
    }

    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation> {
        let pairs = self.method.evaluate(at);
        if let Some(closed) = self.method.closed() {
            let mut all = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
            all.get_or_insert_default().entry(self.name).or_default().extend(closed);
        }
        pairs
    }

    fn closed(&self) -> Option<Vec<SubflowId>> {
        self.method.closed()
    }

    fn forget(&mut self, subflow: SubflowId) {
        self.method.forget(subflow);
    }

    fn resume(&mut self, suspended_for: Nanos) {
        self.method.resume(suspended_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::id::SocketCookie;
    use mpwatch_model::unit::Micros;

    /// How many of two subflows on one congested link a method closes. `None`: the method does not close subflows.
    fn closed_of_two(name: DetectionMethod) -> Option<usize> {
        let ids = [1, 2].map(|cookie| SubflowId { cookie: SocketCookie(cookie), generation: 0 });
        let mut method = recorded_method(name);
        for (at, rtt) in [(1, 10_000), (2, 50_000), (3, 50_000)] {
            for id in ids {
                let sample =
                    DelaySample { at: Nanos(at), rtt: Micros(rtt), delivered: 1, lost: 0, cut: false };
                method.add(id, &[sample]);
            }
        }
        method.evaluate(Nanos(4));
        let closed: Option<Vec<bool>> = ids.iter().map(|id| is_closed(name, *id)).collect();
        closed.map(|closed| closed.into_iter().filter(|closed| *closed).count())
    }

    #[test]
    fn ese_as_printed_closes_every_subflow_of_a_link() {
        assert_eq!(closed_of_two(DetectionMethod::EseLiteral), Some(2));
        assert_eq!(closed_of_two(DetectionMethod::Rfc8382), None);
    }
}
