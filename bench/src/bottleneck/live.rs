// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a cell: builds the network, runs the traffic while mpwatch records it, samples the queues, and stores trace and labels.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::{Direction, Error, Topology};

use crate::bottleneck::queues::{Sampler, boot_time};
use crate::bottleneck::trace::{labels_of, reduce, trace_of};
use crate::bottleneck::truth::{Labels, Time};
use crate::machine::{cpus, idle_time};
use mpwatch_lab::bottleneck::cell::{Cell, Layout};
use mpwatch_lab::bottleneck::network::{cross_traffic, topology, traffic};
use mpwatch_testkit::Observer;

/// Runs a cell and stores its trace and labels in a folder.
pub fn record(cell: &Cell, folder: &Path) -> Result<Labels, Box<dyn std::error::Error>> {
    let lab = Topology::build(&topology(cell))?;
    let observer = Observer::start_every("250ms", &["--ledger", "off"]);
    let sampler = Sampler::start(&lab, cell)?;
    let idle = idle_time();
    let others = cross_traffic(&lab, cell)?;
    thread::sleep(Duration::from_millis(u64::from(cell.seed % 5) * 60));
    let start = Instant::now();
    let transfer = traffic(&lab, cell)?;
    let switched = wait_for_end(&lab, cell, start)?;
    transfer.control().cancel();
    // The report is ignored, because the traffic was cancelled.
    let _ = transfer.join();
    let busy = 1.0 - (idle_time() - idle) / (start.elapsed().as_secs_f64() * cpus() as f64);
    drop(others);
    let (queues, late) = sampler.finish()?;
    let report = observer.finish();
    reduce(&report.recording(), lab.client().inode(), &trace_of(folder, cell))?;
    let addresses = lab.paths().map(|path| path.client_address()).collect();
    let labels =
        Labels { cell: *cell, addresses, switched, queues, late, busy, overflowed: overflowed(&lab)? };
    fs::write(labels_of(folder, cell), serde_json::to_vec(&labels)?)?;
    Ok(labels)
}

/// Waits for the end of a cell. In [`Layout::Switching`], changes the route in the middle and returns the time of the change.
fn wait_for_end(lab: &Topology, cell: &Cell, start: Instant) -> Result<Option<Time>, Error> {
    let duration = Duration::from_secs(cell.seconds.into());
    let mut switched = None;
    if cell.layout == Layout::Switching {
        sleep_until(start + duration / 2);
        // Only the initial subflow follows the route. Joined subflows are bound to the interface of their endpoint.
        lab.path(0)?.reroute_over(&lab.path(1)?)?;
        switched = Some(boot_time());
    }
    sleep_until(start + duration);
    Ok(switched)
}

fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

/// Number of packets that the lab's relays dropped because their buffers were full.
fn overflowed(lab: &Topology) -> Result<u64, Error> {
    let mut sum = 0;
    for impairer in lab.paths().filter_map(|path| path.impairer()) {
        for direction in [Direction::Forward, Direction::Backward] {
            sum += impairer.counters(direction)?.overflowed;
        }
    }
    Ok(sum)
}
