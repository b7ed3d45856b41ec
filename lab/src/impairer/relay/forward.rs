// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of one direction of the relay: receives a batch, holds each frame until it is due, sends a batch.
//! `delay_line.rs` computes when a frame is due.

use super::corruption::Corrupter;
use super::delay_line::{DelayLine, is_tcp, nanos};
use super::state::DirectionState;
use crate::error::{Error, Result};
use crate::sys::{self, Arrival, BATCH};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Size of the largest frame in bytes: an MTU of 9000 bytes, with room for headers.
const MAX_FRAME: usize = 9216;
/// Size of the buffer of each packet socket in bytes, enough for about 10 000 full frames.
const SOCKET_BUFFER: usize = 32 << 20;
/// Maximum number of frames held in one direction. Full frames at 400 Mbit/s reach it with a delay of 1 s.
const MAX_HELD: usize = 1 << 15;
/// Frames that are due within a hundredth of the delay (the slack) are sent with the current batch, because timers and wake-ups cost
/// more than forwarding a frame, above all in a virtual machine.
const DELAY_PER_SLACK: u64 = 100;
/// Bounds of the slack in nanoseconds.
const SLACK: std::ops::RangeInclusive<u64> = 10_000..=100_000;
/// While frames keep arriving, the relay receives a batch at this interval (in nanoseconds) instead of each frame on arrival.
/// The kernel timestamps arrivals, so a late receive does not change the delay.
const RECEIVE_INTERVAL: u64 = 200_000;

/// Opens the packet socket of one interface of the calling thread's namespace.
pub(super) fn open(interface: &str) -> Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface).map_err(Error::os("find", interface))?;
    sys::packet_socket(index, SOCKET_BUFFER).map_err(Error::os("open a packet socket on", interface))
}

struct HeldFrame {
    due: u64,
    frame: Vec<u8>,
    length: usize,
}

struct Forwarder<'a> {
    state: &'a DirectionState,
    line: DelayLine,
    corrupter: Corrupter,
    held: VecDeque<HeldFrame>,
    /// Buffers for received frames.
    spare: Vec<Vec<u8>>,
    arrivals: [Arrival; BATCH],
    /// Whether the last receive returned frames.
    is_receiving: bool,
}

/// Forwards frames until the relay stops.
pub(super) fn run(state: &DirectionState, from: &OwnedFd, to: &OwnedFd) -> Result<()> {
    // The default timer slack of 50 µs would add to every round-trip time.
    nix::sys::prctl::set_timerslack(1).map_err(Error::os("set", "the timer slack"))?;
    let mut forwarder = Forwarder {
        state,
        line: DelayLine::new(state.impairment(), now(ClockId::CLOCK_MONOTONIC)),
        corrupter: Corrupter::default(),
        held: VecDeque::new(),
        spare: Vec::new(),
        arrivals: [Arrival::default(); BATCH],
        is_receiving: false,
    };
    while !state.is_stopped() {
        let readable = forwarder.wait(from)?;
        if let Some(impairment) = state.changed_impairment() {
            forwarder.line.impairment = impairment;
        }
        if readable {
            forwarder.receive(from)?;
        }
        forwarder.send_due(to)?;
    }
    Ok(())
}

