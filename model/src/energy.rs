// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time and energy as outputs show them: of a flow, of a zone of the machine, and of the windows that were lost.
//! Only data. How the numbers come about, and what they cannot say, stands in docs/energy.md.

pub mod power;
pub mod window;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::{Bytes, Microjoules, Nanos};

/// Where joules come from. Everything but the two `rapl` sources is an estimate and shown as one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// RAPL counters by the kernel's `power` PMU (`perf_event_open`).
    RaplPerf,
    /// RAPL counters by `/sys/class/powercap`.
    RaplPowercap,
    /// A virtual machine's share as its host estimates it.
    VmShare,
    /// Made up by a simulator, for demonstrations and tests.
    Simulated,
    /// CPU time times typical watts of such a CPU: no counter was read.
    Model,
    /// Nothing is known of energy here.
    #[default]
    Absent,
}

impl EnergySource {
    /// Whether hardware counters of this machine stand behind the numbers.
    pub fn is_measured(self) -> bool {
        matches!(self, Self::RaplPerf | Self::RaplPowercap)
    }

    /// The word in JSON and on screens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RaplPerf => "rapl-perf",
            Self::RaplPowercap => "rapl-powercap",
            Self::VmShare => "vm-share",
            Self::Simulated => "simulated",
            Self::Model => "model",
            Self::Absent => "absent",
        }
    }
}

/// By which rule joules that several causes share are divided. There is no true answer: hence `lo_uj` and `hi_uj`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Convention {
    /// Energy above idle, in proportion to exclusive CPU time.
    #[default]
    CpuTime,
}

impl Convention {
    /// The word in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu-time",
        }
    }
}

/// Where the idle power that was taken off comes from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum IdleSource {
    /// From `mpwatch calibrate` on this very machine and configuration.
    Calibrated,
    /// From quiet moments (below 3 % busy) of the last minutes.
    Observed,
    /// None was measured. Of a counter, `active_uj` is then an upper bound that holds all idle energy; of the source
    /// `model` it is what the model takes for active.
    #[default]
    Unknown,
}

impl IdleSource {
    /// The word in JSON and as a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Observed => "observed",
            Self::Unknown => "unknown",
        }
    }
}

/// What a flow cost so far. A connection's numbers are the sums of its subflows', as integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowEnergy {
    /// Energy above idle of its network path, microjoules. `null`: the source is `absent`.
    #[serde(rename = "active_uj")]
    pub active: Option<Microjoules>,
    /// Lower end of what `active_uj` may be, microjoules: had the flow been the last load to come.
    #[serde(rename = "lo_uj")]
    pub lo: Option<Microjoules>,
    /// Upper end, microjoules: had it been the first.
    #[serde(rename = "hi_uj")]
    pub hi: Option<Microjoules>,
    /// With its share of the idle energy, by CPU time, microjoules.
    #[serde(rename = "full_uj")]
    pub full: Option<Microjoules>,
    /// Joules of `active_uj` per gigabyte (10^9) of payload sent and received. `null`: no energy known, or no payload yet.
    pub j_per_gb: Option<f64>,
    /// Exclusive CPU time of its network path, nanoseconds.
    #[serde(rename = "cpu_ns")]
    pub cpu: Nanos,
    /// Where the joules come from.
    pub source: EnergySource,
    /// By which rule they were divided.
    pub convention: Convention,
    /// Where the idle power comes from.
    pub idle: IdleSource,
}

impl FlowEnergy {
    /// CPU time alone, where nothing is known of energy.
    pub fn absent(cpu: Nanos) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// With `j_per_gb` over this payload.
    #[must_use]
    pub fn over(mut self, payload: Bytes) -> Self {
        self.j_per_gb =
            self.active.filter(|_| payload.0 > 0).map(|active| active.joules() * 1e9 / payload.0 as f64);
        self
    }

    /// The sum of subflows; integers add up exactly, and unknown plus known is unknown. The weakest label wins.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Self::default() };
        parts.fold(Self { j_per_gb: None, ..*first }, |sum, part| Self {
            active: plus(sum.active, part.active),
            lo: plus(sum.lo, part.lo),
            hi: plus(sum.hi, part.hi),
            full: plus(sum.full, part.full),
            j_per_gb: None,
            cpu: sum.cpu + part.cpu,
            source: sum.source.max(part.source),
            convention: sum.convention,
            idle: sum.idle.max(part.idle),
        })
    }
}

fn plus(a: Option<Microjoules>, b: Option<Microjoules>) -> Option<Microjoules> {
    Some(a? + b?)
}

