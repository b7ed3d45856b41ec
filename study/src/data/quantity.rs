// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quantities of a study. One row of the table declares a quantity for results, tables, plots and CSV.

use mpwatch_model::metric::{self, Unit};
use serde::{Deserialize, Serialize};

/// Declares the quantities: variant, name in files, title, unit, meaning.
macro_rules! quantities {
    ($($variant:ident $name:literal $title:literal $unit:ident $help:literal;)*) => {
        /// A quantity of a study.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub(crate) enum Quantity {
            $(#[doc = $help] #[serde(rename = $name)] $variant,)*
        }

        impl Quantity {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn row(self) -> (&'static str, &'static str, Unit) {
                match self { $(Self::$variant => ($name, $title, Unit::$unit),)* }
            }
        }
    };
}

quantities! {
    Goodput "goodput_bps" "goodput" BitsPerSecond "Payload of the measured connections over the time from the first connect to the last byte.";
    Throughput "throughput_bps" "throughput" BitsPerSecond "All bytes on the wire of the measured connections (headers estimated) over the same time.";
    SlowestFlow "slowest_flow_bps" "slowest flow" BitsPerSecond "Lowest goodput of a measured connection.";
    FlowJain "flow_jain_index" "Jain index of flows" Ratio "Jain's fairness index of the connections' goodput (1: equal).";
    Requests "requests_per_s" "requests per second" Count "Requests with a response per second, as the application reports them.";
    CompletionTime "completion_s" "completion time" Seconds "Median time from connect to the last byte at the receiver of a connection.";
    SlowestCompletion "slowest_completion_s" "slowest completion" Seconds "Longest time from connect to the last byte at the receiver of a connection.";
    Power "power_w" "power" Watts "Mean power of the machine's energy zones during the traffic, idle power included.";
    MachineEnergy "machine_j" "energy of the machine" Joules "Mean power times the time from the first connect to the last byte.";
    FlowEnergy "flow_j" "energy of the flows" Joules "Energy above idle that is charged to the measured connections, both ends.";
    EnergyPerPayload "j_per_gb" "energy per payload" JoulesPerGigabyte "The same per gigabyte (10^9 bytes) of payload.";
    CpuTime "cpu_s" "CPU time of the flows" Seconds "CPU time of the network stack that is charged to the measured connections, both ends.";
    CpuPerPayload "cpu_s_per_gb" "CPU time per GB" Seconds "The same per gigabyte (10^9 bytes) of payload.";
    Retransmitted "retransmitted_ratio" "retransmitted" Ratio "Retransmitted share of the bytes that the subflows sent.";
    Excess "excess_ratio" "excess traffic" Ratio "Share of the bytes on the wire that is not payload: headers, retransmissions, reinjections.";
    Rtt "rtt_s" "RTT" Seconds "Median round-trip time of the sending subflows, weighted by their samples.";
    SecondSubflow "second_subflow_s" "second subflow after" Seconds "Time until the second subflow was established.";
    SecondSubflowBytes "second_subflow_bytes" "bytes before the second subflow" Bytes "Payload sent before the second subflow was established.";
    EffectiveBytes "effective_bytes" "bytes until the second subflow is effective" Bytes "Payload that had arrived when the second subflow had carried 10 % of it.";
    Outage "outage_s" "outage" Seconds "Longest outage of a connection: how long no subflow made progress.";
    Completed "completed_ratio" "completed" Ratio "Share of the connections whose payload arrived completely.";
    Jain "jain_index" "Jain index" Ratio "Jain's fairness index of the subflows' rates (1: equal).";
    Utilization "path_utilization" "paths used" Ratio "Mean share of the paths that carried at least 10 % of a connection's payload.";
    CoreUse "core_use" "core switches used" Ratio "Share of the core switches that carried at least 10 % of the traffic of all core switches.";
    Groups "bottleneck_groups" "bottlenecks found" Count "Number of distinct bottlenecks that mpwatch found for a connection.";
    ExtraSubflows "extra_subflows" "extra subflows found" Count "Subflows beyond one per bottleneck, as mpwatch found them.";
    Found "found_ratio" "extra subflows found" Ratio "Share of the subflows beyond one per queue that the method would close at the end.";
    FalselyClosed "falsely_closed_ratio" "paths falsely closed" Ratio "Share of the queues that would lose their last subflow.";
    DecisionTime "decision_s" "decision time" Seconds "Time until half of the pairs of subflows had a verdict.";
    Removed "removed_subflows" "subflows removed" Count "Extra subflows that elimination closed.";
    ShortCompletion "short_completion_s" "completion time of short flows" Seconds "Median time from connect to the last byte at the receiver of a short flow.";
    DeadlinesMissed "deadlines_missed_ratio" "deadlines missed" Ratio "Share of the short flows that took longer than 200 ms.";
    RateCorrelation "rate_correlation" "correlation of rates" Count "Correlation of the rates of the first two subflows over snapshots (-1: what one gains the other loses).";
    Timeouts "timeouts" "timeouts" Count "Retransmission timeouts of all subflows.";
}

impl Quantity {
    /// Its name in files; it ends in the unit.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    /// Its title in tables and plots.
    pub(crate) fn title(self) -> &'static str {
        self.row().1
    }

    /// Its unit.
    pub(crate) fn unit(self) -> Unit {
        self.row().2
    }

    /// The quantity with this name in files.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|quantity| quantity.name() == name)
    }

    /// Whether it is computed from joules, which may be estimates.
    pub(crate) fn is_energy(self) -> bool {
        self.unit().is_energy() || self == Self::Power
    }

    /// Limits of its values. A confidence interval of few runs may exceed them.
    pub(crate) fn range(self) -> (f64, f64) {
        match self.unit() {
            _ if self == Self::RateCorrelation => (-1.0, 1.0),
            Unit::Ratio => (0.0, 1.0),
            _ => (0.0, f64::INFINITY),
        }
    }

    /// A value with its unit.
    pub(crate) fn display(self, value: f64) -> String {
        match self {
            Self::RateCorrelation => format!("{value:+.2}"),
            // The mean of whole numbers.
            _ if self.unit() == Unit::Count => format!("{value:.1}"),
            _ => metric::display(self.unit(), Some(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_found_by_its_name_in_json() {
        for quantity in Quantity::ALL {
            assert_eq!(Quantity::by_name(quantity.name()), Some(*quantity));
            assert_eq!(serde_json::to_value(quantity).unwrap(), quantity.name());
        }
        assert_eq!(Quantity::by_name("watts"), None);
    }

    #[test]
    fn values_have_their_unit_and_range() {
        assert_eq!(Quantity::Power.display(21.54), "21.5 W");
        assert_eq!(Quantity::RateCorrelation.display(-0.987), "-0.99");
        assert_eq!(Quantity::Groups.display(1.5), "1.5");
        assert_eq!(Quantity::Completed.range(), (0.0, 1.0));
        assert_eq!(Quantity::RateCorrelation.range(), (-1.0, 1.0));
    }
}
