// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of flows and of the machine's zones, and windows whose energy is unknown. Method and limits: docs/energy.md.

pub mod power;
pub mod source;
pub mod window;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, Microjoules, Nanos, sum_if_all_known};
pub use source::{Convention, EnergySource, IdleSource, LostReason};

/// Energy of the network stack for a flow so far. A connection's values are the exact integer sums of its subflows' values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowEnergy {
    /// Energy above idle, microjoules. `null`: the source is `absent`, or the idle power is unknown.
    #[serde(rename = "active_uj")]
    pub active: Option<Microjoules>,
    /// Lower bound of the energy above idle, microjoules: as if this flow had been added last to the machine's load.
    #[serde(rename = "lo_uj")]
    pub lo: Option<Microjoules>,
    /// Upper bound of the energy above idle, microjoules: as if this flow had been the first load of the machine.
    #[serde(rename = "hi_uj")]
    pub hi: Option<Microjoules>,
    /// Energy above idle plus a share of the idle energy, both in proportion to CPU time, microjoules. Known even if the idle power is unknown.
    #[serde(rename = "full_uj")]
    pub full: Option<Microjoules>,
    /// Joules of `active_uj` per gigabyte (10^9 bytes) of observed payload in both directions. `null`: energy unknown, or no payload yet.
    pub j_per_gb: Option<f64>,
    /// CPU time of the network stack for this flow alone, nanoseconds.
    #[serde(rename = "cpu_ns")]
    pub cpu: Nanos,
    /// Source of the energy figures.
    pub source: EnergySource,
    /// How shared energy was divided.
    pub convention: Convention,
    /// Source of the idle power.
    pub idle: IdleSource,
}

impl FlowEnergy {
    /// CPU time without energy, if no energy figures are available.
    pub fn absent(cpu: Nanos) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// Sets `j_per_gb` for this payload.
    #[must_use]
    pub fn over(mut self, payload: Bytes) -> Self {
        self.j_per_gb =
            self.active.filter(|_| payload.0 > 0).map(|active| active.joules() * 1e9 / payload.0 as f64);
        self
    }

    /// Widens the bounds by a relative error of the CPU time.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "energies, never negative")]
    pub fn widened(mut self, error: f64) -> Self {
        let scaled = |energy: Microjoules, factor: f64| Microjoules((energy.0 as f64 * factor) as u64);
        self.lo = self.lo.map(|lo| scaled(lo, (1.0 - error).max(0.0)));
        self.hi = self.hi.map(|hi| scaled(hi, 1.0 + error));
        self
    }

    /// The exact sum over subflows; unknown plus known is unknown. It has the least reliable source and idle source of all parts.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let parts = parts.into_iter().map(|part| Self { j_per_gb: None, ..*part });
        let sum = parts.reduce(|sum, part| Self {
            active: sum_if_all_known([sum.active, part.active]),
            lo: sum_if_all_known([sum.lo, part.lo]),
            hi: sum_if_all_known([sum.hi, part.hi]),
            full: sum_if_all_known([sum.full, part.full]),
            j_per_gb: None,
            cpu: sum.cpu + part.cpu,
            source: sum.source.max(part.source),
            convention: sum.convention,
            idle: sum.idle.max(part.idle),
        });
        sum.unwrap_or_default()
    }
}

/// Energy of the machine since tracing began, by zone and use. A window is the time between two readings of a zone's counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotEnergy {
    /// Source of the energy figures.
    pub source: EnergySource,
    /// How shared energy is divided.
    pub convention: Convention,
    /// Source of the idle power; if the zones have different sources, the least reliable.
    pub idle: IdleSource,
    /// Zones that do not overlap; their sum is the machine's energy. `lost` explains missing zones. Empty: the source is `absent`, or no window has
    /// ended yet.
    pub zones: Vec<ZoneEnergy>,
    /// Zones that contain other zones (`psys`) or are part of a zone (`core`, `uncore`). Never add them to another zone.
    pub shown: Vec<OverlappingZone>,
    /// Windows whose energy is unknown, in order of time; only the latest 32 are kept.
    pub lost: Vec<LostWindow>,
    /// How to get more accurate figures. `null`: no advice.
    pub advice: Option<String>,
}

