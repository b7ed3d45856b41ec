// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time per packet: of each flow, and of each class of flows, for flows that no window has seen enough of. Pure.

use mpwatch_model::cpu::{CpuTimes, divide};

/// Classes of work of a flow (`CpuTimes`).
const WORK: usize = 5;
/// Weight of the time per packet of a flow's class, in packets, in that of a flow.
const PRIOR_PACKETS: f64 = 16.0;
/// Flows with fewer packets are a class of their own: most of their time is for opening and closing.
const SHORT: u64 = 16;
/// Bounds of the classes, bytes of payload per packet.
const SIZES: [u64; 2] = [512, 8_192];
const CLASSES: usize = (SIZES.len() + 1) * 2;
/// How much an older window counts in the figures of a class, compared with the next one.
const DECAY: f64 = 0.98;
/// Relative standard error of one window, of a flow whose windows seem to agree: work that begins in one window and ends outside of it.
const EDGE: f64 = 0.1;
/// Relative difference of the flows of a class while nothing is known about it.
const UNKNOWN_SPREAD: f64 = 0.5;
/// Part of an estimate that may be wrong in the same way in all windows.
const SYSTEMATIC: f64 = 0.03;

/// What is known of a flow at a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowSample {
    /// CPU time in windows.
    pub(crate) time: CpuTimes,
    /// Packets since tracing began, and of those in windows.
    pub(crate) packets: u64,
    pub(crate) sampled: u64,
    /// Payload in both directions.
    pub(crate) bytes: u64,
}

impl FlowSample {
    fn class(&self) -> usize {
        let per_packet = self.bytes / self.packets.max(1);
        let size = SIZES.iter().filter(|bound| per_packet >= **bound).count();
        size + if self.packets < SHORT { 0 } else { SIZES.len() + 1 }
    }

    fn total(&self) -> f64 {
        self.time.total().0 as f64
    }
}

/// The CPU time of a flow so far, and what it was estimated from.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowEstimate {
    seen: FlowSample,
    given: Option<CpuTimes>,
    /// Number of windows with packets, and the sum of squares of their difference from the flow's time per packet.
    windows: f64,
    differences: f64,
}

impl FlowEstimate {
    /// `None`: unknown, because no window has seen any flow so far.
    pub(crate) fn given(&self) -> Option<CpuTimes> {
        self.given
    }

    /// Adds `granted` nanoseconds, divided like `wanted`.
    pub(crate) fn grant(&mut self, granted: u64, wanted: [u64; WORK]) {
        let mut parts = [0; WORK];
        parts.iter_mut().zip(divide(granted, &wanted)).for_each(|(part, time)| *part = time);
        *self.given.get_or_insert_default() += CpuTimes::from_classes(parts, true);
    }
}

/// Sums over windows.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    time: [f64; WORK],
    packets: f64,
    /// Sums of squares: differences of its flows from the time per packet, and what they were expected to be.
    differences: f64,
    expected: f64,
}

impl Class {
    fn per_packet(&self) -> Option<[f64; WORK]> {
        (self.packets > 0.0).then(|| self.time.map(|time| time / self.packets))
    }
}

/// What a packet costs, by class.
#[derive(Default)]
pub(crate) struct UnitCosts {
    classes: [Class; CLASSES],
}

impl UnitCosts {
    /// Makes older windows count less. Called once for each charge.
    pub(crate) fn age(&mut self) {
        for class in &mut self.classes {
            class.time.iter_mut().for_each(|time| *time *= DECAY);
            class.packets *= DECAY;
            class.differences *= DECAY;
            class.expected *= DECAY;
        }
    }

    /// Takes what windows have seen of a flow since the last call. Returns its new packets: all, and those in windows.
    pub(crate) fn observe(&mut self, flow: &mut FlowEstimate, now: &FlowSample) -> [u64; 2] {
        let (time, sampled) = (now.time - flow.seen.time, now.sampled.saturating_sub(flow.seen.sampled));
        let total = time.total().0 as f64;
        let new = [now.packets.saturating_sub(flow.seen.packets), sampled];
        if total > 0.0 || sampled > 0 {
            let known = self.per_packet(now.class()).map(|costs| costs.iter().sum::<f64>());
            if flow.windows > 0.0 {
                let rate = (flow.seen.total() + PRIOR_PACKETS * known.unwrap_or_default())
                    / (flow.seen.sampled as f64 + PRIOR_PACKETS);
                flow.differences += (total - rate * sampled as f64).powi(2);
            }
            flow.windows += 1.0;
            let class = &mut self.classes[now.class()];
            if let Some(rate) = known {
                class.differences += (total - rate * sampled as f64).powi(2);
                class.expected += (rate * sampled as f64).powi(2);
            }
            class.time.iter_mut().zip(time.classes()).for_each(|(sum, time)| *sum += time as f64);
            class.packets += sampled as f64;
        }
        flow.seen = *now;
        new
    }

