// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of flows: charges the energy of each tick to the flows that used the CPUs.

use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::energy::power::MachinePower;
use mpwatch_model::energy::window::EnergyWindow;
use mpwatch_model::energy::{FlowEnergy, SnapshotEnergy};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::Bytes;

use super::flow::Flow;
use super::subflow::SubflowState;
use crate::energy::attribute::Split;
use crate::energy::ledger::Ledger;

/// What was charged so far.
pub(super) struct Energy {
    split: Split,
    ledger: Ledger,
    /// CPU accounts at the last tick.
    cpus: Vec<CpuAccounts>,
}

impl Energy {
    pub(super) fn new(machine: &MachinePower) -> Self {
        Self { split: Split::of(machine), ledger: Ledger::default(), cpus: Vec::new() }
    }

    /// Charges one window, after the flows have applied everything up to this tick.
    pub(super) fn on_tick<'a>(
        &mut self,
        window: &EnergyWindow,
        cpus: &[CpuAccounts],
        flows: impl Iterator<Item = &'a mut Flow>,
    ) {
        self.ledger.clear();
        self.ledger.add_cpus(&self.cpus, cpus);
        self.cpus.clear();
        self.cpus.extend_from_slice(cpus);
        for subflow in flows.flat_map(|flow| &mut flow.subflows) {
            let time = subflow.take_new_cpu_time();
            self.ledger.add_flow(subflow.record.id, time);
        }
        self.split.charge(window, &self.ledger);
    }

    /// Energy of a subflow. `None`: nothing was charged to it yet.
    pub(super) fn of(&self, subflow: &SubflowState) -> Option<FlowEnergy> {
        let charge = self.split.flow(subflow.record.id)?;
        let tcp = &subflow.record.tcp;
        Some(charge.energy(subflow.cpu()?.total()).over(tcp.bytes_sent + tcp.bytes_received))
    }

    /// Whether all CPU time of these subflows is charged.
    pub(super) fn are_settled(&self, mut subflows: impl Iterator<Item = SubflowId>) -> bool {
        subflows.all(|id| self.split.is_settled(id))
    }

    pub(super) fn forget(&mut self, subflows: impl Iterator<Item = SubflowId>) {
        subflows.for_each(|id| self.split.forget(id));
    }

    pub(super) fn snapshot(&self) -> SnapshotEnergy {
        self.split.snapshot()
    }

    /// Windows that were not charged because their sums did not match: a bug in mpwatch.
    pub(super) fn broken(&self) -> u64 {
        self.split.broken()
    }
}

/// Energy of a connection: the sum over its subflows, per its own payload.
pub(super) fn of_connection<'a>(
    parts: impl IntoIterator<Item = Option<&'a FlowEnergy>>,
    payload: Bytes,
) -> Option<FlowEnergy> {
    let known: Vec<&FlowEnergy> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| FlowEnergy::sum(known).over(payload))
}
