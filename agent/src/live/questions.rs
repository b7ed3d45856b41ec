// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out why connections have one path or fell back, while they are traced. A namespace is read only if a connection in it needs an answer.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mpwatch_ebpf::namespace::{self, Namespace};
use mpwatch_engine::why::{Question, cause_of};
use mpwatch_model::why::answer::{Cause, Explanation, Place};

use crate::why;

/// Maximum number of waiting connections; each takes about 0.3 kB. Beyond it, connections that become idle get no answer.
const MAX_WAITING: usize = 20_000;
/// Maximum number of peers whose connections are answered at a tick.
const MAX_PEERS: usize = 256;
/// Answers are given for this long at a tick, and for longer at the last one. The namespace that is then being read is still finished.
const MAX_TIME: Duration = Duration::from_millis(10);
const MAX_TIME_AT_END: Duration = Duration::from_secs(1);
/// Answers are followed by a pause of this many times their duration, so that they take at most 1 % of a CPU.
const PAUSE_FACTOR: u32 = 100;
/// Longest pause. On a busy machine most of the duration is waiting.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Connections that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: VecDeque<Question>,
    /// When the next answer may begin. `None`: at once.
    not_before: Option<Instant>,
    /// The namespaces at the last search.
    namespaces: Vec<Namespace>,
}

impl Questions {
    pub(crate) fn free(&self) -> usize {
        MAX_WAITING.saturating_sub(self.waiting.len())
    }

    pub(crate) fn add(&mut self, questions: Vec<Question>) {
        self.waiting.extend(questions);
    }

    /// Answers for connections, one namespace after the other, if no pause is due or at the end of the run (`is_last`). There is no answer without
    /// the right to enter the namespace.
    pub(crate) fn answer(&mut self, is_last: bool) -> Vec<Explanation> {
        let begin = Instant::now();
        let is_paused = self.not_before.is_some_and(|pause| begin < pause) && !is_last;
        if is_paused || self.waiting.is_empty() {
            return Vec::new();
        }
        let max_time = if is_last { MAX_TIME_AT_END } else { MAX_TIME };
        let mut answers = Vec::new();
        while let Some(next) = self.waiting.front().filter(|_| begin.elapsed() < max_time) {
            if let Some(here) = self.find(next.netns_inode) {
                answers.extend(self.explain(&here));
            }
        }
        let took = begin.elapsed();
        self.not_before = Some(begin + took + took.saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE));
        answers
    }

    /// The namespace with this inode. `None`: it was removed; then all connections in removed namespaces are dropped.
    fn find(&mut self, inode: u32) -> Option<Namespace> {
        let is_here = |found: &&Namespace| found.inode == inode && found.exists();
        if let Some(known) = self.namespaces.iter().find(is_here) {
            return Some(known.clone());
        }
        self.namespaces = namespace::all();
        let exist: BTreeSet<u32> = self.namespaces.iter().map(|found| found.inode).collect();
        self.waiting.retain(|question| exist.contains(&question.netns_inode));
        self.namespaces.iter().find(is_here).cloned()
    }

    fn explain(&mut self, found: &Namespace) -> Vec<Explanation> {
        let of_namespace = self.waiting.iter().filter(|question| question.netns_inode == found.inode);
        let peers: BTreeSet<IpAddr> = of_namespace.map(peer).take(MAX_PEERS).collect();
        let is_next =
            |question: &Question| question.netns_inode == found.inode && peers.contains(&peer(question));
        let (next, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_next);
        self.waiting.extend(waiting);
        let Ok(here) = why::read_for(found, &peers.into_iter().collect::<Vec<_>>()) else {
            return Vec::new();
        };
        let explain = |question: &Question| {
            let cause = cause_of(&here, question).map(|cause| lasting(cause, found).into());
            Explanation { connection: question.id, cause }
        };
        next.iter().map(explain).collect()
    }
}

fn peer(question: &Question) -> IpAddr {
    question.facts.remote.ip()
}

/// The cause without commands that enter the namespace through a process: after the end of the process, its number may lead to another namespace.
fn lasting(mut cause: Cause, found: &Namespace) -> Cause {
    if found.name.is_none() && cause.fix.iter().any(|fix| fix.on == Place::Here) {
        cause.fix.clear();
        cause.advice = Some("run `mpwatch why` for the command".into());
    }
    cause
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    #[test]
    fn connections_of_removed_namespaces_are_dropped() {
        let connection = fixture::connection(1, 1);
        let mut questions = Questions::default();
        questions.add(vec![Question { netns_inode: 1, ..Question::new(&connection).unwrap() }; 3]);
        assert_eq!((questions.answer(false), questions.waiting.len()), (Vec::new(), 0));
        assert_eq!(questions.free(), MAX_WAITING);
    }

    #[test]
    fn a_pause_follows_answers_but_not_at_the_end_of_the_run() {
        let connection = fixture::connection(1, 1);
        let mut questions = Questions::default();
        let removed = || vec![Question { netns_inode: 1, ..Question::new(&connection).unwrap() }];
        questions.add(removed());
        questions.answer(false);
        assert!(questions.not_before.is_some_and(|pause| pause <= Instant::now() + MAX_PAUSE));
        questions.not_before = Some(Instant::now() + MAX_PAUSE);
        questions.add(removed());
        questions.answer(false);
        assert_eq!(questions.waiting.len(), 1, "not before the end of the pause");
        questions.answer(true);
        assert_eq!(questions.waiting.len(), 0);
    }

    #[test]
    fn a_command_that_enters_through_a_process_is_not_kept() {
        let named = Namespace { inode: 1, name: Some("a".to_owned()), path: "/run/netns/a".into() };
        let mut cause = fixture::cause();
        cause.fix[0].on = Place::Here;
        assert_eq!(lasting(cause.clone(), &named), cause);
        let kept = lasting(cause, &Namespace { name: None, ..named });
        assert!(kept.fix.is_empty() && kept.advice.is_some(), "{kept:?}");
    }
}
