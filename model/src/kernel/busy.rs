// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of a sender went: the kernel's clocks of a TCP socket that has data to send, and an account of a whole life.

use std::fmt;
use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::cpu::divide;
use crate::unit::Nanos;
use crate::words::json_words;

json_words! {
    /// What limits a sender.
    pub enum Limit {
        /// The application: no data is queued or in flight. MPTCP may have data for another subflow only.
        Application = "application",
        /// The congestion window or the path (`TCP_CHRONO_BUSY`). Includes most waits for a small send buffer, because that clock starts only
        /// when a transmission empties the queue of a blocked writer, and stops with each ACK that makes room.
        Network = "network",
        /// The receive window of the peer (`TCP_CHRONO_RWND_LIMITED`), or of the MPTCP connection, sampled at ticks.
        ReceiveWindow = "receive window",
        /// The send buffer of this host (`TCP_CHRONO_SNDBUF_LIMITED`).
        SendBuffer = "send buffer",
    }
}

/// Time in which a subflow had data queued or in flight, in nanoseconds, with the precision of a timer tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BusyTimes {
    /// All of the time (`tcpi_busy_time`).
    pub total: Nanos,
    /// The part in which the peer's receive window limited the subflow (`tcpi_rwnd_limited`), or the connection at the end of the interval.
    pub receive_window: Nanos,
    /// The part in which the send buffer limited the subflow (`tcpi_sndbuf_limited`).
    pub send_buffer: Nanos,
}

impl BusyTimes {
    /// The times after another interval with this limit.
    #[must_use]
    pub fn and(mut self, limit: Limit, time: Nanos) -> Self {
        match limit {
            Limit::Application => return self,
            Limit::Network => {}
            Limit::ReceiveWindow => self.receive_window += time,
            Limit::SendBuffer => self.send_buffer += time,
        }
        self.total += time;
        self
    }

    /// The times if the receive window of the connection was closed during an interval of this length, in which the kernel's clocks counted `counted`:
    /// without data, the clocks of a subflow stop, or count its send buffer.
    #[must_use]
    pub fn and_window(mut self, counted: Self, interval: Nanos) -> Self {
        let stopped = interval.since(counted.total);
        self.total += stopped;
        self.receive_window += stopped + counted.send_buffer;
        self.send_buffer = self.send_buffer.since(counted.send_buffer);
        self
    }

    /// The difference from earlier times.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, Nanos::since)
    }

    /// The larger of each time.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.with(other, Nanos::max)
    }

    fn with(self, other: Self, each: fn(Nanos, Nanos) -> Nanos) -> Self {
        Self {
            total: each(self.total, other.total),
            receive_window: each(self.receive_window, other.receive_window),
            send_buffer: each(self.send_buffer, other.send_buffer),
        }
    }
}

impl Add for BusyTimes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, Nanos::add)
    }
}

/// A life divided by what limited the sender. The parts, in the order of [`Limit::ALL`], sum exactly to the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAccount([Nanos; Limit::ALL.len()]);

impl TimeAccount {
    /// Divides a life. The kernel's clocks may exceed it, because they count timer ticks, and FINs after the end of the connection: the excess is
    /// dropped, from the network's part first.
    pub fn new(life: Nanos, busy: BusyTimes) -> Self {
        let send_buffer = busy.send_buffer.min(life);
        let receive_window = busy.receive_window.min(life.since(send_buffer));
        let limited = send_buffer + receive_window;
        let total = busy.total.clamp(limited, life);
        Self([life.since(total), total.since(limited), receive_window, send_buffer])
    }

    /// The parts.
    pub fn parts(self) -> impl Iterator<Item = (Limit, Nanos)> {
        Limit::ALL.into_iter().zip(self.0)
    }

    /// The largest part. `None`: the life has no length.
    pub fn largest(self) -> Option<Limit> {
        let known = self.parts().filter(|(_, time)| time.0 > 0);
        known.reduce(|best, part| if part.1 > best.1 { part } else { best }).map(|(limit, _)| limit)
    }
}

impl Add for TimeAccount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|part| self.0[part] + other.0[part]))
    }
}

/// The parts in whole percent that sum to 100, the largest first: `62 % network, 38 % application`.
impl fmt::Display for TimeAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights = self.0.map(|time| time.0);
        let percents = divide(100, &weights);
        let mut parts: Vec<_> = Limit::ALL.into_iter().zip(percents).filter(|part| part.1 > 0).collect();
        parts.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
        let words = parts.iter().map(|(limit, percent)| format!("{percent} % {}", limit.as_str()));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn busy(total: u64, receive_window: u64, send_buffer: u64) -> BusyTimes {
        let [total, receive_window, send_buffer] = [total, receive_window, send_buffer].map(Nanos);
        BusyTimes { total, receive_window, send_buffer }
    }

    #[test]
    fn each_part_has_its_time() {
        let account = TimeAccount::new(Nanos(1_000), busy(700, 80, 0));
        assert_eq!(account.0, [300, 620, 80, 0].map(Nanos));
        assert_eq!(account.largest(), Some(Limit::Network));
        assert_eq!(account.to_string(), "62 % network, 30 % application, 8 % receive window");
        assert_eq!(TimeAccount::new(Nanos(0), busy(4, 0, 0)).largest(), None, "no time has passed");
    }

    #[test]
    fn a_running_interval_counts_for_its_limit() {
        let before = busy(700, 80, 0);
        assert_eq!(before.and(Limit::SendBuffer, Nanos(50)), busy(750, 80, 50));
        assert_eq!(before.and(Limit::Network, Nanos(50)), busy(750, 80, 0));
        assert_eq!(before.and(Limit::Application, Nanos(50)), before);
    }

    #[test]
    fn a_closed_window_of_the_connection_takes_the_time_in_which_the_clocks_stopped() {
        let before = busy(700, 80, 60);
        assert_eq!(before.and_window(busy(30, 10, 20), Nanos(100)), busy(770, 170, 40));
        assert_eq!(before.and_window(busy(100, 0, 0), Nanos(100)), before, "the network was busy");
    }

    #[test]
    fn ticks_in_excess_of_the_life_are_dropped() {
        assert_eq!(TimeAccount::new(Nanos(10), busy(12, 0, 0)).0, [0, 10, 0, 0].map(Nanos));
        assert_eq!(TimeAccount::new(Nanos(10), busy(12, 8, 4)).0, [0, 0, 6, 4].map(Nanos));
        assert_eq!(TimeAccount::new(Nanos(10), busy(4, 5, 0)).0, [5, 0, 5, 0].map(Nanos));
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_life(life in any::<u32>(), total in any::<u32>(), window in any::<u32>(), buffer in any::<u32>()) {
            let account = TimeAccount::new(Nanos(life.into()), busy(total.into(), window.into(), buffer.into()));
            prop_assert_eq!(account.parts().map(|(_, time)| time).sum::<Nanos>(), Nanos(life.into()));
        }
    }
}
