// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens and closes the windows of a sampled ledger, and decides when CPU time since the last charge is estimated from them.

use std::time::{Duration, Instant};

use mpwatch_ebpf::tracer::{FlowWork, Opening, Tracer};
use mpwatch_model::kernel::cpu::LedgerMode;

use crate::energy::meter::InWindows;
use crate::energy::packets::PacketCounter;
use crate::energy::ticks;

mod schedule;

pub(crate) use schedule::PERIOD;
use schedule::{Next, Schedule, estimated_time};

/// Maximum time between two charges of CPU time: the records of short connections wait for a charge.
const MAX_WAIT: Duration = Duration::from_secs(2);

pub(crate) struct Windows {
    pub(crate) schedule: Schedule,
    /// Work of flows until the latest window closed.
    before: FlowWork,
    /// Whether a window has closed since the latest charge.
    has_closed: bool,
    charged: Instant,
    /// Whether the latest window could not be opened.
    has_skipped: bool,
    /// Packets of all CPUs since the start.
    packets: PacketCounter,
    /// Counts of all CPUs in windows that have closed.
    pub(crate) counted: InWindows,
    /// The kernel's counts at the start of the open window.
    opened: InWindows,
}

impl Windows {
    /// The first window is open from the start of tracing. `None`: the ledger is not sampled.
    pub(crate) fn start(tracer: &Tracer, now: Instant) -> Option<Self> {
        let mut packets = PacketCounter::start();
        (tracer.ledger_mode() == LedgerMode::Sampled).then(|| Self {
            schedule: Schedule::new(now, std::process::id()),
            before: FlowWork::default(),
            has_closed: false,
            charged: now,
            has_skipped: false,
            opened: count(&mut packets),
            counted: InWindows::default(),
            packets,
        })
    }

    /// Opens or closes a window if this is due. `false`: the kernel has refused to attach a program, so the ledger is off from now on.
    pub(crate) fn step(&mut self, tracer: &mut Tracer, now: Instant, tick: Instant) -> bool {
        match self.schedule.next(now, tick) {
            Next::Wait => {}
            Next::Decide => {
                // If reading fails, no work is added; the next decision reads again.
                let work = tracer.work().unwrap_or(self.before);
                // Until a window has measured work of flows, the CPU time and energy of all flows are unknown.
                let is_first = work.in_windows == 0 && work.all > self.before.all;
                self.schedule.decide(now, estimated_time(self.before, work), is_first);
            }
            Next::Close => self.close(tracer),
            Next::Open => return self.open(tracer, now),
        }
        true
    }

    fn open(&mut self, tracer: &mut Tracer, now: Instant) -> bool {
        match tracer.open_window() {
            Opening::Open => {
                self.schedule.note_opened(Instant::now());
                self.opened = count(&mut self.packets);
                self.has_skipped = false;
            }
            Opening::Skipped => {
                if !std::mem::replace(&mut self.has_skipped, true) {
                    tracing::warn!(
                        "the kernel lacks descriptors or memory: windows of the CPU ledger are skipped"
                    );
                }
                self.schedule.plan(now);
            }
            Opening::Refused => return false,
        }
        true
    }

    /// Closes the window if one is open.
    pub(crate) fn close(&mut self, tracer: &mut Tracer) {
        if self.schedule.is_open() {
            let now = count(&mut self.packets);
            self.counted.idle += now.idle.since(self.opened.idle);
            self.counted.packets += now.packets - self.opened.packets;
            tracer.close_window();
            self.schedule.note_closed(Instant::now());
            self.before = tracer.work().unwrap_or(self.before);
            self.has_closed = true;
        }
    }

    /// Whether CPU time is charged now: a window has closed since the last charge, or that charge is [`MAX_WAIT`] old.
    pub(crate) fn charge_if_due(&mut self, now: Instant) -> bool {
        let charges = self.has_closed || now.saturating_duration_since(self.charged) >= MAX_WAIT;
        if charges {
            (self.has_closed, self.charged) = (false, now);
        }
        charges
    }
}

/// Idle time and packets that the kernel has counted so far.
fn count(packets: &mut PacketCounter) -> InWindows {
    InWindows { idle: ticks::idle_time(), packets: packets.read() }
}
