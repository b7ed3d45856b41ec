// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reference implementation of `mptcpd`, the congestion control of `[MPTCP-D]`, with the same integers as in the kernel
//! (`ebpf/src/congestion/arithmetic.bpf.h`). docs/control.md has the equations and the accuracy.
//!
//! Per acknowledged segment on path r: `w_r += psi_r * (w_r / RTT_r^2) / (sum_k w_k / RTT_k)^2` with `psi_r = min_k RTT_k / RTT_r`; per loss
//! `w_r = w_r / 2`. With the share `q_r` of path r in the connection's rate, the increase is `psi_r * q_r^2 / w_r`. Both factors are at most
//! 1, so that the increase is at most Reno's `1 / w_r` (RFC 5681, section 3.1), on each path and for any other paths.

/// Maximum window in the computation of rates, in segments: 1.5 GB with segments of 1460 bytes.
pub const MAX_CWND: u32 = 1 << 20;
/// Maximum RTT in computations, in microseconds: 16.7 s.
pub const MAX_RTT_US: u32 = (1 << 24) - 1;
/// The smallest window after a loss (RFC 5681, equation 4), in segments.
pub const MIN_CWND: u32 = 2;
/// Increases are in 2^-40 segments.
pub const INCREASE_SHIFT: u32 = 40;

/// Rates are in 2^-36 segments per microsecond.
const RATE_SHIFT: u32 = 36;
/// Shares and ratios of RTTs are in 2^-20.
const RATIO_SHIFT: u32 = 20;
const ONE: u64 = 1 << RATIO_SHIFT;

fn clamp_rtt(rtt_us: u32) -> u64 {
    rtt_us.clamp(1, MAX_RTT_US).into()
}

/// `w / RTT` of a path in 2^-36 segments per microsecond, at most 2^56.
pub fn rate(cwnd: u32, rtt_us: u32) -> u64 {
    (u64::from(cwnd.min(MAX_CWND)) << RATE_SHIFT) / clamp_rtt(rtt_us)
}

/// `part / whole` in 2^-20, at most 1.
fn ratio(part: u64, whole: u64) -> u64 {
    if part >= whole {
        return ONE;
    }
    let overflows = whole >> (63 - RATIO_SHIFT) > 0;
    let quotient = if overflows { part / (whole >> RATIO_SHIFT) } else { (part << RATIO_SHIFT) / whole };
    quotient.min(ONE)
}

/// Increase per acknowledged segment, in 2^-40 segments. `total_rate`: rate of all active paths, including this one. `min_rtt_us`: lowest
/// RTT of these paths.
pub fn increase_per_segment(cwnd: u32, rtt_us: u32, total_rate: u64, min_rtt_us: u32) -> u64 {
    let share = ratio(rate(cwnd, rtt_us), total_rate);
    let psi = ratio(clamp_rtt(min_rtt_us), clamp_rtt(rtt_us));
    (share * share * psi / u64::from(cwnd.max(1))) >> (3 * RATIO_SHIFT - INCREASE_SHIFT)
}

/// A path of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Smoothed RTT in microseconds.
    pub rtt_us: u32,
    /// Part of a segment that the window has yet to grow by, in 2^-40 segments.
    pub credit: u64,
}

impl Path {
    /// A path without credit.
    pub fn new(cwnd: u32, rtt_us: u32) -> Self {
        Self { cwnd, rtt_us, credit: 0 }
    }

    /// Rate of the path, in the unit of [`rate`].
    pub fn rate(&self) -> u64 {
        rate(self.cwnd, self.rtt_us)
    }

    /// Grows by the increase of an ACK: at most one segment, because at most a window of segments counts. Returns the growth in segments.
    pub fn grow(&mut self, acked: u32, increase: u64) -> u32 {
        let sum = self.credit + u64::from(acked.min(self.cwnd)) * increase;
        self.credit = sum & ((1 << INCREASE_SHIFT) - 1);
        let growth = u32::try_from(sum >> INCREASE_SHIFT).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.saturating_add(growth);
        growth
    }
}

/// A connection whose paths all are in congestion avoidance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Its active paths.
    pub paths: Vec<Path>,
}

impl Connection {
    /// Rate of the paths other than this one.
    pub fn others_rate(&self, path: usize) -> u64 {
        let others = self.paths.iter().enumerate().filter(|(index, _)| *index != path);
        others.map(|(_, other)| other.rate()).sum()
    }

    /// The lowest RTT, in microseconds.
    pub fn min_rtt_us(&self) -> u32 {
        self.paths.iter().map(|path| path.rtt_us).min().unwrap_or(MAX_RTT_US)
    }

    /// Increase of a path per acknowledged segment, in 2^-40 segments. `None`: no such path.
    pub fn increase(&self, path: usize) -> Option<u64> {
        let own = self.paths.get(path)?;
        let total = self.others_rate(path) + own.rate();
        Some(increase_per_segment(own.cwnd, own.rtt_us, total, self.min_rtt_us()))
    }

    /// Applies an ACK of `acked` segments on a path. Returns by how many segments its window grows. `None`: no such path.
    pub fn acknowledge(&mut self, path: usize, acked: u32) -> Option<u32> {
        let increase = self.increase(path)?;
        Some(self.paths.get_mut(path)?.grow(acked, increase))
    }

    /// Applies a loss on a path: halves its window, to at least [`MIN_CWND`].
    pub fn lose(&mut self, path: usize) {
        if let Some(path) = self.paths.get_mut(path) {
            *path = Path::new((path.cwnd / 2).max(MIN_CWND), path.rtt_us);
        }
    }
}

#[cfg(test)]
mod tests;
