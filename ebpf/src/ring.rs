// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring buffers through which records arrive, and the queue in which they wait to be decoded.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{Object, RingBuffer, RingBufferBuilder};
use mpwatch_model::event::KernelEvent;

use crate::decode;
use crate::error::{TracerError, bpf_error};
use crate::object::map;

/// Bytes that the kernel puts before each record of a ring.
const HEADER_BYTES: usize = libbpf_sys::BPF_RINGBUF_HDR_SZ as usize;

/// Memory that is kept for the next records, in bytes. Full rings have dozens of times as much, for example when this process was not
/// scheduled for some seconds.
const KEPT_BYTES: usize = 256 << 10;
/// The shortest record is a few dozen bytes.
const KEPT_LENGTHS: usize = KEPT_BYTES / 64;

/// Records that have not been decoded yet, one after the other. The memory is reused.
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

    /// Forgets all records, and gives back the memory of a burst.
    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.lengths.shrink_to(KEPT_LENGTHS);
    }
}

/// What was read from the rings since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// Records of subflows and connections.
    pub(crate) records: u64,
    /// RTT samples.
    pub(crate) samples: u64,
    /// Bytes of their batches in the ring.
    pub(crate) sample_bytes: u64,
    /// Records that could not be decoded.
    pub(crate) errors: u64,
}

/// The three rings of the kernel side.
pub(crate) struct Rings {
    events: RingBuffer<'static>,
    overflow: RingBuffer<'static>,
    samples: RingBuffer<'static>,
    queue: Rc<RefCell<Queue>>,
    pub(crate) received: Received,
}

impl Rings {
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        let queue = Rc::default();
        Ok(Self {
            events: ring(object, "events", &queue)?,
            overflow: ring(object, "overflow", &queue)?,
            samples: ring(object, "samples", &queue)?,
            queue,
            received: Received::default(),
        })
    }

    /// Waits for records; then decodes all of them.
    pub(crate) fn poll(
        &mut self,
        timeout: Duration,
        sink: &mut dyn FnMut(&KernelEvent),
    ) -> Result<(), TracerError> {
        match self.events.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(bpf_error("read the ring buffer")(error));
            }
            _ => {}
        }
        self.deliver(sink)
    }

    /// Decodes everything that has arrived, including the overflow ring.
    pub(crate) fn drain(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.events.consume().map_err(bpf_error("read the ring buffer"))?;
        self.overflow.consume().map_err(bpf_error("read the overflow ring"))?;
        self.deliver(sink)
    }

    /// Decodes the records that have arrived, then the samples.
    fn deliver(&mut self, sink: &mut dyn FnMut(&KernelEvent)) -> Result<(), TracerError> {
        self.samples.consume().map_err(bpf_error("read the ring of samples"))?;
        let mut queue = self.queue.borrow_mut();
        let mut left = &queue.bytes[..];
        for &length in &queue.lengths {
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
        queue.clear();
        Ok(())
    }
}

fn ring(object: &Object, name: &str, queue: &Rc<RefCell<Queue>>) -> Result<RingBuffer<'static>, TracerError> {
    let map = map(object, name)?;
    let queue = Rc::clone(queue);
    let receive = move |record: &[u8]| {
        queue.borrow_mut().push(record);
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
    fn the_memory_of_a_burst_is_given_back() {
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
