// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring buffers through which records arrive, and the queue of records to decode. While the tracing thread is busy with a tick or a long
//! queue, a second thread empties the rings: at the highest connection rate they are full after half a second, and a tick may take longer.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{Object, RingBuffer, RingBufferBuilder};
use mpwatch_model::kernel::event::KernelEvent;

use super::object::map;
use crate::decode;
use crate::error::{TracerError, bpf_error};

/// Bytes that the kernel puts before each record of a ring.
const HEADER_BYTES: usize = libbpf_sys::BPF_RINGBUF_HDR_SZ as usize;

/// Memory kept for the next records, in bytes. Memory beyond it, allocated for a burst (for example because this process was not scheduled for
/// some seconds), is freed.
const KEPT_BYTES: usize = 256 << 10;
/// Number of lengths for which memory is kept; a record has at least a few dozen bytes.
const KEPT_LENGTHS: usize = KEPT_BYTES / 64;
/// Interval at which the second thread empties the rings.
const READ_INTERVAL: Duration = Duration::from_millis(5);
/// Above this size of the queue, the second thread stops emptying the rings. Full rings lose records, which the programs count. The size is
/// reached after three seconds at 20 000 records per second.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// Records to decode, one after the other. The memory is reused.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Queue {
    fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.lengths.push(record.len());
    }

    /// Removes all records and frees the memory of a burst.
    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.lengths.shrink_to(KEPT_LENGTHS);
    }
}

/// Totals read from the rings since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// All records except RTT samples and control groups.
    pub(crate) records: u64,
    /// RTT samples.
    pub(crate) samples: u64,
    /// Bytes of the batches of RTT samples, with the headers of the ring.
    pub(crate) sample_bytes: u64,
    /// Records that could not be decoded.
    pub(crate) errors: u64,
}

/// The three rings and the queue of their records.
struct Reader {
    events: RingBuffer<'static>,
    overflow: RingBuffer<'static>,
    samples: RingBuffer<'static>,
    queue: Arc<Mutex<Queue>>,
}

impl Reader {
    fn open(object: &Object) -> Result<Self, TracerError> {
        let queue = Arc::default();
        Ok(Self {
            events: ring(object, "events", &queue)?,
            overflow: ring(object, "overflow", &queue)?,
            samples: ring(object, "samples", &queue)?,
            queue,
        })
    }

    /// Waits for final records, and moves them and the RTT samples to the queue.
    fn wait(&self, timeout: Duration) -> Result<(), TracerError> {
        match self.events.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                Err(bpf_error("read the ring buffer")(error))
            }
            _ => self.samples.consume().map_err(bpf_error("read the ring of samples")),
        }
    }

    /// Moves all records from the rings to the queue.
    fn empty(&self) -> Result<(), TracerError> {
        self.events.consume().map_err(bpf_error("read the ring buffer"))?;
        self.overflow.consume().map_err(bpf_error("read the overflow ring"))?;
        self.samples.consume().map_err(bpf_error("read the ring of samples"))
    }

    fn is_full(&self) -> bool {
        lock(&self.queue).bytes.len() > MAX_QUEUED_BYTES
    }
}

/// The second thread. It empties the rings while it is active.
struct Helper {
    state: Arc<HelperState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct HelperState {
    is_active: AtomicBool,
    has_ended: AtomicBool,
}

impl Helper {
    fn start(reader: &Arc<Mutex<Reader>>) -> io::Result<Self> {
        let state = Arc::<HelperState>::default();
        let (reader, shared) = (Arc::clone(reader), Arc::clone(&state));
        let run = move || {
            while !shared.has_ended.load(Ordering::Acquire) {
                if !shared.is_active.load(Ordering::Acquire) {
                    thread::park();
                    continue;
                }
                let reader = lock(&reader);
                // On an error this thread ends; the tracing thread reads the rings after the tick and reports the error.
                if !reader.is_full() && reader.empty().is_err() {
                    return;
                }
                drop(reader);
                thread::park_timeout(READ_INTERVAL);
            }
        };
        let thread = thread::Builder::new().name("mpwatch-rings".to_owned()).spawn(run)?;
        Ok(Self { state, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic and returns nothing.
            let _ = thread.join();
        }
    }
}

/// The rings, the second thread that empties them, and totals.
pub(crate) struct Rings {
    // First, so that the thread ends before the reader that it uses is dropped.
    helper: Option<Helper>,
    reader: Arc<Mutex<Reader>>,
    queue: Arc<Mutex<Queue>>,
    /// Records that are being decoded. Empty outside of [`Rings::deliver`].
    decoded: Queue,
    pub(crate) received: Received,
}

impl Rings {
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        let reader = Reader::open(object)?;
        Ok(Self {
            helper: None,
            queue: Arc::clone(&reader.queue),
            reader: Arc::new(Mutex::new(reader)),
            decoded: Queue::default(),
            received: Received::default(),
        })
    }

