// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a run: builds the network, runs the traffic while mpwatch records it, samples the queues, and stores recording and truth.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bottleneck::queue_reader::QueueReader;
use crate::bottleneck::queues::{LIMIT, Sampler, boot_time};
use crate::bottleneck::trace::reduce;
use crate::bottleneck::truth::{QueueSample, SECOND, Time, Truth as PairTruth, filled, truth};
use crate::corpus::recording::{Recording, Subflow};
use crate::machine::{cpus, idle_time};
use mpwatch_lab::corpus::{App, Cross, Network, Queue, Route, Run, Traffic};
use mpwatch_testkit::Observer;

/// Maximum share of late queue samples.
const MAX_LATE: f64 = 0.2;
/// A run with bulk transfers is scored only if each queue contains packets for at least this share of the time.
const MIN_FILLED: f64 = 0.5;
/// Pairs are not scored for this time after a change of the route.
const SETTLE: Time = 3 * SECOND;

/// The truth about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// The run.
    pub run: Run,
    /// The link of each local address.
    pub links: Vec<(IpAddr, usize)>,
    /// With ECMP: the link of each subflow, by local address and port.
    #[serde(default)]
    pub subflows: Vec<(SocketAddr, usize)>,
    /// When all addresses moved to link 0. `None`: never.
    #[serde(default)]
    pub switched: Option<Time>,
    /// Samples of the links' queues. A policer has no queue.
    pub queues: Vec<QueueSample>,
    /// Share of late queue samples.
    pub late: f64,
    /// Share of the CPU time that was used.
    pub busy: f64,
}

impl Truth {
    /// The link of a subflow. `None`: unknown, or it changed less than 3 s before.
    pub fn link(&self, subflow: &Subflow, at: Time) -> Option<usize> {
        match self.switched.filter(|switched| at >= *switched) {
            Some(switched) => (at >= switched + SETTLE).then_some(0),
            None if self.run.condition.route == Route::Ecmp => find(&self.subflows, &subflow.local),
            None => find(&self.links, &subflow.path.local),
        }
    }

    /// The truth about two subflows that are both established since `since`. `None`: a link is unknown.
    pub fn pair(&self, pair: [&Subflow; 2], since: Time, at: Time) -> Option<PairTruth> {
        let links = [self.link(pair[0], at)?, self.link(pair[1], at)?];
        let queue = self.run.condition.queue;
        let found = match queue {
            // Bulk transfers always reach its rate.
            Queue::Policer if links[0] == links[1] => PairTruth::Shared,
            Queue::Policer => PairTruth::Disjoint,
            _ => truth(&self.queues, links, since, at),
        };
        Some(if found == PairTruth::Shared && queue.separates() { PairTruth::Cap } else { found })
    }

    /// The reason why the run is not scored: the machine was the bottleneck instead of a queue. `None`: the run is scored.
    pub fn flaw(&self) -> Option<String> {
        if self.late >= MAX_LATE {
            return Some(format!("{:.0} % of the queue samples were late", self.late * 100.0));
        }
        let (first, last) = self.queues.first().zip(self.queues.last())?;
        let from = first.at + SECOND;
        let until = self.switched.unwrap_or(last.at);
        let is_used =
            |link| self.subflows.is_empty() || self.subflows.iter().any(|(_, known)| *known == link);
        let mut used = (0..first.backlog.len()).filter(|link| is_used(*link));
        let empty = used.find(|link| filled(&self.queues, *link, from, until) < MIN_FILLED);
        let empty = empty.filter(|_| self.run.condition.app == App::Bulk)?;
        Some(format!("the queue of link {empty} was empty most of the time"))
    }
}

fn find<K: PartialEq>(links: &[(K, usize)], wanted: &K) -> Option<usize> {
    links.iter().find(|(known, _)| known == wanted).map(|(_, link)| *link)
}

/// Records a run. Files: `<run>.mpw` and, last, `<run>.json`.
pub fn record(run: &Run, folder: &Path) -> Result<Truth, Box<dyn std::error::Error>> {
    let network = Network::build(run)?;
    let tcp: &[&str] = if run.condition.cross == Cross::Traced { &["--tcp"] } else { &[] };
    let observer = Observer::start_every("250ms", &[&["--ledger", "off"], tcp].concat());
    let watch = |link| Ok((QueueReader::open(&network.router, &Network::queue_port(link))?, vec![LIMIT]));
    let queues = if run.condition.queue == Queue::Policer { 0 } else { run.condition.links() };
    let watches: mpwatch_lab::Result<Vec<_>> = (0..queues).map(watch).collect();
    let sampler = Sampler::with_watches(watches?);
    let (idle, start) = (idle_time(), Instant::now());
    let traffic = Traffic::start(&network, run)?;
    let mut switched = None;
    if run.condition.route == Route::Switch {
        thread::sleep(run.switch_at().saturating_sub(start.elapsed()));
        network.switch(&run.condition)?;
        switched = Some(boot_time());
    }
    thread::sleep(run.duration().saturating_sub(start.elapsed()));
    let busy = 1.0 - (idle_time() - idle) / (start.elapsed().as_secs_f64() * cpus() as f64);
    let (queues, late) = sampler.finish()?;
    traffic.finish()?;
    // Batches of samples are sent within 100 ms.
    thread::sleep(Duration::from_millis(300));
    let report = observer.finish();
    let file = folder.join(format!("{run}.mpw"));
    reduce(&report.recording(), network.client.inode(), &file)?;
    let mut subflows = Vec::new();
    if run.condition.route == Route::Ecmp {
        for subflow in Recording::read(&file)?.subflows.values() {
            subflows.push((subflow.local, network.link_of(subflow.local)?));
        }
    }
    let link = |address| (Network::client_address(address).into(), run.condition.link(address));
    let links = (0..run.condition.addresses.into()).map(link).collect();
    let truth = Truth { run: run.clone(), links, subflows, switched, queues, late, busy };
    fs::write(folder.join(format!("{run}.json")), serde_json::to_vec(&truth)?)?;
    Ok(truth)
}
