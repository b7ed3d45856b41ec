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

/// Records that have not been decoded yet, one after the other. The memory is reused.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
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
        queue.bytes.clear();
        queue.lengths.clear();
        Ok(())
    }
}

fn ring(object: &Object, name: &str, queue: &Rc<RefCell<Queue>>) -> Result<RingBuffer<'static>, TracerError> {
    let map = map(object, name)?;
    let queue = Rc::clone(queue);
    let receive = move |record: &[u8]| {
        let mut queue = queue.borrow_mut();
        queue.bytes.extend_from_slice(record);
        queue.lengths.push(record.len());
        0
    };
    let mut builder = RingBufferBuilder::new();
    let cannot_open = || bpf_error(format!("open the ring {name}"));
    builder.add(&map, receive).map_err(cannot_open())?;
    builder.build().map_err(cannot_open())
}