    /// Time per packet of a class; of all flows if little is known about it.
    fn per_packet(&self, class: usize) -> Option<[f64; WORK]> {
        let mut all = Class::default();
        for class in &self.classes {
            all.time.iter_mut().zip(class.time).for_each(|(sum, time)| *sum += time);
            all.packets += class.packets;
        }
        let (all, class) = (all.per_packet()?, &self.classes[class]);
        Some(std::array::from_fn(|work| {
            (class.time[work] + PRIOR_PACKETS * all[work]) / (class.packets + PRIOR_PACKETS)
        }))
    }

    /// What a flow should get now, by class of work: its time in windows, and for all other packets its time per packet.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times, never negative")]
    pub(crate) fn wanted(&self, flow: &FlowEstimate) -> Option<[u64; WORK]> {
        let now = &flow.seen;
        let costs = self.per_packet(now.class())?;
        let others = now.packets.saturating_sub(now.sampled) as f64;
        let (seen, given) = (now.time.classes(), flow.given.unwrap_or_default().classes());
        Some(std::array::from_fn(|work| {
            let rate =
                (seen[work] as f64 + PRIOR_PACKETS * costs[work]) / (now.sampled as f64 + PRIOR_PACKETS);
            (seen[work] + (others * rate) as u64).saturating_sub(given[work])
        }))
    }

    /// Relative error of a flow's time: two standard errors, at most 1.
    pub(crate) fn error(&self, flow: &FlowEstimate) -> f64 {
        let (now, class) = (&flow.seen, &self.classes[flow.seen.class()]);
        let given = flow.given.unwrap_or_default().total().0 as f64;
        if given <= 0.0 {
            return 0.0;
        }
        let spread =
            if class.expected > 0.0 { (class.differences / class.expected).sqrt() } else { UNKNOWN_SPREAD };
        let of_class = PRIOR_PACKETS / (now.sampled as f64 + PRIOR_PACKETS);
        let mut square = (spread * of_class).powi(2);
        if flow.windows > 0.0 && now.total() > 0.0 {
            let few = flow.windows / (flow.windows - 1.0).max(1.0);
            square += flow.differences / now.total().powi(2) * few + EDGE.powi(2) / flow.windows;
        }
        let outside = (given - now.total()).max(0.0) / given;
        (2.0 * square.sqrt() * outside + SYSTEMATIC).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::unit::Nanos;

    use super::*;

    fn sample(time: u64, sampled: u64, packets: u64) -> FlowSample {
        let time = CpuTimes::from_classes([0, time, 0, 0, 0], true);
        FlowSample { time, packets, sampled, bytes: packets * 100 }
    }

    fn total(wanted: Option<[u64; WORK]>) -> u64 {
        wanted.unwrap().iter().sum()
    }

    #[test]
    fn nothing_is_known_before_the_first_window() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        assert_eq!(costs.observe(&mut flow, &sample(0, 0, 50)), [50, 0]);
        assert_eq!((costs.wanted(&flow), flow.given()), (None, None));
    }

    #[test]
    fn packets_outside_of_windows_cost_as_much_as_those_in_windows() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        costs.observe(&mut flow, &sample(500_000, 100, 2_000));
        assert_eq!(total(costs.wanted(&flow)), 10_000_000);
        flow.grant(4_000_000, costs.wanted(&flow).unwrap());
        assert_eq!(total(costs.wanted(&flow)), 6_000_000);
        assert_eq!(flow.given().unwrap().rx_softirq, Nanos(4_000_000));
    }

    #[test]
    fn a_flow_that_no_window_has_seen_costs_as_much_as_its_class() {
        let (mut costs, mut seen, mut unseen) =
            (UnitCosts::default(), FlowEstimate::default(), FlowEstimate::default());
        costs.observe(&mut seen, &sample(500_000, 100, 100));
        costs.observe(&mut unseen, &sample(0, 0, 30));
        assert_eq!(total(costs.wanted(&unseen)), 150_000);
        unseen.grant(150_000, costs.wanted(&unseen).unwrap());
        assert!(costs.error(&unseen) >= 0.9, "{}", costs.error(&unseen));
    }

    #[test]
    fn the_error_falls_with_the_number_of_windows() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        let mut errors = Vec::new();
        for window in 1..=50_u64 {
            let noise = if window % 2 == 0 { 50_000 } else { 0 };
            costs.observe(&mut flow, &sample(window * 500_000 + noise, window * 100, window * 2_000));
            let wanted = costs.wanted(&flow).unwrap();
            flow.grant(wanted.iter().sum(), wanted);
            errors.push(costs.error(&flow));
        }
        assert!(errors[0] > 0.15 && errors[49] < 0.08, "{errors:?}");
        let (given, truth) = (flow.given().unwrap().total().0 as f64, 50.0 * 10_000_000.0);
        assert!((given / truth - 1.0).abs() < errors[49]);
    }

    #[test]
    fn a_flow_that_windows_have_seen_whole_has_its_exact_time() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        costs.observe(&mut flow, &sample(123_457, 30, 30));
        assert_eq!(total(costs.wanted(&flow)), 123_457);
    }
}
