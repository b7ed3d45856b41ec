// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of network namespaces, which the kernel identifies by numbers only, and of pods, which are found by the paths of their control
//! groups. A name becomes an event once a connection needs it, so that recordings contain the name.

pub(crate) mod kubernetes;
mod pods;
mod watch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use mpwatch_ebpf::netns_cookie::CookieReader;
use mpwatch_model::id::NetnsCookie;
use mpwatch_model::kernel::event::{KernelEvent, NetnsName};

use pods::Pods;
use watch::{Change, Watcher};

/// How long the name of a removed namespace is kept: records of its last connections may still arrive.
const KEEP_REMOVED: Duration = Duration::from_mins(5);
/// Maximum number of namespaces that are remembered. Beyond it, all are forgotten, and their names are reported again. It is half the
/// number of names that the tracker keeps, so that the tracker never discards a name permanently.
const MAX_NAMESPACES: usize = 8_192;

/// Names of pods and of namespaces with connections. Cookies identify namespaces, because the kernel reuses inodes.
#[derive(Default)]
pub(crate) struct Names {
    /// `None`: this kernel or system cannot report names.
    watcher: Option<Watcher>,
    known: HashMap<NetnsCookie, NetnsName>,
    removed: VecDeque<(Instant, NetnsCookie)>,
    /// Namespaces that have connections but no known name.
    unnamed: HashSet<NetnsCookie>,
    /// Namespaces whose names have become events.
    reported: HashSet<NetnsCookie>,
    pods: Pods,
}

impl Names {
    /// Reads existing names and watches for new names. If that is not possible, namespaces have no names.
    pub(crate) fn watch(reader: Option<CookieReader>) -> Self {
        let watcher = reader.and_then(|reader| Watcher::start(reader).ok());
        Self { watcher, ..Self::default() }
    }

    /// Notes the namespace of an event, or a control group.
    pub(crate) fn note(&mut self, event: &KernelEvent) {
        let netns = match event {
            KernelEvent::Subflow(record) => record.netns,
            KernelEvent::Connection(record) => record.netns,
            KernelEvent::Cgroup(name) => return self.pods.note(name, Instant::now()),
            _ => return,
        };
        if !self.reported.contains(&netns) {
            self.unnamed.insert(netns);
        }
    }

    /// The names, found since the last call, of namespaces and control groups with connections.
    pub(crate) fn resolve(&mut self) -> Vec<KernelEvent> {
        let changes: Vec<Change> = self.watcher.iter().flat_map(Watcher::changes).collect();
        for change in changes {
            self.apply(change, Instant::now());
        }
        let named: Vec<NetnsCookie> =
            self.unnamed.iter().filter(|netns| self.known.contains_key(netns)).copied().collect();
        let events = named.iter().filter_map(|netns| self.known.get(netns)).cloned().map(KernelEvent::Netns);
        let events: Vec<KernelEvent> = events.chain(self.pods.resolve(Instant::now())).collect();
        for netns in named {
            self.unnamed.remove(&netns);
            self.reported.insert(netns);
        }
        self.forget(Instant::now());
        events
    }

    /// Applies a change. If a namespace has several names, the first name stays.
    fn apply(&mut self, change: Change, now: Instant) {
        match change {
            Change::Named(netns, name) => {
                self.removed.retain(|(_, removed)| *removed != netns);
                self.known.entry(netns).or_insert(name);
            }
            Change::Removed(netns) => self.removed.push_back((now, netns)),
        }
    }

    fn forget(&mut self, now: Instant) {
        let is_due = |(since, _): &mut (Instant, NetnsCookie)| now.duration_since(*since) >= KEEP_REMOVED;
        while let Some((_, netns)) = self.removed.pop_front_if(is_due) {
            self.known.remove(&netns);
            self.unnamed.remove(&netns);
            self.reported.remove(&netns);
        }
        for namespaces in [&mut self.unnamed, &mut self.reported] {
            if namespaces.len() > MAX_NAMESPACES {
                namespaces.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::kernel::event::{NetnsName, Tick};

    use super::*;

    fn named(cookie: u64, name: &str) -> (NetnsCookie, NetnsName) {
        let netns = NetnsCookie(cookie);
        (netns, NetnsName { netns, inode: 1, name: name.to_owned() })
    }

    /// Names with connections in these namespaces.
    fn with_connections(cookies: &[u64]) -> Names {
        Names { unnamed: cookies.iter().copied().map(NetnsCookie).collect(), ..Names::default() }
    }

    fn resolved(names: &mut Names) -> Vec<String> {
        let text = |event| match event {
            KernelEvent::Netns(name) => format!("{} {}", name.netns.0, name.name),
            other => format!("{other:?}"),
        };
        let mut all: Vec<String> = names.resolve().into_iter().map(text).collect();
        all.sort();
        all
    }

    #[test]
    fn a_name_is_reported_once_and_only_where_there_is_a_connection() {
        let mut names = with_connections(&[7]);
        let now = Instant::now();
        assert!(resolved(&mut names).is_empty(), "the name is unknown");
        for (netns, name) in [named(7, "a"), named(8, "b"), named(7, "second")] {
            names.apply(Change::Named(netns, name), now);
        }
        assert_eq!(resolved(&mut names), ["7 a"]);
        names.note(&KernelEvent::Tick(Tick::default()));
        assert!(resolved(&mut names).is_empty());
    }

    #[test]
    fn the_name_of_a_removed_namespace_is_kept_for_its_last_connections_and_then_forgotten() {
        let mut names = with_connections(&[]);
        let now = Instant::now();
        let (netns, name) = named(7, "a");
        names.apply(Change::Named(netns, name), now);
        names.apply(Change::Removed(netns), now);
        names.unnamed.insert(netns);
        assert_eq!(resolved(&mut names), ["7 a"]);
        names.forget(now + KEEP_REMOVED);
        assert!(names.known.is_empty() && names.reported.is_empty() && names.removed.is_empty());
    }
}