impl Forwarder<'_> {
    /// Waits until a frame arrives or is due. Returns whether frames may have arrived.
    fn wait(&self, from: &OwnedFd) -> Result<bool> {
        let left = self.held.front().map(|first| first.due.saturating_sub(now(ClockId::CLOCK_MONOTONIC)));
        let batching = self.is_receiving && nanos(self.line.impairment.delay) > 2 * RECEIVE_INTERVAL;
        let timeout = if batching {
            Some(left.map_or(RECEIVE_INTERVAL, |left| left.min(RECEIVE_INTERVAL)))
        } else {
            left
        };
        let mut ends = [
            PollFd::new(self.state.wake_fd(), PollFlags::POLLIN),
            PollFd::new(from.as_fd(), PollFlags::POLLIN),
        ];
        let polled = if batching { &mut ends[..1] } else { &mut ends };
        let timeout = timeout.map(|nanos| TimeSpec::from_duration(Duration::from_nanos(nanos)));
        match ppoll(polled, timeout, None) {
            Ok(_) => Ok(batching || ends[1].any().unwrap_or(false)),
            Err(nix::Error::EINTR) => Ok(false),
            Err(error) => Err(Error::os("wait for", "packets")(error)),
        }
    }

    fn receive(&mut self, from: &OwnedFd) -> Result<()> {
        while self.spare.len() < BATCH {
            self.spare.push(vec![0; MAX_FRAME]);
        }
        self.is_receiving = false;
        let first = self.spare.len() - BATCH;
        let received = match sys::receive_frames(from, &mut self.spare[first..], &mut self.arrivals) {
            Ok(received) => received,
            // The kernel reports ENETDOWN once when the interface goes down. The interface may come up again.
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(Error::os("receive from", "a packet socket")(error)),
        };
        self.is_receiving = received > 0;
        // The kernel's timestamps are in wall-clock time, due times in monotonic time.
        let now_monotonic = now(ClockId::CLOCK_MONOTONIC);
        let now_wall = now(ClockId::CLOCK_REALTIME);
        let filled = self.spare.drain(first..first + received);
        let corrupt_nth = self.line.impairment.corrupt_nth;
        for (mut frame, arrival) in filled.zip(self.arrivals) {
            let timestamp = u64::try_from(arrival.timestamp).unwrap_or(0);
            let age = if timestamp == 0 { 0 } else { now_wall.saturating_sub(timestamp) };
            if is_tcp(&frame[..arrival.length.min(MAX_FRAME)]) && self.line.drops_next() {
                self.state.lost.fetch_add(1, Ordering::Relaxed);
            } else if self.held.len() >= MAX_HELD {
                self.state.overflowed.fetch_add(1, Ordering::Relaxed);
            } else {
                let length = arrival.length.min(frame.len());
                let is_corrupted = self.corrupter.pass(&mut frame[..length], corrupt_nth);
                self.state.corrupted.fetch_add(u64::from(is_corrupted), Ordering::Relaxed);
                self.held.push_back(HeldFrame {
                    due: self.line.send_time(now_monotonic.saturating_sub(age)),
                    length,
                    frame,
                });
            }
        }
        Ok(())
    }

    fn send_due(&mut self, to: &OwnedFd) -> Result<()> {
        let slack = nanos(self.line.impairment.delay) / DELAY_PER_SLACK;
        let horizon = now(ClockId::CLOCK_MONOTONIC) + slack.clamp(*SLACK.start(), *SLACK.end());
        let mut due = self.held.partition_point(|frame| frame.due <= horizon);
        while due > 0 {
            let batch: Vec<&[u8]> =
                self.held.iter().take(due.min(BATCH)).map(|held| &held.frame[..held.length]).collect();
            let count = batch.len();
            let (sent, is_refused) = match sys::send_frames(to, &batch) {
                // sendmmsg stops at the first frame that the queue drops.
                Ok(sent) => (sent, false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_transient(&error) => (0, !is_full_queue(&error)),
                Err(error) => return Err(Error::os("send to", "a packet socket")(error)),
            };
            let dropped = usize::from(sent < count);
            self.count(sent, dropped, is_refused);
            due -= sent + dropped;
        }
        Ok(())
    }

    /// `is_refused`: the queue did not drop the frames; they could not be sent.
    fn count(&mut self, sent: usize, dropped: usize, is_refused: bool) {
        let bytes: usize = self.held.iter().take(sent).map(|frame| frame.length).sum();
        let state = self.state;
        state.forwarded.fetch_add(sent as u64, Ordering::Relaxed);
        state.forwarded_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let drops = if is_refused { &state.refused } else { &state.queue_drops };
        drops.fetch_add(dropped as u64, Ordering::Relaxed);
        let done = self.held.drain(..sent + dropped).map(|done| done.frame);
        self.spare.extend(done);
    }
}

fn is_full_queue(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}

/// Whether the relay continues after this error: a full queue, an interface that is down, a signal, or a frame longer than the MTU.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENETDOWN | libc::EINTR | libc::ENXIO | libc::EMSGSIZE)
    )
}

fn now(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairer::impairment::Impairment;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};

    #[test]
    fn a_full_queue_drops_frames_and_a_long_frame_is_refused() {
        let state = DirectionState::new(Impairment::default()).unwrap();
        let mut forwarder = Forwarder {
            state: &state,
            line: DelayLine::new(Impairment::default(), 0),
            corrupter: Corrupter::default(),
            held: VecDeque::new(),
            spare: Vec::new(),
            arrivals: [Arrival::default(); BATCH],
            is_receiving: false,
        };
        // This socket replaces the interface: it has room for a few frames, and refuses frames that are longer than its buffer.
        let (to, _from) =
            socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::empty()).unwrap();
        setsockopt(&to, sockopt::SndBuf, &8_192).unwrap();
        let mut send = |frames: usize, length: usize| {
            forwarder.held.extend((0..frames).map(|_| HeldFrame { due: 0, frame: vec![0; length], length }));
            forwarder.send_due(&to).unwrap();
            let counters = state.counters();
            (counters.forwarded, counters.queue_drops, counters.refused)
        };
        assert_eq!(send(2, 1 << 20), (0, 0, 2));
        let (passed, drops, refused) = send(100, 1_000);
        assert!(passed > 0 && drops > 0, "{passed} {drops}");
        assert_eq!((passed + drops, refused), (100, 2));
    }
}
