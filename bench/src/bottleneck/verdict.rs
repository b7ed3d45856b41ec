// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdicts of all methods on one trace. No I/O.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mpwatch_model::flow::bottleneck::Verdict;
use mpwatch_model::id::{SocketCookie, SubflowId};

use crate::bottleneck::truth::Time;

/// A subflow of a trace.
#[derive(Clone, Debug)]
pub struct Subflow {
    /// The connection of the subflow.
    pub connection: SocketCookie,
    /// The sender's address.
    pub address: IpAddr,
    /// Time at which the subflow was established. `None`: it never was.
    pub established: Option<Time>,
}

/// The verdict on a pair of subflows.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The first subflow.
    pub a: SubflowId,
    /// The second subflow.
    pub b: SubflowId,
    /// The verdict.
    pub verdict: Verdict,
    /// Unweighted evidence for a shared bottleneck (above 0) or against it (below 0). `None`: the method does not expose evidence.
    pub terms: Option<BTreeMap<&'static str, f64>>,
}

/// The result of one evaluation by one method.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Time up to which the evaluation used all samples.
    pub at: Time,
    /// The verdict on each pair of subflows.
    pub pairs: Vec<Pair>,
    /// Subflows that the method would close.
    pub extra: Vec<SubflowId>,
}

impl Evaluation {
    /// The verdict on two subflows, given in either order. `None`: the method did not evaluate them.
    pub fn pair(&self, a: SubflowId, b: SubflowId) -> Option<&Pair> {
        self.pairs.iter().find(|pair| [(a, b), (b, a)].contains(&(pair.a, pair.b)))
    }

    /// The verdict on two subflows; `Unknown` if the method did not evaluate them.
    pub fn verdict(&self, a: SubflowId, b: SubflowId) -> Verdict {
        self.pair(a, b).map_or(Verdict::Unknown, |pair| pair.verdict)
    }
}

/// All evaluations of a trace.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The subflows of the trace.
    pub subflows: BTreeMap<SubflowId, Subflow>,
    evaluations: BTreeMap<(String, SocketCookie), Vec<Evaluation>>,
}

impl Verdicts {
    /// Creates an empty list of evaluations.
    pub fn new(subflows: BTreeMap<SubflowId, Subflow>) -> Self {
        Self { subflows, evaluations: BTreeMap::new() }
    }

    /// Adds an evaluation. Evaluations of a method and connection must arrive in order of time.
    pub fn push(&mut self, method: &str, connection: SocketCookie, evaluation: Evaluation) {
        self.evaluations.entry((method.to_owned(), connection)).or_default().push(evaluation);
    }

    /// Names of the methods.
    pub fn methods(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.evaluations.keys().map(|(method, _)| method.as_str()).collect();
        names.dedup();
        names
    }

    /// Evaluations of a connection by a method, in order of time.
    pub fn evaluations(&self, method: &str, connection: SocketCookie) -> &[Evaluation] {
        self.evaluations.get(&(method.to_owned(), connection)).map_or(&[], Vec::as_slice)
    }

    /// Pairs of subflows of one connection that were both established.
    pub fn pairs(&self) -> Vec<(SubflowId, SubflowId)> {
        let established: Vec<_> =
            self.subflows.iter().filter(|(_, subflow)| subflow.established.is_some()).collect();
        let mut pairs = Vec::new();
        for (index, (id, subflow)) in established.iter().enumerate() {
            let others = established[index + 1..].iter();
            let others = others.filter(|(_, other)| other.connection == subflow.connection);
            pairs.extend(others.map(|(other, _)| (**id, **other)));
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> SubflowId {
        SubflowId { cookie: SocketCookie(number), generation: 0 }
    }

    #[test]
    fn only_established_subflows_of_one_connection_are_pairs() {
        let subflow = |connection, established| Subflow {
            connection: SocketCookie(connection),
            address: "10.1.1.2".parse().unwrap(),
            established,
        };
        let subflows = [(1, 7, Some(5)), (2, 7, Some(6)), (3, 8, Some(5)), (4, 7, None)];
        let named = subflows.map(|(number, connection, at)| (id(number), subflow(connection, at)));
        let verdicts = Verdicts::new(BTreeMap::from(named));
        assert_eq!(verdicts.pairs(), [(id(1), id(2))]);
    }

    #[test]
    fn a_pair_is_found_in_either_order() {
        let pair = Pair { a: id(1), b: id(2), verdict: Verdict::Shared, terms: None };
        let evaluation = Evaluation { at: 9, pairs: vec![pair], extra: Vec::new() };
        assert_eq!(evaluation.verdict(id(2), id(1)), Verdict::Shared);
        assert_eq!(evaluation.verdict(id(2), id(3)), Verdict::Unknown);
    }
}