/// Energy of the machine since tracing began, and how much of it is explained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotEnergy {
    /// Where the joules come from.
    pub source: EnergySource,
    /// By which rule they are divided.
    pub convention: Convention,
    /// Where the idle power comes from; the weakest of all zones.
    pub idle: IdleSource,
    /// Zones that do not overlap: their sum is the machine's. Only those of which the energy of some window is known; see `lost` for why
    /// another is not here. Empty: the source is `absent`, or nothing is known yet.
    pub zones: Vec<ZoneEnergy>,
    /// Zones that contain others (`psys`) or lie inside them (`core`, `uncore`): to look at, never to add up.
    pub shown: Vec<OverlappingZone>,
    /// Windows whose energy is not known, the latest last; at most 32 are kept.
    pub lost: Vec<LostWindow>,
    /// What to do for better numbers. `null`: nothing.
    pub advice: Option<String>,
}

/// One zone since tracing began, microjoules. `zone_uj` is always the sum of all that follow it, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneEnergy {
    /// Name, as the kernel gives it: `package-0`, `package-0-die-1`; `package-0/dram` for one inside.
    pub zone: String,
    /// Energy of the zone in all windows that were not lost.
    pub zone_uj: Microjoules,
    /// Power in the latest window, microwatts. `null`: its energy is not known.
    pub power_uw: Option<u64>,
    /// Of that: flows, open and closed.
    pub flows_uj: Microjoules,
    /// Application code of processes that own sockets.
    pub app_uj: Microjoules,
    /// Other processes and the kernel's own threads.
    pub other_uj: Microjoules,
    /// Network work that could not be tied to a flow.
    pub net_shared_uj: Microjoules,
    /// Hardware interrupts and softirqs other than the network's.
    pub irq_uj: Microjoules,
    /// mpwatch itself.
    pub self_uj: Microjoules,
    /// Energy above idle of windows without any busy time, and rounding (below 2 uJ an account).
    pub unexplained_uj: Microjoules,
    /// Idle energy; zero while the idle power is unknown.
    pub idle_uj: Microjoules,
    /// Windows whose energy is not known, since tracing began.
    pub windows_lost: u64,
    /// How long those were, nanoseconds.
    pub lost_ns: Nanos,
    /// How often the zone vanished and came back.
    pub epoch: u32,
}

impl ZoneEnergy {
    /// The parts of `zone_uj`, each with its consumer.
    pub fn parts(&self) -> [(&'static str, Microjoules); 8] {
        [
            ("flows", self.flows_uj),
            ("their applications", self.app_uj),
            ("unattributed network", self.net_shared_uj),
            ("other processes", self.other_uj),
            ("interrupts", self.irq_uj),
            ("mpwatch", self.self_uj),
            ("unexplained", self.unexplained_uj),
            ("idle", self.idle_uj),
        ]
    }

    /// The sum of all parts.
    pub fn explained(&self) -> Microjoules {
        self.parts().into_iter().map(|(_, part)| part).sum()
    }
}

/// A zone that overlaps with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverlappingZone {
    /// Name of the zone.
    pub zone: String,
    /// Its energy since tracing began, microjoules.
    pub zone_uj: Microjoules,
}

/// Why the energy of a window is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LostReason {
    /// The window was so long that the counter may have wrapped more than once.
    Ambiguous,
    /// The counter went backwards, or jumped further than any power explains.
    Backwards,
    /// The zone vanished (package offline, module unloaded).
    Vanished,
    /// The machine was suspended.
    Suspended,
    /// The counter stood still while the machine was busy.
    Stuck,
    /// The counter could not be read.
    Unreadable,
}

/// A window whose energy is not known. It is in no total and never interpolated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostWindow {
    /// Name of the zone.
    pub zone: String,
    /// How long it was, nanoseconds.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Why.
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
    fn the_weakest_label_wins() {
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
    fn words_are_those_of_the_json() {
        let all = [
            EnergySource::RaplPerf,
            EnergySource::RaplPowercap,
            EnergySource::VmShare,
            EnergySource::Simulated,
            EnergySource::Model,
            EnergySource::Absent,
        ];
        for source in all {
            assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
        }
        for idle in [IdleSource::Calibrated, IdleSource::Observed, IdleSource::Unknown] {
            assert_eq!(serde_json::to_value(idle).unwrap(), idle.as_str());
        }
        assert_eq!(serde_json::to_value(Convention::CpuTime).unwrap(), Convention::CpuTime.as_str());
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
