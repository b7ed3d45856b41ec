// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time per unit of work in windows of a sampled ledger ([`super::sampling`]): per flow, and per class for flows with little work.

use mpwatch_model::kernel::cpu::{CpuTimes, divide};
use mpwatch_model::kernel::event::WORK_PER_PACKET;
use serde::{Deserialize, Serialize};

/// Number of kinds of CPU time of a flow (`CpuTimes`).
const KINDS: usize = 5;
/// Work of a packet.
pub(crate) const PACKET: f64 = WORK_PER_PACKET as f64;
/// Weight of the unit cost of a class in the unit cost of a flow, in work units.
const PRIOR_WORK: f64 = 16.0 * PACKET;
/// Flows with fewer packets have classes of their own: they use most of their time to open and close the connection.
const SHORT: u64 = 16;
/// Bounds between the classes, in bytes of payload per packet.
const SIZES: [u64; 2] = [512, 8_192];
const CLASSES: usize = (SIZES.len() + 1) * 2;
/// Weight of a window in the figures of a class, relative to the next window.
const DECAY: f64 = 0.98;
/// A window in which work cost more than this multiple of its expected cost was disturbed, for example by a hypervisor that ran another guest.
const DISTURBED: f64 = 3.0;
/// Minimum work in a window to check whether it was disturbed.
const MIN_WORK: f64 = 16.0 * PACKET;
/// Relative standard error of one window even if all windows of a flow agree: some work begins in a window and ends outside of it.
const EDGE: f64 = 0.1;
/// Assumed relative difference between the flows of a class before the first measurement.
const UNKNOWN_SPREAD: f64 = 0.5;
/// Relative error that all windows may have in common.
const SYSTEMATIC: f64 = 0.03;

/// The counters of a flow at a tick.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FlowSample {
    /// CPU time in windows.
    pub(crate) time: CpuTimes,
    /// Work since tracing began, and the part of it that was done in windows.
    pub(crate) work: u64,
    pub(crate) sampled: u64,
    /// Payload in both directions, in bytes.
    pub(crate) bytes: u64,
}

impl FlowSample {
    fn class(&self) -> usize {
        let packets = self.work.saturating_sub(self.bytes >> 10) / WORK_PER_PACKET;
        let per_packet = self.bytes / packets.max(1);
        let size = SIZES.iter().filter(|bound| per_packet >= **bound).count();
        size + if packets < SHORT { 0 } else { SIZES.len() + 1 }
    }

    /// The increase since an earlier sample.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time - earlier.time,
            work: self.work.saturating_sub(earlier.work),
            sampled: self.sampled.saturating_sub(earlier.sampled),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }

    fn total(&self) -> f64 {
        self.time.total().0 as f64
    }
}

/// The estimated CPU time of a flow, and the sums from which it is estimated.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FlowEstimate {
    latest: FlowSample,
    charged: Option<CpuTimes>,
    /// Time in windows, by kind of time, without the excess of disturbed windows. Nanoseconds.
    rated: [f64; KINDS],
    /// Number of windows with work, and the sum of the squared differences between their time and the time expected from the flow's cost.
    windows: f64,
    differences: f64,
}

impl FlowEstimate {
    /// Estimated CPU time. `None`: unknown, because no flow had work in a window so far.
    pub(crate) fn charged(&self) -> Option<CpuTimes> {
        self.charged
    }

    /// Adds nanoseconds, divided among the kinds of time in proportion to `due`.
    pub(crate) fn charge(&mut self, time: u64, due: [u64; KINDS]) {
        let mut parts = [0; KINDS];
        parts.iter_mut().zip(divide(time, &due)).for_each(|(part, share)| *part = share);
        *self.charged.get_or_insert_default() += CpuTimes::from_classes(parts, true);
    }
}

/// Sums over the windows of all flows of a class. Older windows have less weight.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    time: [f64; KINDS],
    work: f64,
    /// Sum of the squared differences between measured and expected times, and sum of the squared expected times.
    differences: f64,
    expected: f64,
}

impl Class {
    fn cost(&self) -> Option<[f64; KINDS]> {
        (self.work > 0.0).then(|| self.time.map(|time| time / self.work))
    }
}

