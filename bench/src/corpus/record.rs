// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a run: builds the network, runs the traffic while mpwatch records it, samples the queues, and stores recording and truth.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bottleneck::queue_reader::QueueReader;
use crate::bottleneck::queues::{LIMIT, Sampler};
use crate::bottleneck::trace::reduce;
use crate::bottleneck::truth::{QueueSample, SECOND, filled};
use crate::machine::{cpus, idle_time};
use mpwatch_lab::corpus::{App, Cross, Network, Run, Traffic};
use mpwatch_testkit::Observer;

/// Maximum share of late queue samples.
const MAX_LATE: f64 = 0.2;
/// A run with bulk transfers is scored only if each queue contains packets for at least this share of the time.
const MIN_FILLED: f64 = 0.5;

/// The truth about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// The run.
    pub run: Run,
    /// The link of each local address.
    pub links: Vec<(IpAddr, usize)>,
    /// Samples of the links' queues.
    pub queues: Vec<QueueSample>,
    /// Share of late queue samples.
    pub late: f64,
    /// Share of the CPU time that was used.
    pub busy: f64,
}

impl Truth {
    /// The link of an address.
    pub fn link(&self, address: IpAddr) -> Option<usize> {
        self.links.iter().find(|(known, _)| *known == address).map(|(_, link)| *link)
    }

    /// The reason why the run is not scored: the machine was the bottleneck instead of a queue. `None`: the run is scored.
    pub fn flaw(&self) -> Option<String> {
        if self.late >= MAX_LATE {
            return Some(format!("{:.0} % of the queue samples were late", self.late * 100.0));
        }
        let (first, last) = self.queues.first().zip(self.queues.last())?;
        let from = first.at + SECOND;
        let empty =
            (0..first.backlog.len()).find(|link| filled(&self.queues, *link, from, last.at) < MIN_FILLED);
        let empty = empty.filter(|_| self.run.condition.app == App::Bulk)?;
        Some(format!("the queue of link {empty} was empty most of the time"))
    }
}

/// Records a run. Files: `<run>.mpw` and, last, `<run>.json`.
pub fn record(run: &Run, folder: &Path) -> Result<Truth, Box<dyn std::error::Error>> {
    let network = Network::build(run)?;
    let tcp: &[&str] = if run.condition.cross == Cross::Traced { &["--tcp"] } else { &[] };
    let observer = Observer::start_every("250ms", &[&["--ledger", "off"], tcp].concat());
    let watch = |link| Ok((QueueReader::open(&network.router, &Network::queue_port(link))?, vec![LIMIT]));
    let watches: mpwatch_lab::Result<Vec<_>> = (0..run.condition.links()).map(watch).collect();
    let sampler = Sampler::with_watches(watches?);
    let (idle, start) = (idle_time(), Instant::now());
    let traffic = Traffic::start(&network, run)?;
    thread::sleep(run.duration().saturating_sub(start.elapsed()));
    let busy = 1.0 - (idle_time() - idle) / (start.elapsed().as_secs_f64() * cpus() as f64);
    let (queues, late) = sampler.finish()?;
    traffic.finish()?;
    // Batches of samples are sent within 100 ms.
    thread::sleep(Duration::from_millis(300));
    let report = observer.finish();
    reduce(&report.recording(), network.client.inode(), &folder.join(format!("{run}.mpw")))?;
    let link = |address| (Network::client_address(address).into(), run.condition.link(address));
    let links = (0..run.condition.addresses.into()).map(link).collect();
    let truth = Truth { run: run.clone(), links, queues, late, busy };
    fs::write(folder.join(format!("{run}.json")), serde_json::to_vec(&truth)?)?;
    Ok(truth)
}