    /// Lets a second thread empty the rings until [`Rings::poll`] is called. If a task limit prevents its creation, full rings lose records,
    /// which the programs count.
    pub(crate) fn begin_tick(&mut self) {
        if self.helper.is_none() {
            self.helper = Helper::start(&self.reader).ok();
        }
        self.set_helper_active(true);
    }

    fn set_helper_active(&self, is_active: bool) {
        let Some(Helper { state, thread }) = &self.helper else { return };
        let was_active = state.is_active.swap(is_active, Ordering::Release);
        if let (true, false, Some(thread)) = (is_active, was_active, thread) {
            thread.thread().unpark();
        }
    }

    /// Waits for records, then decodes those in the queue.
    pub(crate) fn poll(
        &mut self,
        timeout: Duration,
        sink: &mut dyn FnMut(&KernelEvent),
    ) -> Result<(), TracerError> {
        self.set_helper_active(false);
        let reader = lock(&self.reader);
        // The second thread adds to the queue only while it holds the reader.
        let has_waiting = !lock(&self.queue).lengths.is_empty();
        reader.wait(if has_waiting { Duration::ZERO } else { timeout })?;
        drop(reader);
        self.deliver(sink);
        Ok(())
    }

    /// Decodes everything that has arrived, including the overflow ring.
    pub(crate) fn drain(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        lock(&self.reader).empty()?;
        self.deliver(sink);
        Ok(())
    }

    /// Decodes the records in the queue. More records may arrive at the same time.
    fn deliver(&mut self, sink: &mut dyn FnMut(&KernelEvent)) {
        mem::swap(&mut *lock(&self.queue), &mut self.decoded);
        // Decoding a burst may take longer than the rings need to fill.
        if self.decoded.bytes.len() > KEPT_BYTES {
            self.set_helper_active(true);
        }
        let mut left = &self.decoded.bytes[..];
        for &length in &self.decoded.lengths {
            let (record, behind) = left.split_at(length);
            left = behind;
            let event = decode::record(record);
            match &event {
                Some(KernelEvent::Samples(batch)) => {
                    self.received.samples += batch.samples.len() as u64;
                    self.received.sample_bytes += (HEADER_BYTES + length) as u64;
                }
                Some(KernelEvent::Cgroup(_)) => {}
                _ => self.received.records += 1,
            }
            match event {
                Some(event) => sink(&event),
                None => self.received.errors += 1,
            }
        }
        self.decoded.clear();
    }
}

/// Ignores poisoning: a thread that panicked leaves whole records.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ring(object: &Object, name: &str, queue: &Arc<Mutex<Queue>>) -> Result<RingBuffer<'static>, TracerError> {
    let map = map(object, name)?;
    let queue = Arc::clone(queue);
    let receive = move |record: &[u8]| {
        lock(&queue).push(record);
        0
    };
    let mut builder = RingBufferBuilder::new();
    let cannot_open = || bpf_error(format!("open the ring {name}"));
    builder.add(&map, receive).map_err(cannot_open())?;
    builder.build().map_err(cannot_open())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_burst_is_freed() {
        let mut queue = Queue::default();
        for _ in 0..20_000 {
            queue.push(&[1; 800]);
        }
        queue.clear();
        assert!(queue.bytes.is_empty() && queue.lengths.is_empty());
        assert!(queue.bytes.capacity() <= KEPT_BYTES, "{}", queue.bytes.capacity());
        assert!(queue.lengths.capacity() <= KEPT_LENGTHS, "{}", queue.lengths.capacity());
    }
}