/// Energy of one zone since tracing began, in microjoules. `zone_uj` is exactly the sum of `flows_uj` to `idle_uj`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneEnergy {
    /// Name given by the kernel: `package-0`, `package-0-die-1`; `package-0/dram` for a zone inside another.
    pub zone: String,
    /// Energy of the zone in all windows whose energy is known.
    pub zone_uj: Microjoules,
    /// Power in the latest window, microwatts. `null`: the energy of this window is unknown.
    pub power_uw: Option<u64>,
    /// Network stack for traced flows. This and the following parts include the idle energy of windows in which the idle power was unknown.
    pub flows_uj: Microjoules,
    /// Application code of processes that own traced flows.
    pub app_uj: Microjoules,
    /// Other processes and the kernel's own threads.
    pub other_uj: Microjoules,
    /// Network processing that cannot be attributed to one flow.
    pub net_shared_uj: Microjoules,
    /// Hardware interrupts, and softirqs that do not process network packets.
    pub irq_uj: Microjoules,
    /// mpwatch itself.
    pub self_uj: Microjoules,
    /// Energy above idle in windows without any busy time, and rounding (below 2 uJ per account).
    pub unexplained_uj: Microjoules,
    /// Idle energy; zero while the idle power is unknown.
    pub idle_uj: Microjoules,
    /// Number of windows whose energy is unknown, since tracing began.
    pub windows_lost: u64,
    /// Total length of the windows whose energy is unknown, nanoseconds.
    pub lost_ns: Nanos,
    /// Number of times that the zone disappeared and came back.
    pub epoch: u32,
}

impl ZoneEnergy {
    /// The parts of `zone_uj`, each with its consumer: the label of its metric, and its name on screens.
    pub fn parts(&self) -> [(&'static str, &'static str, Microjoules); 8] {
        [
            ("flows", "flows", self.flows_uj),
            ("app", "their applications", self.app_uj),
            ("net_shared", "unattributed network", self.net_shared_uj),
            ("other", "other processes", self.other_uj),
            ("irq", "interrupts", self.irq_uj),
            ("self", "mpwatch", self.self_uj),
            ("unexplained", "unexplained", self.unexplained_uj),
            ("idle", "idle", self.idle_uj),
        ]
    }

    /// The sum of all parts.
    pub fn explained(&self) -> Microjoules {
        self.parts().into_iter().map(|(.., part)| part).sum()
    }
}

/// A zone that overlaps with other zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverlappingZone {
    /// Name of the zone.
    pub zone: String,
    /// Energy of the zone since tracing began, microjoules.
    pub zone_uj: Microjoules,
}

/// A window whose energy is unknown. No total includes the window, and its energy is never interpolated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostWindow {
    /// Name of the zone.
    pub zone: String,
    /// Length of the window, nanoseconds.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Why the energy of the window is unknown.
    pub reason: LostReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(active: Option<u64>, cpu: u64) -> FlowEnergy {
        let energy = active.map(Microjoules);
        FlowEnergy { active: energy, lo: energy, hi: energy, full: energy, ..FlowEnergy::absent(Nanos(cpu)) }
    }

    #[test]
    fn a_connection_is_the_sum_of_its_subflows() {
        let sum = FlowEnergy::sum(&[flow(Some(3), 10), flow(Some(4), 20)]);
        assert_eq!((sum.active, sum.cpu), (Some(Microjoules(7)), Nanos(30)));
        assert_eq!(FlowEnergy::sum(&[flow(Some(3), 10), flow(None, 20)]).active, None);
        assert_eq!(FlowEnergy::sum(&[]).source, EnergySource::Absent);
    }

    #[test]
    fn the_least_reliable_source_wins() {
        let measured =
            FlowEnergy { source: EnergySource::RaplPerf, idle: IdleSource::Calibrated, ..flow(Some(1), 1) };
        let modelled =
            FlowEnergy { source: EnergySource::Model, idle: IdleSource::Unknown, ..flow(Some(1), 1) };
        let sum = FlowEnergy::sum(&[measured, modelled]);
        assert_eq!((sum.source, sum.idle), (EnergySource::Model, IdleSource::Unknown));
    }

    #[test]
    fn joules_per_gigabyte_need_energy_and_payload() {
        assert_eq!(flow(Some(2_000_000), 1).over(Bytes(500_000_000)).j_per_gb, Some(4.0));
        assert_eq!(flow(Some(2_000_000), 1).over(Bytes(0)).j_per_gb, None);
        assert_eq!(flow(None, 1).over(Bytes(1)).j_per_gb, None);
    }

    #[test]
    fn an_absent_energy_is_null_and_never_zero() {
        let printed = serde_json::to_value(FlowEnergy::absent(Nanos(5))).unwrap();
        assert!(
            ["active_uj", "lo_uj", "hi_uj", "full_uj", "j_per_gb"].iter().all(|name| printed[name].is_null())
        );
        assert_eq!((&printed["cpu_ns"], &printed["source"]), (&5.into(), &"absent".into()));
    }
}