/// CPU time per unit of work, by class of flows.
#[derive(Default)]
pub(crate) struct UnitCosts {
    classes: [Class; CLASSES],
}

impl UnitCosts {
    /// Reduces the weight of older windows. Must be called once per charge that follows a window.
    pub(crate) fn age(&mut self) {
        for class in &mut self.classes {
            class.time.iter_mut().for_each(|time| *time *= DECAY);
            class.work *= DECAY;
            class.differences *= DECAY;
            class.expected *= DECAY;
        }
    }

    /// Adds the time and work of a flow since the last call. Returns the new work of the flow, and the part of it that was done in windows.
    pub(crate) fn observe(&mut self, flow: &mut FlowEstimate, now: &FlowSample) -> [u64; 2] {
        let (time, sampled) = (now.time - flow.latest.time, now.sampled.saturating_sub(flow.latest.sampled));
        let new = [now.work.saturating_sub(flow.latest.work), sampled];
        let (mut total, sampled) = (time.total().0 as f64, sampled as f64);
        if total > 0.0 || sampled > 0.0 {
            let mut kept = 1.0;
            if let Some(expected) = self.cost_of(flow, now.class()).map(|cost| cost * sampled) {
                if flow.windows > 0.0 && sampled >= MIN_WORK && total > DISTURBED * expected {
                    kept = DISTURBED * expected / total;
                }
                total *= kept;
                if flow.windows > 0.0 {
                    flow.differences += (total - expected).powi(2);
                }
            }
            flow.windows += 1.0;
            let known = self.cost(now.class()).map(|cost| cost.iter().sum::<f64>() * sampled);
            let class = &mut self.classes[now.class()];
            if let Some(expected) = known {
                class.differences += (total - expected).powi(2);
                class.expected += expected.powi(2);
            }
            for (kind, time) in time.classes().into_iter().enumerate() {
                class.time[kind] += time as f64 * kept;
                flow.rated[kind] += time as f64 * kept;
            }
            class.work += sampled;
        }
        flow.latest = *now;
        new
    }

    /// Unit cost of a class of flows, by kind of time. It is close to the unit cost of all flows if the class has little work. `None`: no
    /// flow had work in a window so far.
    fn cost(&self, class: usize) -> Option<[f64; KINDS]> {
        let mut all = Class::default();
        for class in &self.classes {
            all.time.iter_mut().zip(class.time).for_each(|(sum, time)| *sum += time);
            all.work += class.work;
        }
        let (all, class) = (all.cost()?, &self.classes[class]);
        Some(std::array::from_fn(|kind| {
            (class.time[kind] + PRIOR_WORK * all[kind]) / (class.work + PRIOR_WORK)
        }))
    }

    /// CPU time per unit of work of a flow so far, all kinds of time together. `None`: as for [`Self::cost`].
    fn cost_of(&self, flow: &FlowEstimate, class: usize) -> Option<f64> {
        let of_class = self.cost(class)?.iter().sum::<f64>();
        let time = flow.rated.iter().sum::<f64>() + PRIOR_WORK * of_class;
        Some(time / (flow.latest.sampled as f64 + PRIOR_WORK))
    }

    /// Time to charge to a flow, by kind of time: time in windows, plus work outside of windows times unit cost, minus the time charged before.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times, never negative")]
    pub(crate) fn due(&self, flow: &FlowEstimate) -> Option<[u64; KINDS]> {
        let now = &flow.latest;
        let costs = self.cost(now.class())?;
        let outside = now.work.saturating_sub(now.sampled) as f64;
        let (measured, charged) = (now.time.classes(), flow.charged.unwrap_or_default().classes());
        Some(std::array::from_fn(|kind| {
            let cost = (flow.rated[kind] + PRIOR_WORK * costs[kind]) / (now.sampled as f64 + PRIOR_WORK);
            (measured[kind] + (outside * cost) as u64).saturating_sub(charged[kind])
        }))
    }

