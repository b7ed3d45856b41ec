// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the queues of a cell while its traffic runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mpwatch_lab::link::fair_handle;
use mpwatch_lab::{Direction, Error, Namespace, Topology};
use nix::time::{ClockId, clock_gettime};

use crate::bottleneck::queue_reader::QueueReader;
use crate::bottleneck::truth::{QueueSample, Time};
use mpwatch_lab::bottleneck::cell::{Cell, Layout};

const INTERVAL: Duration = Duration::from_millis(50);
/// Delay after which a sample counts as late.
const LATE: Duration = Duration::from_millis(25);

/// An interface with the handles of its queues.
pub(crate) type Watch = (QueueReader, Vec<u16>);

/// Samples of all queues, and the share of samples that were late.
pub(crate) type Sampled = Result<(Vec<QueueSample>, f64), Error>;

/// A thread that samples all queues until it is stopped.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sampled>,
}

impl Sampler {
    /// Starts sampling the queues of a cell.
    pub(crate) fn start(lab: &Topology, cell: &Cell) -> Result<Self, Error> {
        Ok(Self::with_watches(watches(lab, cell)?))
    }

    /// Starts sampling these interfaces, each with the handles of its queues.
    pub(crate) fn with_watches(watches: Vec<Watch>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || sample(&watches, &stop)
        });
        Self { stop, thread }
    }

    /// Stops sampling and returns the samples.
    pub(crate) fn finish(self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        mpwatch_lab::join(self.thread)
    }
}

/// Major number of the handle of a rate limit (`1:`).
pub(crate) const LIMIT: u16 = 1;

/// The interfaces of all queues.
fn watches(lab: &Topology, cell: &Cell) -> Result<Vec<Watch>, Error> {
    let bottleneck = |queue| lab.bottleneck_queue_port(queue, Direction::Forward);
    let ports: Vec<(&Namespace, &str)> = match cell.layout {
        Layout::Fair => bottleneck(0).into_iter().collect(),
        Layout::Disjoint | Layout::Switching => {
            lab.paths().filter_map(|path| path.queue_port(Direction::Forward)).collect()
        }
        Layout::Shared | Layout::Partly | Layout::TwoRates => {
            (0..cell.queues()).filter_map(bottleneck).collect()
        }
    };
    let handles = match cell.layout {
        Layout::Fair => (1..=9).take(cell.subflows).map(fair_handle).collect(),
        _ => vec![LIMIT],
    };
    let watch = |(namespace, interface)| Ok((QueueReader::open(namespace, interface)?, handles.clone()));
    ports.into_iter().map(watch).collect()
}

fn sample(watches: &[Watch], stop: &AtomicBool) -> Sampled {
    let queues = watches.iter().map(|(_, handles)| handles.len()).sum();
    let (mut samples, mut late) = (Vec::new(), 0_u32);
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        late += u32::from(due.elapsed() > LATE);
        let (mut backlog, mut drops) = (Vec::with_capacity(queues), Vec::with_capacity(queues));
        for (watch, handles) in watches {
            let found = watch.read()?;
            for handle in handles {
                let queue = found.get(handle).copied().unwrap_or_default();
                backlog.push(queue.backlog);
                drops.push(queue.drops);
            }
        }
        samples.push(QueueSample { at: boot_time(), backlog, drops });
        due = (due + INTERVAL).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let late_part = f64::from(late) / samples.len().max(1) as f64;
    Ok((samples, late_part))
}

/// The current time on the boot clock, the clock of delay samples.
pub(crate) fn boot_time() -> Time {
    let now: Duration = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux has this clock").into();
    u64::try_from(now.as_nanos()).unwrap_or(Time::MAX)
}
