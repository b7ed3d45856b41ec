// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of one direction of the relay: receive a batch, hold each frame until it is due, send a batch.
//! Owns the frames and the clock; when a frame is due is `delay_line.rs`.

use super::Lane;
use super::delay_line::{DelayLine, is_tcp, nanos};
use crate::error::{Error, Result};
use crate::sys::{self, Arrival, BATCH};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The largest frame: a 9000-byte MTU with its headers.
const FRAME: usize = 9216;
/// Each packet socket's buffer: about 10 000 full frames.
const SOCKET_BUFFER: usize = 32 << 20;
/// Most frames that wait in one direction: 1 s at 400 Mbit/s.
const MOST_WAITING: usize = 1 << 15;
/// Frames that are due within this share of the delay go with the present batch: timers and wake-ups cost
/// more than moving a frame, most of all in a virtual machine.
const SLACK_SHARE: u64 = 100;
/// Bounds of that slack.
const SLACK: std::ops::RangeInclusive<u64> = 10_000..=100_000;
/// While frames keep coming the relay looks for more this often only, not for each one: arrivals carry the
/// kernel's stamp, so being late to fetch them does no harm.
const NAP: u64 = 200_000;

/// Opens the packet socket of one interface of the calling thread's namespace.
pub(super) fn open(interface: &str) -> Result<OwnedFd> {
    let index = nix::net::if_::if_nametoindex(interface).map_err(Error::os("find", interface))?;
    sys::packet_socket(index, SOCKET_BUFFER).map_err(Error::os("open a packet socket on", interface))
}

struct Waiting {
    due: u64,
    frame: Vec<u8>,
    length: usize,
}

struct Wire<'a> {
    lane: &'a Lane,
    line: DelayLine,
    waiting: VecDeque<Waiting>,
    spare: Vec<Vec<u8>>,
    arrivals: [Arrival; BATCH],
    /// Whether the last look found frames.
    flowing: bool,
}

/// Passes frames on until the lane is stopped.
pub(super) fn run(lane: &Lane, from: &OwnedFd, to: &OwnedFd) -> Result<()> {
    // The usual 50 us slack of timers would show in every round trip.
    nix::sys::prctl::set_timerslack(1).map_err(Error::os("set", "the timer slack"))?;
    let rule = *lane.rule.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wire = Wire {
        lane,
        line: DelayLine::new(rule, now(ClockId::CLOCK_MONOTONIC)),
        waiting: VecDeque::new(),
        spare: Vec::new(),
        arrivals: [Arrival::default(); BATCH],
        flowing: false,
    };
    while !lane.stop.load(Ordering::Acquire) {
        let readable = wire.sleep(from)?;
        if lane.rule_changed.swap(false, Ordering::AcqRel) {
            wire.line.rule = *lane.rule.lock().unwrap_or_else(PoisonError::into_inner);
        }
        if readable {
            wire.receive(from)?;
        }
        wire.send_due(to)?;
    }
    Ok(())
}

impl Wire<'_> {
    /// Waits for a frame to arrive or to fall due; whether it is worth looking for arrivals.
    fn sleep(&self, from: &OwnedFd) -> Result<bool> {
        let left = self.waiting.front().map(|first| first.due.saturating_sub(now(ClockId::CLOCK_MONOTONIC)));
        let napping = self.flowing && nanos(self.line.rule.delay) > 2 * NAP;
        let timeout = if napping { Some(left.map_or(NAP, |left| left.min(NAP))) } else { left };
        let mut ends = [
            PollFd::new(self.lane.wake.1.as_fd(), PollFlags::POLLIN),
            PollFd::new(from.as_fd(), PollFlags::POLLIN),
        ];
        let watched = if napping { &mut ends[..1] } else { &mut ends };
        let timeout = timeout.map(|nanos| TimeSpec::from_duration(Duration::from_nanos(nanos)));
        match ppoll(watched, timeout, None) {
            Ok(_) => Ok(napping || ends[1].any().unwrap_or(false)),
            Err(nix::Error::EINTR) => Ok(false),
            Err(error) => Err(Error::os("wait for", "packets")(error)),
        }
    }

    fn receive(&mut self, from: &OwnedFd) -> Result<()> {
        while self.spare.len() < BATCH {
            self.spare.push(vec![0; FRAME]);
        }
        self.flowing = false;
        let first = self.spare.len() - BATCH;
        let received = match sys::receive_frames(from, &mut self.spare[first..], &mut self.arrivals) {
            Ok(received) => received,
            // ENETDOWN is reported once when the interface goes down; it may come up again.
            Err(error) if transient(&error) => return Ok(()),
            Err(error) => return Err(Error::os("receive from", "a packet socket")(error)),
        };
        self.flowing = received > 0;
        // The kernel stamps arrivals by the wall clock; queues are kept by the steady one.
        let now_steady = now(ClockId::CLOCK_MONOTONIC);
        let now_wall = now(ClockId::CLOCK_REALTIME);
        let filled = self.spare.drain(first..first + received);
        for (frame, arrival) in filled.zip(self.arrivals) {
            let stamp = u64::try_from(arrival.stamp).unwrap_or(0);
            let age = if stamp == 0 { 0 } else { now_wall.saturating_sub(stamp) };
            if is_tcp(&frame[..arrival.length.min(FRAME)]) && self.line.loses() {
                self.lane.lost.fetch_add(1, Ordering::Relaxed);
            } else if self.waiting.len() >= MOST_WAITING {
                self.lane.overflowed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.waiting.push_back(Waiting {
                    due: self.line.release(now_steady.saturating_sub(age)),
                    length: arrival.length.min(frame.len()),
                    frame,
                });
            }
        }
        Ok(())
    }

    fn send_due(&mut self, to: &OwnedFd) -> Result<()> {
        let slack = nanos(self.line.rule.delay) / SLACK_SHARE;
        let horizon = now(ClockId::CLOCK_MONOTONIC) + slack.clamp(*SLACK.start(), *SLACK.end());
        let mut due = self.waiting.partition_point(|frame| frame.due <= horizon);
        while due > 0 {
            let batch: Vec<&[u8]> = self
                .waiting
                .iter()
                .take(due.min(BATCH))
                .map(|waiting| &waiting.frame[..waiting.length])
                .collect();
            let count = batch.len();
            let sent = match sys::send_frames(to, &batch) {
                Ok(sent) => sent,
                Err(error) if transient(&error) => 0,
                Err(error) => return Err(Error::os("send to", "a packet socket")(error)),
            };
            // sendmmsg stops at the first frame that the queue refused: that one is the drop.
            let refused = usize::from(sent < count);
            self.count(sent, refused);
            due -= sent + refused;
        }
        Ok(())
    }

    fn count(&mut self, sent: usize, refused: usize) {
        let bytes: usize = self.waiting.iter().take(sent).map(|frame| frame.length).sum();
        let lane = self.lane;
        lane.forwarded.fetch_add(sent as u64, Ordering::Relaxed);
        lane.forwarded_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        lane.queue_drops.fetch_add(refused as u64, Ordering::Relaxed);
        let done = self.waiting.drain(..sent + refused).map(|done| done.frame);
        self.spare.extend(done);
    }
}

/// A full queue, an interface that is down for now, or an interruption.
fn transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENETDOWN | libc::EINTR | libc::ENXIO | libc::EMSGSIZE)
    )
}

fn now(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