    /// Relative error of a flow's time: two standard errors plus the systematic error, at most 1.
    pub(crate) fn error(&self, flow: &FlowEstimate) -> f64 {
        let (now, class) = (&flow.latest, &self.classes[flow.latest.class()]);
        let charged = flow.charged.unwrap_or_default().total().0 as f64;
        if charged <= 0.0 {
            return 0.0;
        }
        let spread =
            if class.expected > 0.0 { (class.differences / class.expected).sqrt() } else { UNKNOWN_SPREAD };
        let of_class = PRIOR_WORK / (now.sampled as f64 + PRIOR_WORK);
        let mut square = (spread * of_class).powi(2);
        if flow.windows > 0.0 && now.total() > 0.0 {
            let few = flow.windows / (flow.windows - 1.0).max(1.0);
            square += flow.differences / now.total().powi(2) * few + EDGE.powi(2) / flow.windows;
        }
        let outside = (charged - now.total()).max(0.0) / charged;
        (2.0 * square.sqrt() * outside + SYSTEMATIC).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use mpwatch_model::unit::Nanos;

    use super::*;

    fn sample(time: u64, sampled: u64, packets: u64) -> FlowSample {
        let time = CpuTimes::from_classes([0, time, 0, 0, 0], true);
        FlowSample { time, work: packets * 32, sampled: sampled * 32, bytes: packets * 100 }
    }

    fn total(wanted: Option<[u64; KINDS]>) -> u64 {
        wanted.unwrap().iter().sum()
    }

    #[test]
    fn before_the_first_window_the_time_is_unknown() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        assert_eq!(costs.observe(&mut flow, &sample(0, 0, 50)), [50 * 32, 0]);
        assert_eq!((costs.due(&flow), flow.charged()), (None, None));
    }

    #[test]
    fn packets_outside_of_windows_cost_as_much_as_those_in_windows() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        costs.observe(&mut flow, &sample(500_000, 100, 2_000));
        assert_eq!(total(costs.due(&flow)), 10_000_000);
        flow.charge(4_000_000, costs.due(&flow).unwrap());
        assert_eq!(total(costs.due(&flow)), 6_000_000);
        assert_eq!(flow.charged().unwrap().rx_softirq, Nanos(4_000_000));
    }

    #[test]
    fn a_flow_without_work_in_windows_costs_as_much_as_its_class() {
        let (mut costs, mut seen, mut unseen) =
            (UnitCosts::default(), FlowEstimate::default(), FlowEstimate::default());
        costs.observe(&mut seen, &sample(500_000, 100, 100));
        costs.observe(&mut unseen, &sample(0, 0, 30));
        assert_eq!(total(costs.due(&unseen)), 150_000);
        unseen.charge(150_000, costs.due(&unseen).unwrap());
        assert!(costs.error(&unseen) >= 0.9, "{}", costs.error(&unseen));
    }

    #[test]
    fn the_error_falls_with_the_number_of_windows() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        let mut errors = Vec::new();
        for window in 1..=50_u64 {
            let noise = if window % 2 == 0 { 50_000 } else { 0 };
            costs.observe(&mut flow, &sample(window * 500_000 + noise, window * 100, window * 2_000));
            let due = costs.due(&flow).unwrap();
            flow.charge(due.iter().sum(), due);
            errors.push(costs.error(&flow));
        }
        assert!(errors[0] > 0.15 && errors[49] < 0.08, "{errors:?}");
        let (given, truth) = (flow.charged().unwrap().total().0 as f64, 50.0 * 10_000_000.0);
        assert!((given / truth - 1.0).abs() < errors[49]);
    }

    #[test]
    fn a_disturbed_window_does_not_make_all_work_expensive() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        costs.observe(&mut flow, &sample(1_000_000, 200, 4_000));
        costs.observe(&mut flow, &sample(1_000_000 + 50_000_000, 400, 8_000));
        let wanted = total(costs.due(&flow));
        let undisturbed = 8_000 * 5_000;
        assert!((undisturbed..undisturbed * 2 + 50_000_000).contains(&wanted), "{wanted}");
    }

    #[test]
    fn a_flow_with_all_its_work_in_windows_has_its_exact_time() {
        let (mut costs, mut flow) = (UnitCosts::default(), FlowEstimate::default());
        costs.observe(&mut flow, &sample(123_457, 30, 30));
        assert_eq!(total(costs.due(&flow)), 123_457);
    }
}
